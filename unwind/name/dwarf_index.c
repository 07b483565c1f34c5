/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists that grow within a limit. The ranges of units are in no order, as a question looks each of them up among its few
 * addresses; functions are sorted once.
 *
 * When an outline finds no room, the next question begins with none at all: so those that are in use come to be kept. */
#include "unwind/name/dwarf_index.h"

#include <string.h>

#include "agent/base/vheap.h"
#include "unwind/name/dwarf.h"
#include "unwind/name/dwarf_unit.h"

/* Ranges of a unit with no more between them than what aligns a function are one. */
enum { GAP_BYTES = 16, ITEMS_FIRST = 16 };

/* The place of one more item, or NULL. */
static void *add(struct ppa_dwarf_index *x, void **list, size_t *n, size_t *cap, size_t bytes)
{
	size_t more = *cap ? 2 * *cap : ITEMS_FIRST;
	void *p = *list;

	if (*n == *cap) {
		p = (more - *cap) * bytes <= x->max_bytes - x->bytes ? ppa_vheap_realloc(p, more * bytes) : NULL;
		if (!p)
			return NULL;
		x->bytes += (more - *cap) * bytes;
		*list = p;
		*cap = more;
	}
	return (char *)p + (*n)++ * bytes;
}

static void drop(struct ppa_dwarf_index *x, void **list, size_t *n, size_t *cap, size_t bytes)
{
	x->bytes -= *cap * bytes;
	ppa_vheap_free(*list);
	*list = NULL;
	*n = *cap = 0;
}

static void fit(struct ppa_dwarf_index *x, void **list, size_t n, size_t *cap, size_t bytes)
{
	void *p = n && n < *cap ? ppa_vheap_realloc(*list, n * bytes) : NULL;

	if (!p)
		return;
	x->bytes -= (*cap - n) * bytes;
	*list = p;
	*cap = n;
}

/* ---- ranges of units ---- */

struct listing {
	struct ppa_dwarf_index *x;
	uint32_t unit;
	bool has_no_room;
};

bool ppa_dwarf_index_add_range(struct ppa_dwarf_index *x, uint32_t unit, uint64_t low, uint64_t high)
{
	struct ppa_dwarf_unit_range *last = x->nranges ? &x->ranges[x->nranges - 1] : NULL;

	if (last && last->unit == unit && low >= last->low && (low < last->high || low - last->high < GAP_BYTES)) {
		last->high = high > last->high ? high : last->high;
		return true;
	}
	last = add(x, (void **)&x->ranges, &x->nranges, &x->ranges_cap, sizeof(*x->ranges));
	if (last)
		*last = (struct ppa_dwarf_unit_range){low, high, unit};
	return last != NULL;
}

void ppa_dwarf_index_end_ranges(struct ppa_dwarf_index *x, bool are_all)
{
	x->has_ranges = are_all;
	if (are_all)
		fit(x, (void **)&x->ranges, x->nranges, &x->ranges_cap, sizeof(*x->ranges));
	else
		drop(x, (void **)&x->ranges, &x->nranges, &x->ranges_cap, sizeof(*x->ranges));
}

static void add_range(void *arg, uint64_t low, uint64_t high)
{
	struct listing *l = arg;

	l->has_no_room = l->has_no_room || !ppa_dwarf_index_add_range(l->x, l->unit, low, high);
}

static void list_ranges(struct ppa_dwarf_index *x, struct ppa_dwarf_file *d)
{
	struct listing l = {.x = x};
	struct ppa_dwarf_unit u;
	size_t i;

	for (i = 0; i < d->units.n && !l.has_no_room && ppa_dwarf_step(d); i++) {
		l.unit = (uint32_t)i;
		if (ppa_dwarf_unit_read(d, &d->units.list[i], &u))
			ppa_dwarf_each_range(d, &u, &u.span, add_range, &l);
	}
	ppa_dwarf_index_end_ranges(x, i == d->units.n && !l.has_no_room && d->steps);
	x->has_no_ranges = !x->has_ranges;
}

