/* SPDX-License-Identifier: Apache-2.0
 *
 * The profiles that are taken at a moment (all but the CPU profile and the trace): one table says how each is called,
 * what its values mean, and where they come from. Collector, index page, router and text form all read it; a new kind
 * is a row in kinds.c and a function that gathers its rows. */
#ifndef PPA_SNAPSHOT_KINDS_H
#define PPA_SNAPSHOT_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/snapshot/snapshot.h"

struct ppa_named_request;
struct ppa_picture;
struct ppa_rows;

struct ppa_kind {
	const char *name; /* the endpoint, the file's name, the snapshot's name */
	const char *help; /* one sentence for the index, HTML */
	const char *cost; /* what keeping and taking it costs the program, for the index, HTML */
	struct ppa_value_type types[PPA_SNAPSHOT_MAX_VALUES];
	uint32_t ntypes;
	const char *default_type; /* NULL: unset, the last is shown first */
	struct ppa_value_type period_type;
	enum ppa_form form;
	bool has_delta;	     /* seconds= gives the difference of two moments */
	bool cuts_allocator; /* leaf frames of allocators say nothing: the caller is meant */
	const char *label;   /* key of the label made of the rows' number; NULL: none */
	unsigned custom;     /* number + 1 of a profile of the program's own (api/custom.h); 0: one of ours */

	/* Each on a server thread. gather and count: by way of ppa_kinds_gather and ppa_kinds_count. */
	const char *(*label_text)(uint64_t number); /* its value; NULL: the number itself */
	void (*gather)(struct ppa_rows *rows);	    /* errors in rows->err */
	int64_t (*period)(void);
	uint64_t (*count)(void);		/* for the index: of records, or, as in Go, of threads */
	void (*comment)(struct ppa_picture *p); /* what the reader must know to trust the figures; may be NULL */
	/* What debug=2 shows, one by one; NULL: the same as debug=1. */
	int (*build_each)(const struct ppa_named_request *req, struct ppa_snapshot **out);
	/* What debug=1 appends; may be NULL. */
	const char *(*text_tail)(struct ppa_picture *p, bool may_pause);
};

/* The kind of exactly this name, NULL if there is none. A kind stays for ever. Context: server. */
const struct ppa_kind *ppa_kinds_find(const char *name) PPA_CTX_SERVER;

/* The kinds by name, the program's own among them; NULL after the last. Context: server. */
const struct ppa_kind *ppa_kinds_at(size_t i) PPA_CTX_SERVER;

/* Is this the name of one of ours? Context: any. */
bool ppa_kinds_is_ours(const char *name) PPA_CTX_ANY;

/* The kind's rows; its count for the index. Context: server. */
void ppa_kinds_gather(const struct ppa_kind *kind, struct ppa_rows *rows) PPA_CTX_SERVER;
uint64_t ppa_kinds_count(const struct ppa_kind *kind) PPA_CTX_SERVER;

/* For kinds.c: the kind of the program's profile of this number, NULL if there is none. Context: server. */
const struct ppa_kind *ppa_kinds_custom(size_t number) PPA_CTX_SERVER;

/* Context: child. */
void ppa_kinds_reset(void) PPA_CTX_CHILD;

#endif
