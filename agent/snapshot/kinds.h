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

	/* Each on a server thread. */
	const char *(*label_text)(uint64_t number); /* its value; NULL: the number itself */
	void (*gather)(struct ppa_rows *rows);	    /* errors in rows->err */
	int64_t (*period)(void);
	uint64_t (*count)(void);		      /* for the index: of records, or, as in Go, of threads */
	void (*comment)(struct ppa_picture *p);	      /* what the reader must know to trust the figures; may be NULL */
	int (*build_each)(struct ppa_snapshot **out); /* what debug=2 shows, one by one; NULL: the same as debug=1 */
	/* What debug=1 appends; may be NULL. */
	const char *(*text_tail)(struct ppa_picture *p, bool may_pause);
};

/* The kind of exactly this name, NULL if there is none. Context: any. */
const struct ppa_kind *ppa_kinds_find(const char *name) PPA_CTX_ANY;

/* The kinds by name; NULL after the last. Context: any. */
const struct ppa_kind *ppa_kinds_at(size_t i) PPA_CTX_ANY;

#endif
