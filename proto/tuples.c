/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing over an array in index order, as in strtab.c; at most half of the slots are taken, nothing is ever
 * removed. */
#include "proto/tuples.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "agent/base/vheap.h"

enum { FIRST_TUPLES = 64, SLOTS_PER_TUPLE = 2 };

static uint32_t hash_of(const struct ppa_tuple *t)
{
	uint64_t h = 0;

	for (size_t i = 0; i < PPA_ARRAY_LEN(t->v); i++) {
		h = (h ^ t->v[i]) * 0x9e3779b97f4a7c15u;
		h ^= h >> 29;
	}
	return (uint32_t)(h ^ (h >> 32));
}

/* Where t is, or the free slot where it belongs. */
static uint32_t find(const struct ppa_tuples *all, const struct ppa_tuple *t)
{
	uint32_t at = hash_of(t) & (all->nslots - 1);

	while (all->slots[at] && memcmp(&all->list[all->slots[at] - 1], t, sizeof(*t)) != 0)
		at = (at + 1) & (all->nslots - 1);
	return at;
}

static bool grow(struct ppa_tuples *all)
{
	uint32_t cap = all->cap ? all->cap * 2 : FIRST_TUPLES;
	struct ppa_tuple *list;
	uint32_t *slots;

	if (cap > UINT32_MAX / SLOTS_PER_TUPLE / 2)
		return false;
	list = ppa_vheap_realloc(all->list, cap * sizeof(*list));
	if (!list)
		return false;
	all->list = list;
	slots = ppa_vheap_calloc((size_t)cap * SLOTS_PER_TUPLE, sizeof(*slots));
	if (!slots)
		return false;
	ppa_vheap_free(all->slots);
	all->slots = slots;
	all->nslots = cap * SLOTS_PER_TUPLE;
	all->cap = cap;
	for (uint32_t i = 0; i < all->n; i++)
		all->slots[find(all, &all->list[i])] = i + 1;
	return true;
}

uint32_t ppa_tuples_intern(struct ppa_tuples *all, struct ppa_tuple t)
{
	uint32_t at;

	if (all->err)
		return 0;
	if (all->n == all->cap && !grow(all)) {
		all->err = -ENOMEM;
		return 0;
	}
	at = find(all, &t);
	if (!all->slots[at]) {
		all->list[all->n++] = t;
		all->slots[at] = all->n;
	}
	return all->slots[at] - 1;
}

void ppa_tuples_free(struct ppa_tuples *all)
{
	ppa_vheap_free(all->list);
	ppa_vheap_free(all->slots);
	memset(all, 0, sizeof(*all));
}
