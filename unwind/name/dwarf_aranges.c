/* SPDX-License-Identifier: Apache-2.0
 *
 * .debug_aranges: for each unit where it is and what addresses it has. With it neither the units that nobody asks for
 * need to be looked at nor, where .debug_info is compressed, inflated what comes behind the last one that somebody asks for.
 *
 * It need not be complete: clang writes none, and code that has no entry belongs to who knows whom. So it is a hint, and what
 * is not found by it is searched for in all units. A table that is not as expected is as good as none. */
#include "unwind/name/dwarf_unit.h"

static bool add_unit(struct ppa_dwarf_file *d, uint64_t offset)
{
	const struct ppa_dwarf_place *last = d->units.n ? &d->units.list[d->units.n - 1] : NULL;

	if (last && last->offset == offset)
		return true;
	return (!last || last->offset < offset) &&
	       ppa_dwarf_places_add(&d->units, &(struct ppa_dwarf_place){.offset = offset});
}

/* The set at the cursor, of one unit. */
static bool read_set(struct ppa_dwarf_file *d, struct ppa_dwarf_cursor *c, struct ppa_dwarf_index *x)
{
	uint64_t start = ppa_dwarf_tell(c), len = ppa_dwarf_uint(c, 4), end, address_bytes;
	unsigned offset_bytes = 4;

	if (len == 0xffffffffU) {
		offset_bytes = 8;
		len = ppa_dwarf_uint(c, 8);
	}
	if (c->failed || len > ppa_dwarf_left(c))
		return false;
	end = ppa_dwarf_tell(c) + len;
	if (ppa_dwarf_uint(c, 2) != 2 || !add_unit(d, ppa_dwarf_uint(c, offset_bytes)))
		return false;
	address_bytes = ppa_dwarf_u8(c);
	if ((address_bytes != 4 && address_bytes != 8) || ppa_dwarf_u8(c))
		return false;
	ppa_dwarf_skip(c, (start - ppa_dwarf_tell(c)) & (2 * address_bytes - 1));
	while (!c->failed && end - ppa_dwarf_tell(c) >= 2 * address_bytes && ppa_dwarf_step(d)) {
		uint64_t low = ppa_dwarf_uint(c, (unsigned)address_bytes);
		uint64_t high = low + ppa_dwarf_uint(c, (unsigned)address_bytes);

		/* From 0 on is what linkers dropped. */
		if (low && low < high && !ppa_dwarf_index_add_range(x, (uint32_t)(d->units.n - 1), low, high))
			return false;
	}
	if (c->failed || ppa_dwarf_tell(c) > end)
		return false;
	ppa_dwarf_seek(c, end, UINT64_MAX);
	return true;
}

bool ppa_dwarf_aranges_read(struct ppa_dwarf_file *d, struct ppa_dwarf_index *x)
{
	struct ppa_dwarf_cursor *c = &d->line; /* one that reads on and on */
	bool is_good = true;

	ppa_dwarf_turn_to(c, &d->sections[PPA_DWARF_ARANGES]);
	ppa_dwarf_seek(c, 0, UINT64_MAX);
	while (is_good && ppa_dwarf_left(c))
		is_good = ppa_dwarf_step(d) && read_set(d, c, x);
	is_good = is_good && d->units.n && d->steps;
	ppa_dwarf_turn_to(c, &d->sections[PPA_DWARF_LINE]);
	if (!is_good)
		d->units.n = 0;
	ppa_dwarf_index_end_ranges(x, is_good);
	return is_good;
}
