/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampled blocks that are live: address -> site, size, weight, birth. And the question every free asks: may this
 * address be one of them? Answered by one byte of a small table indexed by address, in the caller's instructions.
 *
 * Blocks of the agent's own heap that libc or the loader were given (see hook/malloc.c) are entered as well, because their
 * free comes through the same door. */
#ifndef PPA_HEAP_BLOCKS_H
#define PPA_HEAP_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/heap/countdown_x86_64.h"

struct ppa_site;

struct ppa_block {
	struct ppa_site *site; /* or one of the two below */
	uint64_t bytes;	       /* asked for */
	uint64_t weight;       /* stands for so many blocks, in units of 2^-12 */
	uint64_t born_s;       /* seconds */
};

/* Instead of a site: a block of the agent's heap; one of the parent's agent's heap, in the child of a fork. */
#define PPA_BLOCK_OWN ((struct ppa_site *)1)
#define PPA_BLOCK_ORPHAN ((struct ppa_site *)2)

/* One byte for each 256 bytes of address, folded: how many entries lie there, 255 for many. Neighbouring blocks share
 * bytes and cache lines of the table, and a live sampled block disturbs only the frees next to it. */
struct ppa_blocks_filter {
	uint64_t mask;
	_Atomic uint8_t counts[];
};
enum { PPA_BLOCKS_FILTER_SHIFT = 8 };

extern _Atomic(struct ppa_blocks_filter *) ppa_blocks_filter __attribute__((visibility("hidden")));

/* The byte that is not zero if p may be in the table. Context: malloc. */
static inline __attribute__((always_inline)) const _Atomic uint8_t *ppa_blocks_filter_byte(const void *p)
{
	/* relaxed: whoever frees a block got its address after it was entered, and the address carries the order. */
	struct ppa_blocks_filter *f = atomic_load_explicit(&ppa_blocks_filter, memory_order_relaxed);

	return &f->counts[(uintptr_t)p >> PPA_BLOCKS_FILTER_SHIFT & f->mask];
}

/* May p be in the table? Never false for one that is. Context: malloc. */
static inline __attribute__((always_inline)) bool ppa_blocks_may_have(const void *p)
{
	return ppa_arch_is_set(ppa_blocks_filter_byte(p));
}

/* Enter p, which is not null and was just allocated. An entry that stands for the same address is handed out in *stale: that
 * block was freed by a way we do not see. False if there is no room. Context: malloc. */
bool ppa_blocks_add(const void *p, const struct ppa_block *l, struct ppa_block *stale, bool *has_stale) PPA_CTX_MALLOC;

/* Remove p; false if it is not there. Context: malloc. */
bool ppa_blocks_remove(const void *p, struct ppa_block *out) PPA_CTX_MALLOC;

/* Is p there? Context: malloc. */
bool ppa_blocks_find(const void *p, struct ppa_block *out) PPA_CTX_MALLOC;

/* For realloc, which may fail: hide p's entry, so that the address may be used anew by others, and later either drop it
 * or put it back. The place is NULL if p is not there. A hidden entry is still seen by each. Context: malloc. */
struct ppa_block_place;
struct ppa_block_place *ppa_blocks_hide(const void *p, struct ppa_block *out) PPA_CTX_MALLOC;
void ppa_blocks_drop(struct ppa_block_place *place, const void *p, const struct ppa_block *was) PPA_CTX_MALLOC;
void ppa_blocks_restore(struct ppa_block_place *place, const void *p) PPA_CTX_MALLOC;

/* Entries now, those of them that are samples, and how many entries there may be without crowding, as far as the budget
 * goes. Context: malloc. */
uint64_t ppa_blocks_count(void) PPA_CTX_MALLOC;
uint64_t ppa_blocks_sampled(void) PPA_CTX_MALLOC;
uint64_t ppa_blocks_room(void) PPA_CTX_MALLOC;

/* Visit all; entries that come or go meanwhile may or may not be seen. Context: server. */
void ppa_blocks_each(void (*visit)(const struct ppa_block *l, void *arg), void *arg) PPA_CTX_SERVER;

/* The child of a fork: own blocks are orphans, and nobody is growing anything. Context: child. */
void ppa_blocks_reset(void) PPA_CTX_CHILD;

#endif
