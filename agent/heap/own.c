/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks are cut from the range one behind the other, in sizes that are powers of two; a free one goes onto its size's
 * list. A thread's table of thread-local storage is a few hundred bytes, and there are some dozens of threads: a full
 * range means that generations of forks have left theirs behind, and the caller falls back on the genuine allocator.
 * Pages that were never used cost nothing. */
#include "agent/heap/own.h"

#include <string.h>

#include "agent/base/lock.h"

enum { SMALLEST_SHIFT = 5, CLASSES = 10 };

struct free_block {
	struct free_block *next;
};

char ppa_own_range[PPA_OWN_RANGE_BYTES] __attribute__((aligned(1 << SMALLEST_SHIFT)));

static struct {
	struct ppa_lock lock; /* protects what follows; a leaf */
	size_t used;	      /* bytes cut so far */
	struct free_block *free[CLASSES];
} own;

static unsigned class_of(size_t n)
{
	unsigned i = 0;

	while (i < CLASSES && (size_t)1 << (SMALLEST_SHIFT + i) < n)
		i++;
	return i;
}

void *ppa_own_alloc(size_t n)
{
	unsigned i = class_of(n);
	size_t bytes = (size_t)1 << (SMALLEST_SHIFT + i);
	void *p = NULL;

	if (i == CLASSES)
		return NULL;
	ppa_lock(&own.lock);
	if (own.free[i]) {
		p = own.free[i];
		own.free[i] = own.free[i]->next;
	} else if (bytes <= PPA_OWN_RANGE_BYTES - own.used) {
		p = ppa_own_range + own.used;
		own.used += bytes;
	}
	ppa_unlock(&own.lock);
	return p ? memset(p, 0, bytes) : NULL;
}

void ppa_own_free(void *p, size_t n)
{
	struct free_block *b = p;
	unsigned i = class_of(n);

	ppa_lock(&own.lock);
	b->next = own.free[i];
	own.free[i] = b;
	ppa_unlock(&own.lock);
}

void ppa_own_reset(void)
{
	ppa_lock_reset(&own.lock);
	/* Somebody may have been half way through a list. */
	memset(own.free, 0, sizeof(own.free));
}
