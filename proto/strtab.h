/* SPDX-License-Identifier: Apache-2.0
 *
 * The string table of a profile: each distinct string has one index, in order of first use, and
 * index 0 is "". Strings are borrowed, not copied: they must stay as they are until
 * ppa_strtab_free. */
#ifndef PPA_PROTO_STRTAB_H
#define PPA_PROTO_STRTAB_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_strtab_entry {
	const char *text; /* borrowed */
	uint32_t len;	  /* bytes, without the NUL; a longer string is cut */
	uint32_t hash;
};

struct ppa_strtab {
	struct ppa_strtab_entry *entries; /* read entries[0..n), in index order */
	uint32_t n, cap;
	uint32_t *slots; /* index into entries, 0 is free: "" is never looked up */
	uint32_t nslots; /* a power of two, or 0 before the first string */
	int err;	 /* 0 or -ENOMEM; sticky */
};

/* An empty table, which already holds "". A refused allocation is kept in err. Context: server. */
void ppa_strtab_init(struct ppa_strtab *t) PPA_CTX_SERVER;

/* The index of text, entered if it is new; NULL is "". Without memory: 0, and err says so. Context:
 * server. */
uint32_t ppa_strtab_intern(struct ppa_strtab *t, const char *text) PPA_CTX_SERVER;

/* Free the table, not the strings. Context: server. */
void ppa_strtab_free(struct ppa_strtab *t) PPA_CTX_SERVER;

#endif
