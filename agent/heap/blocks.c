/* SPDX-License-Identifier: Apache-2.0
 *
 * Levels of groups. A group holds 16 addresses side by side, and what belongs to them; an address may be in its group of
 * any level. An entry goes into the newest level that has room, and when there is none a level four times as large is
 * added (from the fifth on, twice as large). Nothing is ever moved, a place is free again at once, and a search looks at whole groups: no tombstones, no
 * growing probes.
 *
 * A place is claimed by one compare-and-swap on its address (0 -> BUSY), filled, and published by storing the address;
 * whoever removes swaps the address to 0. Only growing takes a lock, by a try; who does not get it waits a bounded time,
 * because a new level takes a system call, and then gives up the sample.
 *
 * The filter counts in bytes. It grows with the entries, so that chance hits stay rare: a new one is filled while all
 * who enter count in both, and only then takes the old one's place. Removals leave it alone meanwhile, so it may
 * count too much, never too little. */
#include "agent/heap/blocks.h"

#include <sched.h>
#include <sys/syscall.h>

#include "agent/base/budget.h"
#include "agent/base/lock.h"
#include "agent/base/sys.h"

enum {
	GROUP = 16,
	LEVELS = 16,
	FIRST_GROUPS = 64,
	FAST_LEVELS = 3, /* after the first: each four times the one before; the others twice */
	PATIENCE = 2000, /* tries to get the lock of growing, with a yield between: some ms */
	BUSY = 1,
	FIRST_FILTER_BYTES = 4 << 10,
	FILTER_BYTES_MAX = 16 << 20,
	FILTER_ROOM = 8, /* bytes of filter for each entry */
	MANY = 255,
	HIDDEN = 1, /* bit of an address; blocks are aligned to more */
};

struct ppa_block_place {
	_Atomic uintptr_t addr;
};

struct group {
	struct ppa_block_place places[GROUP];
	struct ppa_block entries[GROUP];
};

struct level {
	uint64_t mask;
	struct group groups[];
};

static struct {
	uint64_t mask;
	_Atomic uint8_t counts[FIRST_FILTER_BYTES];
} first_filter = {.mask = FIRST_FILTER_BYTES - 1};

_Atomic(struct ppa_blocks_filter *) ppa_blocks_filter = (struct ppa_blocks_filter *)&first_filter;

static struct {
	_Atomic(struct level *) levels[LEVELS];
	_Atomic uint32_t nlevels;
	_Atomic(struct ppa_blocks_filter *) next_filter; /* being filled, or NULL */
	_Atomic uint64_t count, own;			 /* entries; those of them that are no samples */
	struct ppa_lock growing;			 /* tried, never waited for */
	_Atomic bool is_stuck; /* its holder has not let go for long: jumped out of by a handler of the target */
} live;

