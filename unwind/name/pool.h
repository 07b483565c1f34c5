/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that is given back all at once: texts, each kept once, and small arrays, in chunks of the private heap. When
 * the limit is reached it gives nothing more, and what is there stays. */
#ifndef PPA_UNWIND_NAME_POOL_H
#define PPA_UNWIND_NAME_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_pool_chunk;

/* Zero, but for max_bytes, is an empty pool. */
struct ppa_pool {
	size_t max_bytes;
	/* the pool's own */
	struct ppa_pool_chunk *chunks;
	size_t left; /* in the newest chunk */
	size_t bytes;
	const char **texts; /* open addressing by hash */
	size_t ntexts, cap;
};

/* bytes aligned to 8, or NULL. Context: server. */
void *ppa_pool_alloc(struct ppa_pool *p, size_t bytes) PPA_CTX_SERVER;

/* The pool's copy of the text, the same pointer for the same text; NULL on no memory. Context: server. */
const char *ppa_pool_text(struct ppa_pool *p, const char *text) PPA_CTX_SERVER;

/* Give all back; max_bytes stays. Context: server. */
void ppa_pool_free(struct ppa_pool *p) PPA_CTX_SERVER;

#endif
