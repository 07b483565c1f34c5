/* SPDX-License-Identifier: Apache-2.0
 *
 * The handlers' side: a few modules, published by count, never changed, kept over fork. unindexed_learn.c adds them. */
#include "unwind/walk/unindexed.h"

#include <stdatomic.h>

enum { MODULES_MAX = 16 };

static struct {
	/* release: the modules below it are complete; pairs with the acquire in ppa_unindexed_find. */
	_Atomic unsigned n;
	struct ppa_unindexed modules[MODULES_MAX];
} unindexed;

bool ppa_unindexed_add(const struct ppa_unindexed *u)
{
	unsigned n = atomic_load_explicit(&unindexed.n, memory_order_relaxed);

	if (n == MODULES_MAX)
		return false;
	unindexed.modules[n] = *u;
	atomic_store_explicit(&unindexed.n, n + 1, memory_order_release);
	return true;
}

PPA_CTX_SIGNAL static uintptr_t search(const struct ppa_unindexed *u, uintptr_t pc)
{
	size_t lo = 0, n = u->n;

	/* Entries before lo are at or before pc, those from lo + n on after it. */
	while (n) {
		size_t half = n / 2;

		if (u->text_lo + u->entries[lo + half].start <= pc) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo ? u->lo + u->entries[lo - 1].record : 0;
}

uintptr_t ppa_unindexed_find(uintptr_t pc, const struct ppa_unindexed **module)
{
	unsigned n = atomic_load_explicit(&unindexed.n, memory_order_acquire);

	for (unsigned i = 0; i < n; i++) {
		const struct ppa_unindexed *u = &unindexed.modules[i];

		if (pc < u->text_lo || pc >= u->text_hi)
			continue;
		*module = u;
		return search(u, pc);
	}
	return 0;
}
