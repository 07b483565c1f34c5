/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampled allocations: who allocated, and who still holds it.
 *
 * A thread counts the bytes it allocates down to its next sample point. Points are a Poisson process over bytes with
 * mean ppa_heap_rate(), so a block of n bytes (counted as n + 1: empty blocks are blocks, too) is sampled with
 * probability p = 1 - exp(-(n + 1) / rate), and stands for 1 / p blocks of its size. Weights are added up block by block, never from averages: sums are
 * unbiased for any mixture of sizes, and the rate may change at any time.
 *
 * A sampled block's stack, size class and its thread's labels make its site (profile/sites.h); the block itself is entered in the table of live blocks (blocks.h). */
#ifndef PPA_HEAP_HEAP_H
#define PPA_HEAP_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/profile/sites.h"
#include "agent/profile/tags.h"

/* Counters of a heap site. Objects are in units of 2^-PPA_HEAP_FRACTION. */
enum { PPA_HEAP_ALLOC_OBJECTS, PPA_HEAP_ALLOC_BYTES, PPA_HEAP_FREE_OBJECTS, PPA_HEAP_FREE_BYTES };
enum { PPA_HEAP_FRACTION = 12 };

/* What a snapshot says of one site, scaled to the whole program. */
struct ppa_heap_values {
	int64_t alloc_objects, alloc_bytes, inuse_objects, inuse_bytes;
};

/* Read a site's counters, frees first, so that no block is seen freed before it is seen allocated. Context: server. */
struct ppa_heap_values ppa_heap_read(const struct ppa_site *s) PPA_CTX_SERVER;

/* All heap sites. The label of a site holds the largest size of its class in bytes, which is constant, for the label
 * "bytes"; and above that the labels that the allocating thread had then (profile/tags.h). */
extern struct ppa_sites ppa_heap_sites;

enum { PPA_HEAP_TAGS_SHIFT = 52 };
_Static_assert(PPA_TAGS_SETS <= 1 << (64 - PPA_HEAP_TAGS_SHIFT), "a set's number is above the size");

static inline int64_t ppa_heap_site_class(const struct ppa_site *s)
{
	return (int64_t)(s->label & ((UINT64_C(1) << PPA_HEAP_TAGS_SHIFT) - 1));
}

static inline uint32_t ppa_heap_site_tags(const struct ppa_site *s)
{
	return (uint32_t)(s->label >> PPA_HEAP_TAGS_SHIFT);
}

/* A block that is live now and was sampled. */
struct ppa_heap_block {
	const struct ppa_site *site;
	uint64_t bytes;
	uint64_t objects;     /* stands for so many blocks, in units of 2^-PPA_HEAP_FRACTION */
	uint64_t total_bytes; /* and so many bytes */
	uint64_t born_s;      /* CLOCK_MONOTONIC seconds */
};

/* Visit every sampled block that is live now. Context: server. */
void ppa_heap_each_block(void (*visit)(const struct ppa_heap_block *b, void *arg), void *arg) PPA_CTX_SERVER;

/* Mean bytes between samples, as set; 0 is off, 1 every allocation. A thread takes a new rate up at its next sample
 * point; at its next allocation but one when sampling was off since the start, within a MiB of allocations when it was
 * switched off later. Context: any. */
uint64_t ppa_heap_rate(void) PPA_CTX_ANY;
void ppa_heap_set_rate(uint64_t bytes) PPA_CTX_ANY;

/* What is not seen, and why; NULL if everything is. For the profile's comments and one line on stderr. Text is static. Context: server. */
const char *ppa_heap_unseen(void) PPA_CTX_SERVER;
void ppa_heap_unseen_reset(void) PPA_CTX_CHILD;

/* Was any hook entered by a thread that is not ours? Context: any. */
bool ppa_heap_is_entered(void) PPA_CTX_ANY;

struct ppa_heap_state {
	uint64_t samples;  /* taken since the start */
	uint64_t lost;	   /* sampled blocks for which there was no room: their frees are not counted, nor they */
	uint64_t live;	   /* sampled blocks live now */
	uint64_t rate_now; /* larger than the rate set when the table of live blocks nears the memory limit */
};
struct ppa_heap_state ppa_heap_get_state(void) PPA_CTX_ANY;

/* For the allocator: the calling thread asks for the rate at its next allocation if its count would never run out.
 * Context: malloc. */
void ppa_heap_ask_again(void) PPA_CTX_MALLOC;

/* For the hooks: n bytes are about to be allocated by a thread whose count ran out. Is the block to be recorded? If so,
 * *rate is what to record it with. Context: malloc. */
bool ppa_heap_decide(size_t n, uint64_t *rate) PPA_CTX_MALLOC;

/* Record block p of n bytes, just allocated; caller is the return address of the hook. Context: malloc. */
void ppa_heap_record(const void *p, size_t n, uint64_t rate, uintptr_t caller) PPA_CTX_MALLOC;

/* A recorded block is gone. Context: malloc. */
struct ppa_block;
void ppa_heap_forget(const struct ppa_block *l) PPA_CTX_MALLOC;

/* Begin to sample. 0 or -ENOMEM (nothing is sampled then). Context: init. */
int ppa_heap_start(uint64_t rate) PPA_CTX_INIT;

/* The agent is off in this process: nothing will be sampled. Context: init. */
void ppa_heap_stay_off(void) PPA_CTX_INIT;

/* The child of a fork goes on with the parent's live heap. Context: child. */
void ppa_heap_reset(void) PPA_CTX_CHILD;

/* An address inside the genuine malloc: tells whose allocator it is. Context: server. */
uintptr_t ppa_heap_allocator_address(void) PPA_CTX_SERVER;

/* The address of our malloc. Context: server. */
uintptr_t ppa_heap_hook_address(void) PPA_CTX_SERVER;

#endif
