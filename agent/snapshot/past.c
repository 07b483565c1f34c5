/* SPDX-License-Identifier: Apache-2.0
 *
 * A table was true from one count of unloads until another; a stack that was first seen between is of its time. A
 * stack from a gap between two tables was seen while libraries came and went: its origin may tell the table, if the
 * libraries were known by then; else it is the next one, which was made after they came, or, for what a library does
 * while it is being unloaded, the one before. */
#include "agent/snapshot/past.h"

#include "agent/profile/unloads.h"
#include "agent/snapshot/rows.h"

enum { SHIFTS = 0x7fff, SHIFT_BITS = 47 }; /* user addresses have 47 bits */

void ppa_past_hold(struct ppa_past *past)
{
	past->n = ppa_modules_hold_all(past->eras);
}

void ppa_past_release(struct ppa_past *past)
{
	while (past->n)
		ppa_modules_release(past->eras[--past->n].table);
}

static bool has_origin(const struct ppa_module_table *t, const struct ppa_row *row)
{
	uint64_t origin = 0;

	for (uint32_t i = 0; i < row->npcs; i++) {
		const struct ppa_text_segment *seg = ppa_modules_lookup(t, row->pcs[i]);

		if (seg && !seg->module->at_startup)
			origin = ppa_origin_add(origin, seg->module->serial);
	}
	return origin == row->origin;
}

static bool knows_all(const struct ppa_module_table *t, const struct ppa_row *row)
{
	for (uint32_t i = 0; i < row->npcs; i++)
		if (!ppa_modules_lookup(t, row->pcs[i]))
			return false;
	return true;
}

/* The tables before and after a time that none covers; NULL if there is none. */
static void neighbours(const struct ppa_past *past, uint32_t born, const struct ppa_module_table **before,
		       const struct ppa_module_table **after)
{
	*before = *after = NULL;
	for (size_t i = 0; i < past->n; i++) {
		if (past->eras[i].from > born)
			*after = past->eras[i].table;
		else if (!*before && past->eras[i].until < born)
			*before = past->eras[i].table;
	}
}

static const struct ppa_module_table *choose_in_gap(const struct ppa_past *past, const struct ppa_row *row)
{
	const struct ppa_module_table *before, *after;
	bool is_unloading = row->born % 2 == 0;

	for (size_t i = 0; i < past->n; i++)
		if (has_origin(past->eras[i].table, row))
			return past->eras[i].table;
	neighbours(past, row->born, &before, &after);
	if (!before && past->n == PPA_ARRAY_LEN(past->eras))
		return NULL; /* its table may have been dropped */
	if (is_unloading && before && knows_all(before, row))
		return before;
	if (after && knows_all(after, row))
		return after;
	return before && knows_all(before, row) ? before : NULL;
}

const struct ppa_module_table *ppa_past_choose(const struct ppa_past *past, const struct ppa_row *row, bool *is_gone)
{
	const struct ppa_module_table *t;

	*is_gone = false;
	if (!past->n || !row->origin)
		return past->n ? past->eras[0].table : NULL;
	for (size_t i = 0; i < past->n; i++)
		if (past->eras[i].from <= row->born && row->born <= past->eras[i].until)
			return past->eras[i].table;
	t = choose_in_gap(past, row);
	*is_gone = !t;
	return t ? t : past->eras[0].table;
}

uint64_t ppa_past_shift(const struct ppa_past *past, uintptr_t address, uint64_t serial)
{
	for (size_t i = 0; i < past->n; i++) {
		const struct ppa_text_segment *seg = ppa_modules_lookup(past->eras[i].table, address);

		if (seg && seg->module->serial > serial)
			return (1 + serial % SHIFTS) << SHIFT_BITS;
	}
	return 0;
}
