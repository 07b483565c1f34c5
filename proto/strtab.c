/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing over an array of entries. The entries are what the encoder sends, so they stay in
 * index order; the slots hold indices only and are rebuilt when more than half are taken. Nothing
 * is ever removed, so a probe ends at the first free slot. The table lives for one request; when
 * memory runs out it says so once and the profile fails, since a profile with a wrong name is worse
 * than none.
 *
 * Rejected: copying the strings (the snapshot outlives the encoder), and comparing pointers first
 * (collectors already share most pointers, but not all, and the hash is cheap beside the
 * compression). */
#include "proto/strtab.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/vheap.h"

enum { FIRST_ENTRIES = 256, SLOTS_PER_ENTRY = 2 };

/* FNV-1a. The strings come from symbol tables of this process, not from an adversary who picks
 * collisions. */
static uint32_t hash_of(const char *text, size_t len)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)text[i]) * 0x100000001b3u;
	return (uint32_t)(h ^ (h >> 32));
}

static void place(struct ppa_strtab *t, uint32_t index)
{
	uint32_t at = t->entries[index].hash & (t->nslots - 1);

	while (t->slots[at])
		at = (at + 1) & (t->nslots - 1);
	t->slots[at] = index;
}

static bool grow(struct ppa_strtab *t)
{
	uint32_t cap = t->cap ? t->cap * 2 : FIRST_ENTRIES;
	struct ppa_strtab_entry *entries;
	uint32_t *slots;

	if (cap > UINT32_MAX / SLOTS_PER_ENTRY / 2)
		return false;
	entries = ppa_vheap_realloc(t->entries, cap * sizeof(*entries));
	if (!entries)
		return false;
	t->entries = entries;
	slots = ppa_vheap_calloc((size_t)cap * SLOTS_PER_ENTRY, sizeof(*slots));
	if (!slots)
		return false;
	ppa_vheap_free(t->slots);
	t->slots = slots;
	t->nslots = cap * SLOTS_PER_ENTRY;
	t->cap = cap;
	for (uint32_t i = 1; i < t->n; i++)
		place(t, i);
	return true;
}

void ppa_strtab_init(struct ppa_strtab *t)
{
	memset(t, 0, sizeof(*t));
	if (!grow(t)) {
		t->err = -ENOMEM;
		return;
	}
	t->entries[0] = (struct ppa_strtab_entry){.text = ""};
	t->n = 1;
}

/* The index of an entered string, or 0. */
static uint32_t find(const struct ppa_strtab *t, const char *text, uint32_t len, uint32_t hash)
{
	uint32_t at = hash & (t->nslots - 1);

	for (; t->slots[at]; at = (at + 1) & (t->nslots - 1)) {
		const struct ppa_strtab_entry *e = &t->entries[t->slots[at]];

		if (e->hash == hash && e->len == len && memcmp(e->text, text, len) == 0)
			return t->slots[at];
	}
	return 0;
}

uint32_t ppa_strtab_intern(struct ppa_strtab *t, const char *text)
{
	size_t whole;
	uint32_t len, hash, index;

	if (t->err || !text || !*text)
		return 0;
	whole = strlen(text);
	len = whole > UINT32_MAX ? UINT32_MAX : (uint32_t)whole;
	hash = hash_of(text, len);
	index = find(t, text, len, hash);
	if (index)
		return index;
	if (t->n == t->cap && !grow(t)) {
		t->err = -ENOMEM;
		return 0;
	}
	index = t->n++;
	t->entries[index] = (struct ppa_strtab_entry){.text = text, .len = len, .hash = hash};
	place(t, index);
	return index;
}

void ppa_strtab_free(struct ppa_strtab *t)
{
	ppa_vheap_free(t->entries);
	ppa_vheap_free(t->slots);
	memset(t, 0, sizeof(*t));
}