static bool has_want(const struct ppa_dwarf_want *wants, size_t n, uint64_t low, uint64_t high)
{
	size_t from = 0, to = n;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (wants[middle].pc < low)
			from = middle + 1;
		else
			to = middle;
	}
	return from < n && wants[from].pc < high;
}

bool ppa_dwarf_index_mark(struct ppa_dwarf_index *x, struct ppa_dwarf_file *d, const struct ppa_dwarf_want *wants,
			  size_t n, uint8_t *is_marked)
{
	if (!x->has_ranges && !x->has_no_ranges)
		list_ranges(x, d);
	if (!x->has_ranges)
		return false;
	for (size_t i = 0; i < x->nranges; i++)
		if (!is_marked[x->ranges[i].unit])
			is_marked[x->ranges[i].unit] = has_want(wants, n, x->ranges[i].low, x->ranges[i].high);
	return true;
}

/* ---- outlines ---- */

static void drop_functions(struct ppa_dwarf_outline *o)
{
	drop(o->index, (void **)&o->functions, &o->nfunctions, &o->functions_cap, sizeof(*o->functions));
}

static void drop_stretches(struct ppa_dwarf_outline *o)
{
	drop(o->index, (void **)&o->stretches, &o->nstretches, &o->stretches_cap, sizeof(*o->stretches));
}

static void drop_outline(struct ppa_dwarf_index *x, struct ppa_dwarf_outline *o)
{
	drop_functions(o);
	drop_stretches(o);
	ppa_vheap_free(o);
	x->bytes -= sizeof(*o);
}

static void drop_outlines(struct ppa_dwarf_index *x)
{
	for (size_t i = 0; x->outlines && i < x->nplaces; i++) {
		if (x->outlines[i])
			drop_outline(x, x->outlines[i]);
		x->outlines[i] = NULL;
	}
	x->is_full = false;
}

/* Room for an outline of each unit. */
static bool make_outlines(struct ppa_dwarf_index *x)
{
	size_t bytes = x->nplaces * sizeof(struct ppa_dwarf_outline *);

	if (bytes <= x->max_bytes - x->bytes)
		x->outlines = ppa_vheap_calloc(1, bytes);
	if (x->outlines)
		x->bytes += bytes;
	return x->outlines != NULL;
}

struct ppa_dwarf_outline *ppa_dwarf_index_outline(struct ppa_dwarf_index *x, size_t unit)
{
	struct ppa_dwarf_outline *o;

	if (unit >= x->nplaces || (!x->outlines && !make_outlines(x)))
		return NULL;
	if (x->outlines[unit])
		return x->outlines[unit];
	o = sizeof(*o) <= x->max_bytes - x->bytes ? ppa_vheap_calloc(1, sizeof(*o)) : NULL;
	if (!o) {
		x->is_full = true;
		return NULL;
	}
	x->bytes += sizeof(*o);
	o->index = x;
	return x->outlines[unit] = o;
}

bool ppa_dwarf_outline_function(struct ppa_dwarf_outline *o, uint64_t low, uint64_t high, uint64_t entry)
{
	struct ppa_dwarf_function *f;

	if (high - low > UINT32_MAX || entry > UINT32_MAX)
		return false;
	f = add(o->index, (void **)&o->functions, &o->nfunctions, &o->functions_cap, sizeof(*f));
	if (f)
		*f = (struct ppa_dwarf_function){low, (uint32_t)(high - low), (uint32_t)entry};
	else
		o->index->is_full = true;
	return f != NULL;
}

bool ppa_dwarf_outline_stretch(struct ppa_dwarf_outline *o, const struct ppa_dwarf_stretch *s)
{
	struct ppa_dwarf_stretch *mine =
		add(o->index, (void **)&o->stretches, &o->nstretches, &o->stretches_cap, sizeof(*mine));

	if (mine)
		*mine = *s;
	else
		o->index->is_full = true;
	return mine != NULL;
}

static bool is_before(const struct ppa_dwarf_function *a, const struct ppa_dwarf_function *b)
{
	return a->low != b->low ? a->low < b->low : a->entry < b->entry;
}

