/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile before anything in it has a name: stacks and what is charged to them at one moment. Cheap to take, to hold
 * over the seconds of a delta, and to subtract; only what is left is named.
 *
 * A row is identified by its stack, the libraries that the stack went through (origin), its number and tags, not by where it
 * is stored, so that kinds without permanent sites can be subtracted, too. */
#ifndef PPA_SNAPSHOT_ROWS_H
#define PPA_SNAPSHOT_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/snapshot/snapshot.h"

struct ppa_site;

struct ppa_row {
	const uintptr_t *pcs; /* borrowed: a site's, which stays for ever, or a copy of the table's own */
	uint32_t npcs;
	uint32_t born; /* struct ppa_site's, as is the next */
	uint64_t origin;
	uint64_t hash;
	int64_t number; /* value of the kind's numeric label, 0 if it has none */
	uint32_t tags;	/* labels that the program set: profile/tags.h */
	int64_t values[PPA_SNAPSHOT_MAX_VALUES];
};

struct ppa_rows {
	struct ppa_row *list; /* n of them, in order of addition */
	size_t n, cap;
	uint32_t *places;		/* open addressing, index + 1; made by the first find */
	size_t nplaces;			/* a power of two */
	struct ppa_rows_copies *copies; /* stacks that are no site's */
	int err;			/* 0 or -ENOMEM; sticky: what could not be added is missing */
};

/* A new row for a site; the caller knows that there is none yet. Its values are zero. NULL on no memory. Context: server. */
struct ppa_row *ppa_rows_add(struct ppa_rows *r, const struct ppa_site *s, int64_t number) PPA_CTX_SERVER;

/* The same with labels of the program's. Context: server. */
struct ppa_row *ppa_rows_add_tagged(struct ppa_rows *r, const struct ppa_site *s, int64_t number,
				    uint32_t tags) PPA_CTX_SERVER;

/* The row of this site and number, added if it is new. NULL on no memory. Context: server. */
struct ppa_row *ppa_rows_at(struct ppa_rows *r, const struct ppa_site *s, int64_t number) PPA_CTX_SERVER;
struct ppa_row *ppa_rows_at_tagged(struct ppa_rows *r, const struct ppa_site *s, int64_t number,
				   uint32_t tags) PPA_CTX_SERVER;

/* The row of a stack that is no site's, which is copied, a number and tags; added if it is new. For kinds of a moment, whose
 * stacks all mean something now. NULL on no memory. Context: server. */
struct ppa_row *ppa_rows_at_stack(struct ppa_rows *r, const uintptr_t *pcs, uint32_t npcs, int64_t number,
				  uint32_t tags) PPA_CTX_SERVER;

/* now - before, row by row; rows that are only in before become negative ones. Errors go into now->err. before must
 * live as long as now.
 * Context: server. */
void ppa_rows_subtract(struct ppa_rows *now, const struct ppa_rows *before) PPA_CTX_SERVER;

/* Context: server. */
void ppa_rows_free(struct ppa_rows *r) PPA_CTX_SERVER;

#endif
