/* SPDX-License-Identifier: Apache-2.0
 *
 * Which piece of generated code lies where, by what a program says of itself over time: later words overwrite earlier
 * ones. Entries are sorted and do not overlap; names are kept once each, so that code that moves about costs 16 bytes.
 *
 * Words are gathered in batches. A batch is sorted by merging, with one step for all of it: lay a newer sorted list over
 * an older one. In the end the batch is laid over the map in the same way.
 *
 * Full: everything is forgotten and the map fills anew, because code without a name is better than a wrong one. All
 * memory is the private heap's. Not thread safe: jit.c's lock. */
#ifndef PPA_UNWIND_JIT_CODEMAP_H
#define PPA_UNWIND_JIT_CODEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

enum {
	PPA_CODEMAP_BATCH = 1024,
	PPA_CODEMAP_NAME_MAX = 1500, /* bytes; longer names are cut */
};

struct ppa_codemap_entry {
	uint64_t start;
	uint32_t size; /* bytes, never 0 */
	uint32_t name; /* offset into the names; 0: nothing is known of it (any more) */
};

/* Zero is an empty map without room: set max_bytes. */
struct ppa_codemap {
	struct ppa_codemap_entry *entries, *spare;
	uint32_t n, cap; /* of both arrays */
	struct ppa_codemap_entry *batch;
	uint32_t nbatch;
	char *names; /* NUL terminated each, the first one is empty */
	size_t names_len, names_cap;
	uint32_t *index; /* open addressing over the names; 0: free */
	uint32_t nindex, index_cap;
	uint64_t max_bytes;
	uint64_t forgotten; /* entries that were lost because the map was full; grows */
};

/* Note that [start, start + size) is the code of this name now; an empty name: of nobody. What cannot be (no size,
 * beyond the end of the address space) is ignored. 0, or -ENOMEM: the map has not changed. Context: server. */
int ppa_codemap_add(struct ppa_codemap *m, uint64_t start, uint64_t size, const char *name, size_t len) PPA_CTX_SERVER;

/* Note that code moved, and its name with it. 0 or -ENOMEM. Context: server. */
int ppa_codemap_move(struct ppa_codemap *m, uint64_t from, uint64_t to, uint64_t size) PPA_CTX_SERVER;

/* Let what was added count. Before that lookups do not see it. 0 or -ENOMEM: it is still waiting. Context: server. */
int ppa_codemap_settle(struct ppa_codemap *m) PPA_CTX_SERVER;

/* The piece of code around an address: its name, NUL terminated and valid until the map changes, and where it begins.
 * NULL if it has none. Context: server. */
const char *ppa_codemap_find(const struct ppa_codemap *m, uint64_t address, uint64_t *start) PPA_CTX_SERVER;

/* Bytes that the map holds. Context: server. */
uint64_t ppa_codemap_bytes(const struct ppa_codemap *m) PPA_CTX_SERVER;

/* Forget everything and free the memory; max_bytes and forgotten stay. Context: server. */
void ppa_codemap_clear(struct ppa_codemap *m) PPA_CTX_SERVER;

#endif
