/* SPDX-License-Identifier: Apache-2.0
 *
 * A value may stand in one group of places in each segment. A place is claimed by putting the value there, and counts
 * when the site is there, too; whoever takes the site away has taken the value, and frees the place after that. */
#include "agent/api/values.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/base/budget.h"

enum { GROUP = 16, FIRST_GROUPS = 16 };

struct place {
	_Atomic uintptr_t value; /* 0: free */
	_Atomic(struct ppa_site *) site;
};

struct ppa_values_segment {
	struct place places[FIRST_GROUPS * GROUP]; /* and more: segment_bytes */
};

static _Atomic uint64_t mapped; /* bytes, by all tables */

static size_t segment_bytes(int i)
{
	return sizeof(struct ppa_values_segment) << i;
}

/* Values that share a group do so in this segment alone: what overflows here is spread over the next. */
static struct place *group_of(struct ppa_values_segment *s, int i, uintptr_t value)
{
	uint64_t h = ((uint64_t)value ^ (uint64_t)i << 56) * 0x9e3779b97f4a7c15ULL;

	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
	h ^= h >> 31;
	return (struct place *)s + GROUP * (h & (((uint64_t)FIRST_GROUPS << i) - 1));
}

/* acquire: places are zero; pairs with the release in grow. */
static struct ppa_values_segment *segment(const struct ppa_values *v, int i)
{
	return atomic_load_explicit(&v->segments[i], memory_order_acquire);
}

static struct place *find(const struct ppa_values *v, uintptr_t value)
{
	struct ppa_values_segment *s;

	for (int i = 0; i < PPA_VALUES_SEGMENTS && (s = segment(v, i)); i++) {
		struct place *p = group_of(s, i, value);

		for (int k = 0; k < GROUP; k++)
			if (atomic_load_explicit(&p[k].value, memory_order_relaxed) == value &&
			    atomic_load_explicit(&p[k].site, memory_order_relaxed))
				return &p[k];
	}
	return NULL;
}

/* Make segment i, or find it made by another thread. */
static struct ppa_values_segment *grow(struct ppa_values *v, int i)
{
	size_t bytes = segment_bytes(i);
	struct ppa_values_segment *s = NULL, *theirs = NULL;

	if (atomic_fetch_add_explicit(&mapped, bytes, memory_order_relaxed) + bytes <=
	    ppa_budget_limit() / PPA_VALUES_SHARE)
		s = ppa_budget_map(bytes);
	if (s && atomic_compare_exchange_strong_explicit(&v->segments[i], &theirs, s, memory_order_release,
							 memory_order_acquire))
		return s;
	if (s)
		ppa_budget_unmap(s, bytes);
	atomic_fetch_sub_explicit(&mapped, bytes, memory_order_relaxed);
	return theirs;
}

static bool claim(struct place *p, uintptr_t value, struct ppa_site *site)
{
	for (int k = 0; k < GROUP; k++) {
		uintptr_t none = 0;

		/* acquire: the site of the last value is gone; pairs with the release in ppa_values_remove. */
		if (atomic_load_explicit(&p[k].value, memory_order_relaxed) ||
		    !atomic_compare_exchange_strong_explicit(&p[k].value, &none, value, memory_order_acquire,
							     memory_order_relaxed))
			continue;
		/* release: the site is complete; pairs with the acquire in ppa_values_remove. */
		atomic_store_explicit(&p[k].site, site, memory_order_release);
		return true;
	}
	return false;
}

int ppa_values_add(struct ppa_values *v, uintptr_t value, struct ppa_site *site)
{
	if (find(v, value))
		return -EEXIST;
	for (int i = 0; i < PPA_VALUES_SEGMENTS; i++) {
		struct ppa_values_segment *s = segment(v, i);

		if (!s && !(s = grow(v, i)))
			return -ENOMEM;
		if (claim(group_of(s, i, value), value, site))
			return 0;
	}
	return -ENOMEM;
}

struct ppa_site *ppa_values_remove(struct ppa_values *v, uintptr_t value)
{
	struct place *p = find(v, value);
	struct ppa_site *site = p ? atomic_exchange_explicit(&p->site, NULL, memory_order_acquire) : NULL;

	if (site)
		/* release: pairs with the acquire in claim. */
		atomic_store_explicit(&p->value, 0, memory_order_release);
	return site;
}
