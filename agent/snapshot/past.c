/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of the right time is known by its layout, as long as that is the current one: within a layout no address
 * changes its meaning. Otherwise by the stack's origin, which the serials of the table's modules must reproduce; and
 * where the stack went through a library before any table knew it, by the layout again. */
#include "agent/snapshot/past.h"

#include "agent/profile/unloads.h"
#include "agent/snapshot/rows.h"

enum { SHIFTS = 0x7fff, SHIFT_BITS = 47 }; /* user addresses have 47 bits */

void ppa_past_hold(struct ppa_past *past)
{
	past->n = ppa_modules_hold_all(past->tables);
}

void ppa_past_release(struct ppa_past *past)
{
	while (past->n)
		ppa_modules_release(past->tables[--past->n]);
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

const struct ppa_module_table *ppa_past_choose(const struct ppa_past *past, const struct ppa_row *row, bool *is_gone)
{
	*is_gone = false;
	if (!past->n)
		return NULL;
	if (!row->origin || row->layout == (uint32_t)past->tables[0]->layout)
		return past->tables[0];
	for (size_t i = 0; i < past->n; i++)
		if (has_origin(past->tables[i], row))
			return past->tables[i];
	for (size_t i = 0; i < past->n; i++)
		if (row->layout ? row->layout == (uint32_t)past->tables[i]->layout : knows_all(past->tables[i], row))
			return past->tables[i];
	*is_gone = true;
	return past->tables[0];
}

uint64_t ppa_past_shift(const struct ppa_past *past, uintptr_t address, uint64_t serial)
{
	for (size_t i = 0; i < past->n; i++) {
		const struct ppa_text_segment *seg = ppa_modules_lookup(past->tables[i], address);

		if (seg && seg->module->serial > serial)
			return (1 + serial % SHIFTS) << SHIFT_BITS;
	}
	return 0;
}
