/* SPDX-License-Identifier: Apache-2.0
 *
 * The sorted function table of one module.
 *
 * Lookup is a binary search for the last function that starts at or below the address. When that
 * one has ended already, an enclosing function may still be running (assembly with an inner entry
 * point, a nested alias): each entry knows the nearest earlier one that reached beyond its own
 * start, and the search climbs that chain for a bounded number of steps. An address behind a sized
 * function's end belongs to nobody: a wrong name is worse than none.
 *
 * A function without a size reaches to the next function or the end of its section. Unsized labels
 * inside a sized function are dropped, they are jump targets and not functions.
 *
 * Candidates come from symtab_collect.c. Merge sort, because qsort of glibc may take its buffer
 * from the target's heap and a heap sort's jumps cost more than the buffer. */
#include "unwind/name/symtab.h"

#include <errno.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "unwind/name/elf_file.h"

enum {
	CLIMB_MAX = 64, /* enclosing functions tried */
	RUN = 8,	/* sorted by insertion before merging */
};

/* Does a stand before b? By address, then by merit. */
static bool before(const struct ppa_symtab_candidate *a, const struct ppa_symtab_candidate *b, const char *names)
{
	if (a->value != b->value)
		return a->value < b->value;
	if (a->demerits != b->demerits || a->name == b->name)
		return a->demerits < b->demerits;
	return strcmp(names + a->name, names + b->name) < 0;
}

static void sort_run(struct ppa_symtab_candidate *v, size_t n, const char *names)
{
	for (size_t i = 1; i < n; i++) {
		struct ppa_symtab_candidate c = v[i];
		size_t at = i;

		for (; at && before(&c, &v[at - 1], names); at--)
			v[at] = v[at - 1];
		v[at] = c;
	}
}

static void merge(const struct ppa_symtab_candidate *from, struct ppa_symtab_candidate *to, size_t middle, size_t n,
		  const char *names)
{
	size_t left = 0, right = middle;

	for (size_t i = 0; i < n; i++) {
		if (right == n || (left < middle && !before(&from[right], &from[left], names)))
			to[i] = from[left++];
		else
			to[i] = from[right++];
	}
}

/* Bottom up, with a second array as large as the list. */
static int sort(struct ppa_symtab_builder *b)
{
	struct ppa_symtab_candidate *from = b->list, *to, *swap;

	to = ppa_vheap_malloc(b->n * sizeof(*to));
	if (!to)
		return -ENOMEM;
	for (size_t i = 0; i < b->n; i += RUN)
		sort_run(from + i, b->n - i < RUN ? b->n - i : RUN, b->names);
	for (size_t width = RUN; width < b->n; width *= 2) {
		for (size_t i = 0; i < b->n; i += 2 * width) {
			size_t n = b->n - i < 2 * width ? b->n - i : 2 * width;

			merge(from + i, to + i, n < width ? n : width, n, b->names);
		}
		swap = from;
		from = to;
		to = swap;
	}
	ppa_vheap_free(to);
	b->list = from;
	b->cap = b->n; /* whichever array it is, n fit */
	return 0;
}

/* Keep the first of each address, give the unsized ones an extent, drop those that turn out empty
 * or lie inside a sized one. */
static void settle(struct ppa_symtab_builder *b)
{
	uint64_t covered = 0; /* end of the sized functions so far */
	size_t kept = 0;

	for (size_t i = 0, next; i < b->n; i = next) {
		struct ppa_symtab_candidate c = b->list[i];
		uint64_t end = c.limit;

		for (next = i + 1; next < b->n && b->list[next].value == c.value; next++)
			;
		if (c.demerits & PPA_SYMTAB_UNSIZED) {
			if (c.value < covered)
				continue;
			if (next < b->n && b->list[next].value < end)
				end = b->list[next].value;
			if (end <= c.value)
				continue;
			c.size = end - c.value;
		} else if (c.size > UINT64_MAX - c.value) {
			continue;
		} else if (c.value + c.size > covered) {
			covered = c.value + c.size;
		}
		b->list[kept++] = c;
	}
	b->n = kept;
}

/* Fill up: the climb from an entry to those before it that may enclose what follows it. */
static void link_enclosing(struct ppa_symtab *t)
{
	uint32_t top = PPA_SYMTAB_NONE;

	for (uint32_t i = 0; i < t->nentries; i++) {
		struct ppa_symtab_entry *e = &t->entries[i];

		while (top != PPA_SYMTAB_NONE && t->entries[top].value + t->entries[top].size <= e->value)
			top = t->entries[top].up;
		e->up = top;
		top = i;
	}
}

static int freeze(const struct ppa_symtab_builder *b, struct ppa_symtab *t)
{
	size_t at = 0, bytes = 0;

	for (size_t i = 0; i < b->n && bytes <= PPA_SYMTAB_MAX_BYTES; i++)
		bytes += strlen(b->names + b->list[i].name) + 1;
	if (bytes > PPA_SYMTAB_MAX_BYTES)
		return -EFBIG;
	t->entries = ppa_vheap_malloc(b->n * sizeof(*t->entries));
	t->names = ppa_vheap_malloc(bytes);
	if (!t->entries || !t->names) {
		ppa_symtab_free(t);
		return -ENOMEM;
	}
	for (size_t i = 0; i < b->n; i++) {
		const struct ppa_symtab_candidate *c = &b->list[i];
		size_t len = strlen(b->names + c->name) + 1;

		t->entries[i].value = c->value;
		t->entries[i].size = c->size > UINT32_MAX ? UINT32_MAX : (uint32_t)c->size;
		t->entries[i].has_size = !(c->demerits & PPA_SYMTAB_UNSIZED);
		t->entries[i].name = (uint32_t)at & 0x7fffffffU;
		memcpy(t->names + at, b->names + c->name, len);
		at += len;
	}
	t->nentries = (uint32_t)b->n;
	t->names_len = bytes;
	link_enclosing(t);
	return 0;
}

int ppa_symtab_finish(struct ppa_symtab_builder *b, struct ppa_symtab *t)
{
	int err = 0;

	memset(t, 0, sizeof(*t));
	if (b->n) {
		err = sort(b);
		if (!err) {
			settle(b);
			err = b->n ? freeze(b, t) : 0;
		}
	}
	ppa_symtab_discard(b);
	return err;
}

bool ppa_symtab_lookup(const struct ppa_symtab *t, uint64_t value, struct ppa_symtab_hit *hit)
{
	uint32_t lo = 0, hi = t->nentries, at;

	while (lo < hi) {
		uint32_t middle = lo + (hi - lo) / 2;

		if (t->entries[middle].value <= value)
			lo = middle + 1;
		else
			hi = middle;
	}
	at = lo ? lo - 1 : PPA_SYMTAB_NONE;
	for (int climbed = 0; at != PPA_SYMTAB_NONE && climbed < CLIMB_MAX; climbed++) {
		const struct ppa_symtab_entry *e = &t->entries[at];

		if (value - e->value < e->size) {
			hit->name = t->names + e->name;
			hit->value = e->value;
			hit->size = e->has_size ? e->size : 0;
			return true;
		}
		at = e->up;
	}
	return false;
}

size_t ppa_symtab_bytes(const struct ppa_symtab *t)
{
	return t->nentries * sizeof(*t->entries) + t->names_len;
}

void ppa_symtab_free(struct ppa_symtab *t)
{
	ppa_vheap_free(t->entries);
	ppa_vheap_free(t->names);
	memset(t, 0, sizeof(*t));
}