PPA_CTX_MALLOC static struct group *group_of(struct level *l, uintptr_t p)
{
	return &l->groups[(p * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & l->mask];
}

/* The place of p, its entry in *entry; NULL if there is none. */
PPA_CTX_MALLOC static struct ppa_block_place *place_of(uintptr_t p, struct ppa_block **entry)
{
	/* acquire: levels are complete before they are counted. */
	uint32_t n = atomic_load_explicit(&live.nlevels, memory_order_acquire);

	/* The filter does not know null from its neighbours, and null is what free places hold. */
	if (p <= BUSY)
		return NULL;
	while (n--) {
		struct level *l = atomic_load_explicit(&live.levels[n], memory_order_relaxed);
		struct group *g = group_of(l, p);

		for (int i = 0; i < GROUP; i++) {
			/* acquire: pairs with the release that published the entry. */
			if (atomic_load_explicit(&g->places[i].addr, memory_order_acquire) != p)
				continue;
			*entry = &g->entries[i];
			return &g->places[i];
		}
	}
	return NULL;
}

PPA_CTX_MALLOC static void count_up(struct ppa_blocks_filter *f, uintptr_t p)
{
	_Atomic uint8_t *c = &f->counts[p >> PPA_BLOCKS_FILTER_SHIFT & f->mask];
	uint8_t n = atomic_load_explicit(c, memory_order_relaxed);

	while (n != MANY &&
	       !atomic_compare_exchange_weak_explicit(c, &n, n + 1, memory_order_seq_cst, memory_order_relaxed))
		;
}

/* An entry of before is gone; f was the filter before it went. If another one is being filled or has taken f's place,
 * nobody knows whether that one ever counted the entry: it keeps its count, and so does a count of many. */
PPA_CTX_MALLOC static void count_down(struct ppa_blocks_filter *f, uintptr_t p)
{
	_Atomic uint8_t *c = &f->counts[p >> PPA_BLOCKS_FILTER_SHIFT & f->mask];
	uint8_t n = atomic_load_explicit(c, memory_order_relaxed);

	atomic_fetch_sub_explicit(&live.count, 1, memory_order_relaxed);
	/* seq_cst: after the entry went, which its filler either saw or did not. */
	if (atomic_load_explicit(&live.next_filter, memory_order_seq_cst) ||
	    atomic_load_explicit(&ppa_blocks_filter, memory_order_seq_cst) != f)
		return;
	while (n != MANY && n &&
	       !atomic_compare_exchange_weak_explicit(c, &n, n - 1, memory_order_relaxed, memory_order_relaxed))
		;
}

/* The entry is in its place. seq_cst: either we see the filter that is being filled, or its filler sees the entry; and if
 * that filter took the other's place meanwhile, once more. */
PPA_CTX_MALLOC static void count_in(uintptr_t p)
{
	struct ppa_blocks_filter *f, *next;

	do {
		f = atomic_load_explicit(&ppa_blocks_filter, memory_order_seq_cst);
		count_up(f, p);
		next = atomic_load_explicit(&live.next_filter, memory_order_seq_cst);
		if (next)
			count_up(next, p);
	} while (atomic_load_explicit(&ppa_blocks_filter, memory_order_seq_cst) != f);
}

PPA_CTX_MALLOC static void fill(struct ppa_blocks_filter *f)
{
	uint32_t n = atomic_load_explicit(&live.nlevels, memory_order_acquire);

	while (n--) {
		struct level *l = atomic_load_explicit(&live.levels[n], memory_order_relaxed);

		for (uint64_t i = 0; i <= l->mask; i++) {
			for (int k = 0; k < GROUP; k++) {
				uintptr_t p = atomic_load_explicit(&l->groups[i].places[k].addr, memory_order_seq_cst);

				if (p > BUSY)
					count_up(f, p & ~(uintptr_t)HIDDEN);
			}
		}
	}
}

/* Under the lock of growing. Without memory the old filter stays: more chance hits. */
PPA_CTX_MALLOC static void grow_filter(void)
{
	struct ppa_blocks_filter *old = atomic_load_explicit(&ppa_blocks_filter, memory_order_relaxed), *f;
	uint64_t bytes = 4 * (old->mask + 1);

	if (bytes > FILTER_BYTES_MAX)
		return;
	f = ppa_budget_map(sizeof(*f) + bytes);
	if (!f)
		return;
	f->mask = bytes - 1;
	atomic_store_explicit(&live.next_filter, f, memory_order_seq_cst);
	fill(f);
	/* The old one may be in use for ever. */
	atomic_store_explicit(&ppa_blocks_filter, f, memory_order_seq_cst);
	atomic_store_explicit(&live.next_filter, NULL, memory_order_seq_cst);
}

PPA_CTX_MALLOC static uint64_t groups_of_level(uint32_t n)
{
	return (uint64_t)FIRST_GROUPS << (n < FAST_LEVELS ? 2 * n : FAST_LEVELS + n);
}

/* Under the lock of growing. */
PPA_CTX_MALLOC static bool add_level(void)
{
	uint32_t n = atomic_load_explicit(&live.nlevels, memory_order_relaxed);
	uint64_t groups = groups_of_level(n);
	struct level *l = n < LEVELS ? ppa_budget_map(sizeof(*l) + groups * sizeof(struct group)) : NULL;

	if (!l)
		return false;
	l->mask = groups - 1;
	atomic_store_explicit(&live.levels[n], l, memory_order_relaxed);
	/* release: pairs with the acquire in place_of. */
	atomic_store_explicit(&live.nlevels, n + 1, memory_order_release);
	return true;
}

/* Add a level unless somebody else did since there were n. False if there is no more memory. */
PPA_CTX_MALLOC static bool grow_beyond(uint32_t n)
{
	int patience = atomic_load_explicit(&live.is_stuck, memory_order_relaxed) ? 1 : PATIENCE;
	bool grown;

	for (int i = 0; i < patience; i++) {
		if (atomic_load_explicit(&live.nlevels, memory_order_acquire) != n)
			return true;
		if (ppa_trylock(&live.growing)) {
			grown = atomic_load_explicit(&live.nlevels, memory_order_relaxed) != n || add_level();
			ppa_unlock(&live.growing);
			atomic_store_explicit(&live.is_stuck, false, memory_order_relaxed);
			return grown;
		}
		ppa_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	}
	atomic_store_explicit(&live.is_stuck, true, memory_order_relaxed);
	return false;
}

PPA_CTX_MALLOC static bool put(struct group *g, uintptr_t p, const struct ppa_block *l)
{
	for (int i = 0; i < GROUP; i++) {
		uintptr_t seen = 0;

		if (atomic_load_explicit(&g->places[i].addr, memory_order_relaxed) ||
		    !atomic_compare_exchange_strong_explicit(&g->places[i].addr, &seen, BUSY, memory_order_acquire,
							     memory_order_relaxed))
			continue;
		g->entries[i] = *l;
		/* seq_cst: see count_in. */
		atomic_store_explicit(&g->places[i].addr, p, memory_order_seq_cst);
		return true;
	}
	return false;
}

PPA_CTX_MALLOC static bool put_somewhere(uintptr_t p, const struct ppa_block *l)
{
	uint32_t n;

	do {
		n = atomic_load_explicit(&live.nlevels, memory_order_acquire);
		for (uint32_t i = n; i--;)
			if (put(group_of(atomic_load_explicit(&live.levels[i], memory_order_relaxed), p), p, l))
				return true;
	} while (grow_beyond(n));
	return false;
}

bool ppa_blocks_add(const void *p, const struct ppa_block *l, struct ppa_block *stale, bool *has_stale)
{
	struct ppa_blocks_filter *f = atomic_load_explicit(&ppa_blocks_filter, memory_order_relaxed);
	uint64_t count;

	*has_stale = ppa_blocks_may_have(p) && ppa_blocks_remove(p, stale);
	if (!put_somewhere((uintptr_t)p, l))
		return false;
	count_in((uintptr_t)p);
	if (l->site == PPA_BLOCK_OWN)
		atomic_fetch_add_explicit(&live.own, 1, memory_order_relaxed);
	count = atomic_fetch_add_explicit(&live.count, 1, memory_order_relaxed);
	if (ppa_unlikely(count * FILTER_ROOM > f->mask && f->mask + 1 < FILTER_BYTES_MAX) &&
	    ppa_trylock(&live.growing)) {
		if (atomic_load_explicit(&ppa_blocks_filter, memory_order_relaxed) == f)
			grow_filter();
		ppa_unlock(&live.growing);
	}
	return true;
}

bool ppa_blocks_find(const void *p, struct ppa_block *out)
{
	struct ppa_block *e;

	if (!place_of((uintptr_t)p, &e))
		return false;
	*out = *e;
	return true;
}

PPA_CTX_MALLOC static void uncount_own(const struct ppa_site *site)
{
	if (site == PPA_BLOCK_OWN || site == PPA_BLOCK_ORPHAN)
		atomic_fetch_sub_explicit(&live.own, 1, memory_order_relaxed);
}

bool ppa_blocks_remove(const void *p, struct ppa_block *out)
{
	struct ppa_block *e;
	struct ppa_block_place *place = place_of((uintptr_t)p, &e);
	struct ppa_blocks_filter *f = atomic_load_explicit(&ppa_blocks_filter, memory_order_seq_cst);
	uintptr_t seen = (uintptr_t)p;

	if (!place)
		return false;
	*out = *e;
	/* seq_cst: the entry is read before its place is anybody's; see count_down. */
	if (!atomic_compare_exchange_strong_explicit(&place->addr, &seen, 0, memory_order_seq_cst,
						     memory_order_relaxed))
		return false; /* the target frees a block twice */
	count_down(f, (uintptr_t)p);
	uncount_own(out->site);
	return true;
}

struct ppa_block_place *ppa_blocks_hide(const void *p, struct ppa_block *out)
{
	struct ppa_block *e;
	struct ppa_block_place *place = place_of((uintptr_t)p, &e);
	uintptr_t seen = (uintptr_t)p;

	if (!place)
		return NULL;
	*out = *e;
	return atomic_compare_exchange_strong_explicit(&place->addr, &seen, (uintptr_t)p | HIDDEN, memory_order_acq_rel,
						       memory_order_relaxed)
		       ? place
		       : NULL;
}

void ppa_blocks_drop(struct ppa_block_place *place, const void *p, const struct ppa_block *was)
{
	struct ppa_blocks_filter *f = atomic_load_explicit(&ppa_blocks_filter, memory_order_seq_cst);

	atomic_store_explicit(&place->addr, 0, memory_order_seq_cst);
	count_down(f, (uintptr_t)p);
	uncount_own(was->site);
}

void ppa_blocks_restore(struct ppa_block_place *place, const void *p)
{
	atomic_store_explicit(&place->addr, (uintptr_t)p, memory_order_release);
}

uint64_t ppa_blocks_count(void)
{
	return atomic_load_explicit(&live.count, memory_order_relaxed);
}

uint64_t ppa_blocks_sampled(void)
{
	return ppa_blocks_count() - atomic_load_explicit(&live.own, memory_order_relaxed);
}

uint64_t ppa_blocks_room(void)
{
	uint32_t n = atomic_load_explicit(&live.nlevels, memory_order_relaxed);
	uint64_t limit = ppa_budget_limit(), used = ppa_budget_used(), left = used < limit ? limit - used : 0,
		 places = 0;

	for (uint32_t i = 0; i < LEVELS; i++) {
		uint64_t bytes = sizeof(struct level) + groups_of_level(i) * sizeof(struct group);

		if (i >= n && bytes > left)
			break;
		left -= i >= n ? bytes : 0;
		places += groups_of_level(i) * GROUP;
	}
	return places / 2;
}

void ppa_blocks_each(void (*visit)(const struct ppa_block *l, void *arg), void *arg)
{
	uint32_t n = atomic_load_explicit(&live.nlevels, memory_order_acquire);

	while (n--) {
		struct level *l = atomic_load_explicit(&live.levels[n], memory_order_relaxed);

		for (uint64_t i = 0; i < (l->mask + 1) * GROUP; i++) {
			struct group *g = &l->groups[i / GROUP];
			_Atomic uintptr_t *place = &g->places[i % GROUP].addr;
			uintptr_t p = atomic_load_explicit(place, memory_order_acquire);
			struct ppa_block copy = g->entries[i % GROUP];

			atomic_thread_fence(memory_order_acquire);
			/* Unchanged: the copy is of this block, or of one that took its place and its address. */
			if (p > BUSY && atomic_load_explicit(place, memory_order_relaxed) == p)
				visit(&copy, arg);
		}
	}
}

static void orphan(struct group *g)
{
	for (int i = 0; i < GROUP; i++) {
		uintptr_t p = atomic_load_explicit(&g->places[i].addr, memory_order_relaxed);

		if (p == BUSY) /* another thread was entering it; the block is lost with that thread */
			atomic_store_explicit(&g->places[i].addr, 0, memory_order_relaxed);
		else if (p && g->entries[i].site == PPA_BLOCK_OWN)
			g->entries[i].site = PPA_BLOCK_ORPHAN;
	}
}

void ppa_blocks_reset(void)
{
	uint32_t n = atomic_load_explicit(&live.nlevels, memory_order_relaxed);

	ppa_lock_reset(&live.growing);
	atomic_store_explicit(&live.next_filter, NULL, memory_order_relaxed);
	while (n--) {
		struct level *l = atomic_load_explicit(&live.levels[n], memory_order_relaxed);

		for (uint64_t i = 0; i <= l->mask; i++)
			orphan(&l->groups[i]);
	}
}
