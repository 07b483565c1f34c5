/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of WAYS entries, chosen by the lock's hash. Who finds no entry for its lock takes one without waiters; its old
 * lock is forgotten. If two waiters take one each for the same lock, the one further behind gives its own back.
 *
 * first   waiters (12 bits) and the stamp of the last release
 * second  sum of the stamps up to which each waiter is charged
 *
 * A charge at time t is waiters * t - sum, and leaves sum = waiters * t behind.
 *
 * Which sets were ever entered is kept beside them: a child of a fork clears those and copies no page of the others. */
#include "agent/lock/contended.h"

#include <stddef.h>
#include <string.h>

#include "agent/base/pair_x86_64.h"

enum {
	SETS = 128,
	WAYS = 8,
	WAITERS_BITS = 12,
	CLOSED = (1 << WAITERS_BITS) - 1, /* instead of a count: the entry changes its lock */
	RELEASES = 4,
	SETTLED = 1,
	OWED_BITS = 48,
	RETRIES = 4,
};

struct ppa_contended {
	_Atomic(const void *) lock;
	struct ppa_arch_pair state; /* as above */
	/* The latest releases. First word: stamp, and whether it is settled. Second: then holder (48 bits) and scale, until
	 * then what waiters owe to whoever it will be: their number (16 bits) and time. */
	struct ppa_arch_pair releases[RELEASES] __attribute__((aligned(64)));
} __attribute__((aligned(64)));

_Atomic uint16_t ppa_contended_watched[1 << PPA_WATCH_BITS];

static struct ppa_contended table[SETS][WAYS];
static _Atomic uint64_t entered[SETS / 64]; /* a bit a set */
static _Atomic uint32_t generation;

static inline uint32_t waiters_of(struct ppa_arch_pair s)
{
	return s.lo & CLOSED;
}

static inline ppa_stamp release_of(struct ppa_arch_pair s)
{
	return s.lo >> WAITERS_BITS;
}

static inline struct ppa_arch_pair make_state(uint64_t waiters, ppa_stamp release, uint64_t sum)
{
	return (struct ppa_arch_pair){release << WAITERS_BITS | waiters, sum};
}

/* Halves of different states at worst: whoever acts on it does so by compare-and-swap. */
PPA_CTX_MALLOC static struct ppa_arch_pair peek(const struct ppa_arch_pair *p)
{
	return (struct ppa_arch_pair){__atomic_load_n(&p->lo, __ATOMIC_ACQUIRE),
				      __atomic_load_n(&p->hi, __ATOMIC_ACQUIRE)};
}

PPA_CTX_MALLOC static struct ppa_contended *set_of(const void *lock)
{
	return table[ppa_contended_hash(lock) & (SETS - 1)];
}

PPA_CTX_MALLOC static struct ppa_contended *find(struct ppa_contended *set, const void *lock)
{
	for (int i = 0; i < WAYS; i++)
		if (atomic_load_explicit(&set[i].lock, memory_order_relaxed) == lock)
			return &set[i];
	return NULL;
}

/* Give an entry without waiters to another lock, or to none. */
PPA_CTX_MALLOC static bool rename_to(struct ppa_contended *e, const void *lock)
{
	struct ppa_arch_pair s = peek(&e->state), closed;

	if (waiters_of(s))
		return false;
	closed = make_state(CLOSED, release_of(s), 0);
	if (!ppa_arch_pair_exchange(&e->state, &s, closed))
		return false;
	/* From here to the last exchange nobody else changes it. seq_cst: of two that make an entry for one lock, at least
	 * one sees the other's. */
	atomic_store_explicit(&e->lock, lock, memory_order_seq_cst);
	/* Another state than before: who meant to join the old lock's waiters notices. */
	ppa_arch_pair_exchange(&e->state, &closed, make_state(0, release_of(s) + 1, 0));
	return true;
}

/* The entry for a lock, made if there is none. */
PPA_CTX_MALLOC static struct ppa_contended *find_or_make(const void *lock)
{
	struct ppa_contended *set = set_of(lock), *e = find(set, lock), *first;

	for (int i = 0; !e && i < WAYS; i++)
		if (rename_to(&set[i], lock))
			e = &set[i];
	if (!e)
		return NULL;
	first = find(set, lock);
	if (!first || first == e)
		return e;
	rename_to(e, NULL);
	return first;
}

