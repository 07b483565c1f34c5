/* SPDX-License-Identifier: Apache-2.0
 *
 * Chains hanging from a fixed array of heads. A site is published by one compare-and-swap at the head of its chain, after it is
 * complete; two threads with the same new stack may race, and the loser looks again from the new head, so that no stack
 * has two sites. Its bytes are then given back only if nobody took more meanwhile: a loss too small to count.
 *
 * Sites are cut from chunks that all tables share. */
#include "agent/profile/sites.h"

#include <errno.h>
#include <string.h>

#include "agent/base/budget.h"
#include "agent/profile/marker.h"
#include "agent/profile/unloads.h"

enum { CHUNK_BYTES = 64 << 10 };

struct chunk {
	_Atomic size_t used;
	char bytes[CHUNK_BYTES - sizeof(size_t)];
};

static _Atomic(struct chunk *) current;
static _Atomic uint64_t chunks; /* ever mapped */

/* FNV-1a over words, then splitmix64's finalizer, because the low bits choose the bucket. */
PPA_CTX_MALLOC static uint64_t hash_of(const uintptr_t *pcs, uint32_t npcs, uint64_t origin, uint64_t label)
{
	uint64_t h = 0xcbf29ce484222325ULL ^ origin;

	h = (h ^ label) * 0x100000001b3ULL;
	for (uint32_t i = 0; i < npcs; i++)
		h = (h ^ pcs[i]) * 0x100000001b3ULL;
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
	return h ^ (h >> 31);
}

/* Bytes that stay for ever, zeroed; NULL when there is no more. */
PPA_CTX_MALLOC static void *cut(size_t n)
{
	for (;;) {
		/* acquire: the chunk's first word was written before it was published. */
		struct chunk *c = atomic_load_explicit(&current, memory_order_acquire), *fresh;
		size_t at;

		if (c) {
			at = atomic_fetch_add_explicit(&c->used, n, memory_order_relaxed);
			if (at + n <= sizeof(c->bytes))
				return c->bytes + at;
		}
		/* Stacks that no longer come may not crowd out blocks that are live: half the budget at most. */
		if ((atomic_load_explicit(&chunks, memory_order_relaxed) + 1) * sizeof(*fresh) > ppa_budget_limit() / 2)
			return NULL;
		fresh = ppa_budget_map(sizeof(*fresh));
		if (!fresh)
			return NULL;
		if (!atomic_compare_exchange_strong_explicit(&current, &c, fresh, memory_order_acq_rel,
							     memory_order_relaxed))
			ppa_budget_unmap(fresh, sizeof(*fresh));
		else
			atomic_fetch_add_explicit(&chunks, 1, memory_order_relaxed);
	}
}

/* The site in a chain, from one place to another, that has these frames and otherwise looks like key. */
PPA_CTX_MALLOC static struct ppa_site *search(struct ppa_site *from, const struct ppa_site *until,
					      const struct ppa_site *key, const uintptr_t *pcs)
{
	for (; from != until; from = from->next) {
		uint32_t i = 0;

		if (from->hash != key->hash || from->npcs != key->npcs || from->label != key->label ||
		    from->origin != key->origin)
			continue;
		while (i < key->npcs && from->pcs[i] == pcs[i])
			i++;
		if (i == key->npcs)
			return from;
	}
	return NULL;
}

PPA_CTX_MALLOC static struct ppa_site *make(const uintptr_t *pcs, uint32_t npcs, const struct ppa_site *like)
{
	struct ppa_site *s = cut(sizeof(*s) + npcs * sizeof(*pcs));

	if (!s)
		return NULL;
	s->hash = like->hash;
	s->origin = like->origin;
	s->label = like->label;
	s->npcs = npcs;
	s->born = like->born;
	memcpy(s->pcs, pcs, npcs * sizeof(*pcs));
	return s;
}

/* Add s to its bucket, or find the one that another thread added meanwhile. */
PPA_CTX_MALLOC static struct ppa_site *publish(struct ppa_sites *t, struct ppa_site *s, struct ppa_site *seen)
{
	_Atomic(struct ppa_site *) *bucket = &t->buckets[s->hash & (PPA_SITES_BUCKETS - 1)];
	struct ppa_site *head = seen, *same;

	for (;;) {
		s->next = head;
		/* release: the site is complete; pairs with the acquire of whoever walks the chain. */
		if (atomic_compare_exchange_strong_explicit(bucket, &head, s, memory_order_release,
							    memory_order_acquire)) {
			atomic_fetch_add_explicit(&t->count, 1, memory_order_relaxed);
			return s;
		}
		same = search(head, seen, s, s->pcs);
		if (same)
			return same;
		seen = head;
	}
}

struct ppa_site *ppa_sites_find(struct ppa_sites *t, const uintptr_t *pcs, uint32_t npcs, uint64_t origin,
				uint64_t label)
{
	struct ppa_site key = {
		.hash = hash_of(pcs, npcs, origin, label), .origin = origin, .label = label, .npcs = npcs};
	/* acquire: sites are complete before they are in a chain. */
	struct ppa_site *head =
		atomic_load_explicit(&t->buckets[key.hash & (PPA_SITES_BUCKETS - 1)], memory_order_acquire);
	struct ppa_site *s = search(head, NULL, &key, pcs);

	if (ppa_likely(s != NULL))
		return s;
	if (origin)
		key.born = ppa_unloads_note_birth();
	if (!t->limit || atomic_load_explicit(&t->count, memory_order_relaxed) < t->limit)
		s = make(pcs, npcs, &key);
	if (s)
		return publish(t, s, head);
	atomic_fetch_add_explicit(&t->folded, 1, memory_order_relaxed);
	return atomic_load_explicit(&t->other, memory_order_acquire);
}

int ppa_sites_init(struct ppa_sites *t)
{
	uintptr_t pc = ppa_marker_address(PPA_MARKER_OTHER);
	struct ppa_site *s, *none = NULL;

	if (atomic_load_explicit(&t->other, memory_order_acquire))
		return 0;
	s = make(&pc, 1, &(struct ppa_site){.npcs = 1});
	if (!s)
		return -ENOMEM;
	/* release: the site is complete. Two may do this at once, like two that find a new stack. */
	if (atomic_compare_exchange_strong_explicit(&t->other, &none, s, memory_order_release, memory_order_relaxed))
		atomic_fetch_add_explicit(&t->count, 1, memory_order_relaxed);
	return 0;
}

void ppa_sites_each(struct ppa_sites *t, void (*visit)(const struct ppa_site *s, void *arg), void *arg)
{
	const struct ppa_site *other = atomic_load_explicit(&t->other, memory_order_acquire);

	if (other)
		visit(other, arg);
	for (size_t i = 0; i < PPA_SITES_BUCKETS; i++) {
		const struct ppa_site *s = atomic_load_explicit(&t->buckets[i], memory_order_acquire);

		for (; s; s = s->next)
			visit(s, arg);
	}
}
