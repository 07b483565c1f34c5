/* SPDX-License-Identifier: Apache-2.0
 *
 * The private heap: malloc for our own threads and for the vendored code that runs on them, on memory mapped by us.
 * Nothing here ever touches the target's allocator, so the target's heap, its statistics and its corruption are not
 * ours and ours are not its. The vendored archives are redirected here at build time (D9).
 *
 * Semantics are those of malloc(3) with 16-byte alignment; failure is NULL and errno ENOMEM. */
#ifndef PPA_BASE_VHEAP_H
#define PPA_BASE_VHEAP_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

void *ppa_vheap_malloc(size_t bytes) PPA_CTX_SERVER;
void *ppa_vheap_calloc(size_t n, size_t bytes) PPA_CTX_SERVER;
void *ppa_vheap_realloc(void *p, size_t bytes) PPA_CTX_SERVER;
void ppa_vheap_free(void *p) PPA_CTX_SERVER;
char *ppa_vheap_strdup(const char *s) PPA_CTX_SERVER;

/* How many items of item_bytes an array that is full with n should next have room for; first: for one that has none. It
 * doubles while it is copied to grow; larger blocks are moved by their pages, for whom a quarter more is enough: what
 * grows slowly and for ever never takes twice its size at a stroke. Context: server. */
static inline size_t ppa_vheap_room_after(size_t n, size_t first, size_t item_bytes) PPA_CTX_SERVER;

/* Bytes mapped for the heap now: what the agent costs in address space. Context: any. */
uint64_t ppa_vheap_mapped_bytes(void) PPA_CTX_ANY;

/* Give pages that hold no live block back to the kernel. Context: server. */
void ppa_vheap_trim(void) PPA_CTX_SERVER;

/* Forget everything: a fork child starts with an empty heap, because another thread may have held the lock at the
 * fork. Blocks of the parent's stay mapped (copy on write, never touched again). Context: child. */
void ppa_vheap_reset(void) PPA_CTX_CHILD;

/* ---- inline part ---- */

enum { PPA_VHEAP_MOVED_BYTES = 256 << 10 }; /* a block from here on grows by moving */

static inline size_t ppa_vheap_room_after(size_t n, size_t first, size_t item_bytes)
{
	if (!n)
		return first;
	return n < PPA_VHEAP_MOVED_BYTES / item_bytes ? 2 * n : n + n / 4 + 1;
}

#endif