/* One more waiter, if the entry still is this lock's and there is room (one more would look like CLOSED). */
PPA_CTX_MALLOC static bool add_waiter(struct ppa_contended *e, struct ppa_stay *s)
{
	struct ppa_arch_pair v = peek(&e->state), next;

	do {
		if (waiters_of(v) >= CLOSED - 1 || atomic_load_explicit(&e->lock, memory_order_acquire) != s->lock)
			return false;
		s->release = release_of(v);
		next = make_state(waiters_of(v) + 1, s->release, v.hi + s->begin);
	} while (!ppa_arch_pair_exchange(&e->state, &v, next));
	s->at = e;
	return true;
}

/* One waiter less; returns the last release. */
PPA_CTX_MALLOC static ppa_stamp remove_waiter(struct ppa_contended *e, const struct ppa_stay *s)
{
	struct ppa_arch_pair v = peek(&e->state), next;

	do {
		uint64_t left = waiters_of(v) - 1;
		ppa_stamp charged = release_of(v) == s->release ? s->begin : release_of(v);

		next = make_state(left, release_of(v), left ? v.hi - charged : 0);
	} while (!ppa_arch_pair_exchange(&e->state, &v, next));
	return release_of(v);
}

/* Before anything of the set changes. */
PPA_CTX_MALLOC static void note_entered(uint32_t hash)
{
	_Atomic uint64_t *word = &entered[hash % SETS / 64];
	uint64_t bit = UINT64_C(1) << hash % 64;

	if (ppa_unlikely(!(atomic_load_explicit(word, memory_order_relaxed) & bit)))
		atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
}

void ppa_contended_enter(const void *lock, ppa_stamp now, struct ppa_stay *s)
{
	*s = (struct ppa_stay){
		.lock = lock,
		.begin = now,
		.generation = atomic_load_explicit(&generation, memory_order_relaxed),
	};
	note_entered(ppa_contended_hash(lock));
	/* Before the caller asks for the lock again: a release from now on sees it, or comes before that. */
	atomic_fetch_add_explicit(&ppa_contended_watched[ppa_contended_hash(lock)], 1, memory_order_seq_cst);
	for (int i = 0; i < RETRIES; i++) {
		struct ppa_contended *e = find_or_make(lock);

		if (e && add_waiter(e, s))
			return;
	}
	atomic_fetch_sub_explicit(&ppa_contended_watched[ppa_contended_hash(lock)], 1, memory_order_relaxed);
}

/* ---- releases ---- */

PPA_CTX_MALLOC static struct ppa_arch_pair *find_release(struct ppa_contended *e, ppa_stamp stamp)
{
	for (int i = 0; i < RELEASES; i++)
		if (peek(&e->releases[i]).lo >> 1 == stamp)
			return &e->releases[i];
	return NULL;
}

/* A place for a new release: that of the oldest, preferably a settled one. What was owed to one that never settled is
 * lost. */
PPA_CTX_MALLOC static struct ppa_arch_pair *open_release(struct ppa_contended *e, ppa_stamp stamp)
{
	for (;;) {
		struct ppa_arch_pair *oldest = NULL, was = {0, 0};

		for (int i = 0; i < RELEASES; i++) {
			struct ppa_arch_pair v = peek(&e->releases[i]);
			bool is_better = (v.lo & SETTLED) != (was.lo & SETTLED) ? (v.lo & SETTLED) != 0 : v.lo < was.lo;

			if (!oldest || !v.lo || (was.lo && is_better)) {
				oldest = &e->releases[i];
				was = v;
			}
		}
		if (ppa_arch_pair_exchange(oldest, &was, (struct ppa_arch_pair){stamp << 1, 0}))
			return oldest;
	}
}

/* A release by another stamp, or none (0): it was not yet known to anybody. */
PPA_CTX_MALLOC static void restamp(struct ppa_arch_pair *place, ppa_stamp from, ppa_stamp to)
{
	struct ppa_arch_pair v = {from << 1, 0};

	ppa_arch_pair_exchange(place, &v, (struct ppa_arch_pair){to << 1, 0});
}

PPA_CTX_MALLOC static void set_holder(struct ppa_debt *out, uint64_t word, uint64_t waiters, uint64_t time)
{
	out->whose = PPA_DEBT_HOLDER;
	out->holder = word & ((UINT64_C(1) << PPA_CONTENDED_HOLDER_BITS) - 1);
	out->scale = (uint16_t)(word >> PPA_CONTENDED_HOLDER_BITS);
	out->waiters = waiters;
	out->time = time;
}

