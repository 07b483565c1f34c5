/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/thread/stack_known.h"

#include <stdatomic.h>

#include "agent/base/sys.h"
#include "unwind/module/modules.h"
#include "unwind/walk/memory.h"
#include "unwind/walk/unwind.h"

enum { SETS_BITS = 7, WAYS = 2, SITES = 3 }; /* 256 KiB, touched as used */

struct known_site {
	_Atomic(struct ppa_sites *) table;
	_Atomic uintptr_t above;
	_Atomic(struct ppa_site *) site;
};

struct known {
	_Atomic uint32_t seq; /* 0: empty, odd: being written */
	_Atomic uint32_t n;   /* words */
	_Atomic uintptr_t frame, caller, function;
	_Atomic uint64_t epochs[2]; /* all 0: every frame's code stays */
	struct known_site sites[SITES];
	_Atomic uintptr_t word[PPA_TRAIL_MAX];
	_Atomic uint32_t at[PPA_TRAIL_MAX]; /* bytes above frame */
} __attribute__((aligned(64)));

static _Atomic(struct known *) table; /* set once */

#define GET(x) atomic_load_explicit(&(x), memory_order_relaxed)
#define SET(x, v) atomic_store_explicit(&(x), v, memory_order_relaxed)

PPA_CTX_MALLOC static struct known *set_of(const struct ppa_stack_key *k)
{
	struct known *all = atomic_load_explicit(&table, memory_order_acquire);
	uint64_t h = k->frame;

	h = (h ^ k->caller) * 0x9e3779b97f4a7c15ULL;
	h = (h ^ k->function ^ h >> 32) * 0x9e3779b97f4a7c15ULL;
	return all ? all + (h >> (64 - SETS_BITS)) * WAYS : NULL;
}

PPA_CTX_MALLOC static bool is_for(const struct known *e, const struct ppa_stack_key *k)
{
	return GET(e->frame) == k->frame && GET(e->caller) == k->caller && GET(e->function) == k->function;
}

/* Does all that the walk read stand where it stood? Numbers may be of two writers: each is checked before it is used. */
PPA_CTX_MALLOC static bool stands(const struct known *e, const struct ppa_stack_key *k)
{
	uint32_t n = GET(e->n);

	if (n > PPA_TRAIL_MAX)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		uintptr_t at = GET(e->at[i]);

		if (ppa_unlikely(at + sizeof(at) > k->room || ppa_memory_load(k->frame + at) != GET(e->word[i])))
			return false;
	}
	return true;
}

/* Do these addresses still mean the same code? */
PPA_CTX_MALLOC static bool is_of_now(const struct known *e)
{
	uint64_t rest = GET(e->epochs[0]), loader = GET(e->epochs[1]);
	struct ppa_epochs now;
	unsigned token;

	if (!rest)
		return true;
	token = ppa_modules_read_begin();
	now = ppa_modules_epochs();
	ppa_modules_read_end(token);
	return now.rest == rest && now.loader == loader;
}

PPA_CTX_MALLOC static bool has_sites(const struct known *e, struct ppa_stack_want *wants, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		wants[i].site = NULL;
		for (int k = 0; k < SITES; k++)
			if (GET(e->sites[k].table) == wants[i].table && GET(e->sites[k].above) == wants[i].above)
				wants[i].site = GET(e->sites[k].site);
		if (!wants[i].site)
			return false;
	}
	return true;
}

bool ppa_stack_known_find(const struct ppa_stack_key *key, struct ppa_stack_want *wants, size_t n)
{
	struct known *set = set_of(key);

	for (int i = 0; set && i < WAYS; i++) {
		struct known *e = &set[i];
		/* acquire: pairs with the release at the end of ppa_stack_known_keep. */
		uint32_t seq = atomic_load_explicit(&e->seq, memory_order_acquire);

		if (!seq || seq & 1 || !is_for(e, key))
			continue;
		if (!stands(e, key) || !is_of_now(e) || !has_sites(e, wants, n))
			return false;
		/* acquire: what was read came before; pairs with the release fence in ppa_stack_known_keep. */
		atomic_thread_fence(memory_order_acquire);
		return GET(e->seq) == seq;
	}
	return false;
}

/* Where to write: the entry of this key, an empty one, or either. */
PPA_CTX_MALLOC static struct known *place_for(struct known *set, const struct ppa_stack_key *k)
{
	struct known *empty = NULL;

	for (int i = 0; i < WAYS; i++) {
		if (is_for(&set[i], k))
			return &set[i];
		if (!GET(set[i].seq))
			empty = &set[i];
	}
	return empty ? empty : &set[GET(set[0].seq) / 2 % WAYS];
}

PPA_CTX_MALLOC static void write_entry(struct known *e, const struct ppa_stack_key *key,
				       const struct ppa_unwind_trail *trail, bool may_go)
{
	SET(e->frame, key->frame);
	SET(e->caller, key->caller);
	SET(e->function, key->function);
	SET(e->epochs[0], may_go ? trail->epochs[0] : 0);
	SET(e->epochs[1], may_go ? trail->epochs[1] : 0);
	SET(e->n, trail->n);
	for (uint32_t i = 0; i < trail->n; i++) {
		SET(e->at[i], trail->at[i]);
		SET(e->word[i], trail->word[i]);
	}
}

void ppa_stack_known_keep(const struct ppa_stack_key *key, const struct ppa_unwind_trail *trail, bool may_go,
			  const struct ppa_stack_want *wants, size_t n)
{
	struct known *set = set_of(key), *e;
	uint32_t seq;

	if (!set || n > SITES)
		return;
	e = place_for(set, key);
	seq = GET(e->seq);
	if (seq & 1 || !atomic_compare_exchange_strong_explicit(&e->seq, &seq, seq + 1, memory_order_relaxed,
								memory_order_relaxed))
		return;
	/* release: nothing of the new entry is seen before the odd number. */
	atomic_thread_fence(memory_order_release);
	write_entry(e, key, trail, may_go);
	for (size_t i = 0; i < SITES; i++) {
		SET(e->sites[i].table, i < n ? wants[i].table : NULL);
		SET(e->sites[i].above, i < n ? wants[i].above : 0);
		SET(e->sites[i].site, i < n ? wants[i].site : NULL);
	}
	/* Never 0 again. */
	atomic_store_explicit(&e->seq, seq + 2 ? seq + 2 : 2, memory_order_release);
}

void ppa_stack_known_init(void)
{
	if (!GET(table))
		atomic_store_explicit(&table, ppa_sys_map(sizeof(struct known) * WAYS << SETS_BITS),
				      memory_order_release);
}
