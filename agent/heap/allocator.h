/* SPDX-License-Identifier: Apache-2.0
 *
 * The genuine allocator behind our hooks, whosever it is, and what the agent serves from its own heap instead.
 *
 * The table can be called from the first instruction on: until dlsym(RTLD_NEXT) has answered its entries are functions that ask it, and
 * what dlsym itself allocates meanwhile comes from the agent's heap. So does what libc allocates for threads of the
 * agent (their tables of thread-local storage): the target's heap is the target's. Such blocks stand in the table of
 * live blocks, because their free may come from anywhere at any time. */
#ifndef PPA_HEAP_ALLOCATOR_H
#define PPA_HEAP_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/attr.h"
#include "agent/base/self.h"

struct ppa_allocator {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*valloc)(size_t);
	void *(*pvalloc)(size_t);
	size_t (*malloc_usable_size)(void *);
	bool nests; /* musl's own: calloc and memalign come back to our hooks of malloc and aligned_alloc */
};

extern struct ppa_allocator ppa_allocator __attribute__((visibility("hidden")));

/* Is what the calling thread allocates now the agent's affair? Context: any. */
static inline bool ppa_allocator_serves_own(void)
{
	return ppa_self.is_ours || ppa_self.is_spawning || ppa_self.is_resolving;
}

/* A block of the agent's heap for libc, zeroed if asked, or (no memory) one of the genuine allocator's.
 * Context: any. */
void *ppa_allocator_own(size_t n, bool zeroed) PPA_CTX_ANY;

/* Have the hooks jump to the genuine functions directly (base/static_call.h), where sampling is on from the start: then
 * the table's entries stay what they are. Context: init. */
void ppa_allocator_call_directly(void) PPA_CTX_INIT;

/* From now on each thread whose count never runs out asks again at its next allocation: for who switches sampling on in
 * a process that was started without. The table's entries get a step in between for it, for good: nobody knows when
 * the last thread has come by. Context: any. */
void ppa_allocator_ask_threads(void) PPA_CTX_ANY;

#endif
