/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/base/ring.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "agent/base/sys.h"

int ppa_ring_init(struct ppa_ring *r, size_t bytes)
{
	r->words = ppa_sys_map(bytes);
	if (!r->words)
		return -ENOMEM;
	r->cap = bytes / sizeof(uint64_t);
	return 0;
}

PPA_CTX_SIGNAL static void put(struct ppa_ring *r, uint64_t at, const struct ppa_ring_part *p)
{
	const uint64_t *src = p->data;

	for (size_t i = 0; i < p->words; i++)
		atomic_store_explicit(&r->words[(at + i) & (r->cap - 1)], src[i], memory_order_relaxed);
}

bool ppa_ring_push(struct ppa_ring *r, const struct ppa_ring_part *a, const struct ppa_ring_part *b)
{
	uint64_t need = 1 + a->words + b->words;
	uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);

	do {
		/* acquire: the words before tail are zero again; pairs with the release in ppa_ring_pop. */
		if (head + need > atomic_load_explicit(&r->tail, memory_order_acquire) + r->cap)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&r->head, &head, head + need, memory_order_relaxed,
							memory_order_relaxed));
	put(r, head + 1, a);
	put(r, head + 1 + a->words, b);
	/* release: the record is complete; pairs with the acquire in ppa_ring_pop. */
	atomic_store_explicit(&r->words[head & (r->cap - 1)], need, memory_order_release);
	return true;
}

size_t ppa_ring_pop(struct ppa_ring *r, uint64_t *out, size_t cap)
{
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed), need;

	if (!r->words)
		return 0;
	/* acquire: pairs with the commit in ppa_ring_push. */
	need = atomic_load_explicit(&r->words[tail & (r->cap - 1)], memory_order_acquire);
	if (!need)
		return 0;
	for (uint64_t i = 1; i < need; i++) {
		_Atomic uint64_t *w = &r->words[(tail + i) & (r->cap - 1)];

		if (i - 1 < cap)
			out[i - 1] = atomic_load_explicit(w, memory_order_relaxed);
		atomic_store_explicit(w, 0, memory_order_relaxed);
	}
	atomic_store_explicit(&r->words[tail & (r->cap - 1)], 0, memory_order_relaxed);
	/* release: the words are zero; pairs with the acquire in ppa_ring_push. */
	atomic_store_explicit(&r->tail, tail + need, memory_order_release);
	return need - 1 < cap ? need - 1 : cap;
}

bool ppa_ring_is_filling(const struct ppa_ring *r)
{
	return atomic_load_explicit(&r->head, memory_order_relaxed) -
		       atomic_load_explicit(&r->tail, memory_order_relaxed) >
	       r->cap / 2;
}

void ppa_ring_reset(struct ppa_ring *r)
{
	if (!r->words)
		return;
	ppa_syscall(SYS_madvise, (long)r->words, (long)(r->cap * sizeof(uint64_t)), MADV_DONTNEED, 0, 0, 0);
	atomic_store_explicit(&r->head, 0, memory_order_relaxed);
	atomic_store_explicit(&r->tail, 0, memory_order_relaxed);
}
