/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing, at most half full. */
#include "proto/trace/table.h"

#include <stdbool.h>
#include <string.h>

#include "agent/base/vheap.h"

enum { FIRST = 256 /* a power of two */ };

static struct ppa_trace_table_entry *place_of(struct ppa_trace_table_entry *entries, size_t cap, uint64_t key)
{
	size_t at = (key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (cap - 1);

	while (entries[at].value && entries[at].key != key)
		at = (at + 1) & (cap - 1);
	return &entries[at];
}

static bool grow(struct ppa_trace_table *t)
{
	size_t cap = t->cap ? 2 * t->cap : FIRST;
	struct ppa_trace_table_entry *entries = ppa_vheap_calloc(cap, sizeof(*entries));

	if (!entries)
		return false;
	for (size_t i = 0; i < t->cap; i++)
		if (t->entries[i].value)
			*place_of(entries, cap, t->entries[i].key) = t->entries[i];
	ppa_vheap_free(t->entries);
	t->entries = entries;
	t->cap = cap;
	return true;
}

uint32_t *ppa_trace_table_at(struct ppa_trace_table *t, uint64_t key)
{
	struct ppa_trace_table_entry *e;

	if (2 * (t->n + 1) > t->cap && !grow(t))
		return NULL;
	e = place_of(t->entries, t->cap, key);
	if (!e->value) {
		e->key = key;
		t->n++;
	}
	return &e->value;
}

uint32_t ppa_trace_table_find(const struct ppa_trace_table *t, uint64_t key)
{
	return t->cap ? place_of(t->entries, t->cap, key)->value : 0;
}

void ppa_trace_table_free(struct ppa_trace_table *t)
{
	ppa_vheap_free(t->entries);
	memset(t, 0, sizeof(*t));
}
