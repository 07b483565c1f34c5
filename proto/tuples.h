/* SPDX-License-Identifier: Apache-2.0
 *
 * Up to four numbers that belong together, each combination kept once and known by its index, in order of first use:
 * what proto/strtab.h is for strings. */
#ifndef PPA_PROTO_TUPLES_H
#define PPA_PROTO_TUPLES_H

#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_tuple {
	uint64_t v[4];
};

struct ppa_tuples {
	struct ppa_tuple *list; /* read list[0..n), in index order */
	uint32_t n, cap;
	uint32_t *slots; /* index + 1 into list, 0 is free */
	uint32_t nslots; /* a power of two, or 0 before the first */
	int err;	 /* 0 or -ENOMEM; sticky */
};

/* The index of t, entered if it is new. Without memory: 0, and err says so. A zeroed struct is an empty table.
 * Context: server. */
uint32_t ppa_tuples_intern(struct ppa_tuples *all, struct ppa_tuple t) PPA_CTX_SERVER;

/* Context: server. */
void ppa_tuples_free(struct ppa_tuples *all) PPA_CTX_SERVER;

#endif