/* One waiter's debt to a release: known, or to be collected by whoever settles it. */
PPA_CTX_MALLOC static void owe(struct ppa_contended *e, ppa_stamp release, struct ppa_debt *out)
{
	struct ppa_arch_pair *place = find_release(e, release), v, next;

	if (!place)
		return;
	v = peek(place);
	do {
		if (v.lo >> 1 != release)
			return;
		next = v;
		if (!(v.lo & SETTLED))
			next.hi += (UINT64_C(1) << OWED_BITS) + out->time;
	} while (!ppa_arch_pair_exchange(place, &v, next));
	if (v.lo & SETTLED)
		set_holder(out, v.hi, 1, out->time);
	else
		out->whose = PPA_DEBT_NONE;
}

void ppa_contended_leave(const struct ppa_stay *s, ppa_stamp now, bool got, struct ppa_debt *out)
{
	struct ppa_contended *e = s->at;
	ppa_stamp release, charged;

	*out = (struct ppa_debt){.whose = PPA_DEBT_NONE, .end = now};
	if (e && s->generation != atomic_load_explicit(&generation, memory_order_relaxed))
		return;
	out->whose = PPA_DEBT_UNKNOWN;
	out->waiters = 1;
	out->time = now > s->begin ? now - s->begin : 0;
	if (!e)
		return;
	release = remove_waiter(e, s);
	atomic_fetch_sub_explicit(&ppa_contended_watched[ppa_contended_hash(s->lock)], 1, memory_order_relaxed);
	charged = release == s->release ? s->begin : release;
	out->time = now > charged ? now - charged : 0;
	if (now < charged) /* another reader's release, after our look at the clock */
		out->end = charged;
	/* A release just before we were registered, but after we began, freed the lock for us as well. */
	if (got && release >= s->begin)
		owe(e, release, out);
}

bool ppa_contended_release(const void *lock, ppa_stamp now, struct ppa_release *r)
{
	struct ppa_contended *e = find(set_of(lock), lock);
	struct ppa_arch_pair v, *place = NULL;

	if (!e)
		return false;
	v = peek(&e->state);
	do {
		uint64_t n = waiters_of(v);
		/* Stamps of releases differ, because a waiter knows them by that. */
		ppa_stamp stamp = now > release_of(v) ? now : release_of(v) + 1;

		if (!n || n == CLOSED || atomic_load_explicit(&e->lock, memory_order_acquire) != lock) {
			if (place)
				restamp(place, r->stamp, 0);
			return false;
		}
		/* Who read its clock before a waiter that was registered first is taken to have read it later: pieces are never
		 * negative. */
		if (n * stamp < v.hi)
			stamp = (v.hi + n - 1) / n;
		/* Before a waiter can look for it. */
		if (!place)
			place = open_release(e, stamp);
		else if (stamp != r->stamp)
			restamp(place, r->stamp, stamp);
		r->stamp = stamp;
		r->time = n * stamp - v.hi;
	} while (!ppa_arch_pair_exchange(&e->state, &v, make_state(waiters_of(v), r->stamp, waiters_of(v) * r->stamp)));
	r->at = e;
	return true;
}

void ppa_contended_settle(const struct ppa_release *r, ppa_holder holder, uint16_t scale, struct ppa_debt *out)
{
	struct ppa_arch_pair *place = find_release(r->at, r->stamp), v, settled;

	*out = (struct ppa_debt){.whose = PPA_DEBT_NONE};
	if (!place)
		return;
	settled.lo = r->stamp << 1 | SETTLED;
	settled.hi = (uint64_t)scale << PPA_CONTENDED_HOLDER_BITS | holder;
	v = peek(place);
	do {
		if (v.lo != r->stamp << 1)
			return;
	} while (!ppa_arch_pair_exchange(place, &v, settled));
	if (v.hi)
		set_holder(out, settled.hi, v.hi >> OWED_BITS, v.hi & ((UINT64_C(1) << OWED_BITS) - 1));
}

void ppa_contended_reset(void)
{
	atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
	for (unsigned set = 0; set < SETS; set++) {
		if (!(atomic_load_explicit(&entered[set / 64], memory_order_relaxed) >> set % 64 & 1))
			continue;
		memset(table[set], 0, sizeof(table[set]));
		for (unsigned hash = set; hash < PPA_ARRAY_LEN(ppa_contended_watched); hash += SETS)
			atomic_store_explicit(&ppa_contended_watched[hash], 0, memory_order_relaxed);
	}
	for (unsigned i = 0; i < PPA_ARRAY_LEN(entered); i++)
		atomic_store_explicit(&entered[i], 0, memory_order_relaxed);
}
