/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cpu/stacktab.h"

#include <string.h>

#include "agent/base/vheap.h"
#include "agent/profile/marker.h"

enum { BLOCK_BYTES = 60 << 10, FIRST_BUCKETS = 256 };

struct ppa_stack_block {
	struct ppa_stack_block *next;
	size_t used;
	char bytes[];
};

/* FNV-1a over words, then a finalizer (splitmix64's), because the low bits choose the bucket. */
static uint64_t hash_key(const struct ppa_stack_key *k)
{
	uint64_t h = 0xcbf29ce484222325ULL ^ k->layout;

	h = (h ^ ((uint64_t)k->label << 32 | k->tid)) * 0x100000001b3ULL;
	h = (h ^ k->tags) * 0x100000001b3ULL;
	for (uint32_t i = 0; i < k->npcs; i++)
		h = (h ^ k->pcs[i]) * 0x100000001b3ULL;
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
	return h ^ (h >> 31);
}

static int equals(const struct ppa_stack *s, const struct ppa_stack_key *k, uint64_t hash)
{
	return s->hash == hash && s->npcs == k->npcs && s->label == k->label && s->tid == k->tid &&
	       s->tags == k->tags && s->layout == k->layout && memcmp(s->pcs, k->pcs, k->npcs * sizeof(*k->pcs)) == 0;
}

static void *take_bytes(struct ppa_stacktab *t, size_t n)
{
	struct ppa_stack_block *b = t->blocks;
	void *p;

	if (!b || b->used + n > BLOCK_BYTES) {
		if (t->bytes + BLOCK_BYTES > PPA_STACKTAB_MAX_BYTES)
			return NULL;
		b = ppa_vheap_malloc(sizeof(*b) + BLOCK_BYTES);
		if (!b)
			return NULL;
		b->next = t->blocks;
		b->used = 0;
		t->blocks = b;
		t->bytes += BLOCK_BYTES;
	}
	p = b->bytes + b->used;
	b->used += n;
	return p;
}

/* Twice the buckets; on no memory the chains only grow longer. */
static void grow(struct ppa_stacktab *t)
{
	size_t n = t->nbuckets ? 2 * t->nbuckets : FIRST_BUCKETS;
	struct ppa_stack **b = ppa_vheap_calloc(n, sizeof(*b)), *next;

	if (!b)
		return;
	for (size_t i = 0; i < t->nbuckets; i++) {
		for (struct ppa_stack *s = t->buckets[i]; s; s = next) {
			next = s->next;
			s->next = b[s->hash & (n - 1)];
			b[s->hash & (n - 1)] = s;
		}
	}
	ppa_vheap_free(t->buckets);
	t->buckets = b;
	t->nbuckets = n;
}

static struct ppa_stack *find(const struct ppa_stacktab *t, const struct ppa_stack_key *k, uint64_t hash)
{
	struct ppa_stack *s;

	if (!t->nbuckets)
		return NULL;
	for (s = t->buckets[hash & (t->nbuckets - 1)]; s; s = s->next)
		if (equals(s, k, hash))
			return s;
	return NULL;
}

static struct ppa_stack *insert(struct ppa_stacktab *t, const struct ppa_stack_key *k, uint64_t hash)
{
	struct ppa_stack *s;

	if (t->nstacks >= t->nbuckets)
		grow(t);
	if (!t->nbuckets)
		return NULL;
	s = take_bytes(t, sizeof(*s) + k->npcs * sizeof(*k->pcs));
	if (!s)
		return NULL;
	*s = (struct ppa_stack){
		.hash = hash, .layout = k->layout, .label = k->label, .tid = k->tid, .tags = k->tags, .npcs = k->npcs};
	memcpy(s->pcs, k->pcs, k->npcs * sizeof(*k->pcs));
	s->next = t->buckets[hash & (t->nbuckets - 1)];
	t->buckets[hash & (t->nbuckets - 1)] = s;
	t->nstacks++;
	return s;
}

struct ppa_stack *ppa_stacktab_at(struct ppa_stacktab *t, const struct ppa_stack_key *k)
{
	uint64_t hash = hash_key(k);
	struct ppa_stack *s = find(t, k, hash);
	uintptr_t other = ppa_marker_address(PPA_MARKER_OTHER);
	struct ppa_stack_key folded = {.pcs = &other, .npcs = 1, .layout = k->layout};

	/* The fold comes first of all, while there is room for it. */
	if (!t->nstacks)
		t->fold = insert(t, &folded, hash_key(&folded));
	if (!s)
		s = insert(t, k, hash);
	return s ? s : t->fold;
}

void ppa_stacktab_add(struct ppa_stacktab *t, const struct ppa_stack_key *k, int64_t n)
{
	struct ppa_stack *s = ppa_stacktab_at(t, k);

	if (s)
		s->count += n;
}

void ppa_stacktab_each(const struct ppa_stacktab *t, void (*visit)(const struct ppa_stack *s, void *arg), void *arg)
{
	for (size_t i = 0; i < t->nbuckets; i++)
		for (const struct ppa_stack *s = t->buckets[i]; s; s = s->next)
			if (s->count)
				visit(s, arg);
}

void ppa_stacktab_free(struct ppa_stacktab *t)
{
	struct ppa_stack_block *next;

	for (struct ppa_stack_block *b = t->blocks; b; b = next) {
		next = b->next;
		ppa_vheap_free(b);
	}
	ppa_vheap_free(t->buckets);
	memset(t, 0, sizeof(*t));
}