static void sift(struct ppa_dwarf_function *a, size_t from, size_t n)
{
	for (size_t child; (child = 2 * from + 1) < n; from = child) {
		struct ppa_dwarf_function swap = a[from];

		if (child + 1 < n && is_before(&a[child], &a[child + 1]))
			child++;
		if (!is_before(&swap, &a[child]))
			return;
		a[from] = a[child];
		a[child] = swap;
	}
}

static void sort(struct ppa_dwarf_function *a, size_t n)
{
	for (size_t i = n / 2; i-- > 0;)
		sift(a, i, n);
	for (size_t i = n; i-- > 1;) {
		struct ppa_dwarf_function last = a[0];

		a[0] = a[i];
		a[i] = last;
		sift(a, 0, i);
	}
}

void ppa_dwarf_outline_end_functions(struct ppa_dwarf_outline *o, bool are_all)
{
	if (!are_all) {
		drop_functions(o);
		return;
	}
	sort(o->functions, o->nfunctions);
	fit(o->index, (void **)&o->functions, o->nfunctions, &o->functions_cap, sizeof(*o->functions));
	o->has_functions = true;
}

void ppa_dwarf_outline_end_stretches(struct ppa_dwarf_outline *o, bool are_all)
{
	if (!are_all) {
		drop_stretches(o);
		return;
	}
	fit(o->index, (void **)&o->stretches, o->nstretches, &o->stretches_cap, sizeof(*o->stretches));
	o->has_stretches = true;
}

/* ---- all of it ---- */

void ppa_dwarf_index_take_places(struct ppa_dwarf_index *x, struct ppa_dwarf_place *places, size_t n, bool is_partial)
{
	x->places = places;
	x->nplaces = n;
	x->is_partial = is_partial;
}

static void drop_ranges(struct ppa_dwarf_index *x)
{
	drop(x, (void **)&x->ranges, &x->nranges, &x->ranges_cap, sizeof(*x->ranges));
	x->has_ranges = x->has_no_ranges = false;
}

void ppa_dwarf_index_widen(struct ppa_dwarf_index *x, struct ppa_dwarf_place *places, size_t n)
{
	struct ppa_dwarf_outline **old = x->outlines;
	struct ppa_dwarf_place *part = x->places;
	size_t npart = x->nplaces, k = 0;
	bool has_room;

	drop_ranges(x);
	ppa_dwarf_index_take_places(x, places, n, false);
	x->is_whole = true;
	x->outlines = NULL;
	has_room = old && n && make_outlines(x);
	for (size_t i = 0; old && i < npart; i++) {
		while (k < n && places[k].offset < part[i].offset)
			k++;
		if (old[i] && has_room && k < n && places[k].offset == part[i].offset)
			x->outlines[k] = old[i];
		else if (old[i])
			drop_outline(x, old[i]);
	}
	x->bytes -= old ? npart * sizeof(*old) : 0;
	ppa_vheap_free(old);
	ppa_vheap_free(part);
}

static void drop_all(struct ppa_dwarf_index *x)
{
	drop_outlines(x);
	x->bytes -= x->outlines ? x->nplaces * sizeof(struct ppa_dwarf_outline *) : 0;
	ppa_vheap_free(x->outlines);
	x->outlines = NULL;
	drop_ranges(x);
	ppa_vheap_free(x->places);
	x->places = NULL;
	x->nplaces = 0;
}

void ppa_dwarf_index_begin(struct ppa_dwarf_index *x, size_t more_bytes)
{
	if (x->is_full)
		drop_outlines(x);
	x->max_bytes = x->bytes + more_bytes;
}

uint64_t ppa_dwarf_index_bytes(const struct ppa_dwarf_index *x)
{
	return x ? sizeof(*x) + x->bytes + x->nplaces * sizeof(*x->places) : 0;
}

void ppa_dwarf_index_free(struct ppa_dwarf_index *x)
{
	if (!x)
		return;
	drop_all(x);
	ppa_vheap_free(x);
}
