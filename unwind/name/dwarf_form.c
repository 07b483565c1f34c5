/* SPDX-License-Identifier: Apache-2.0
 *
 * Abbreviation tables are read as a whole when a unit is walked, and up to the first entry's when only the unit's head is
 * of interest. Producers number them from 1 upwards, so that a code is an index; other orders are searched. */
#include "unwind/name/dwarf_form.h"

#include <string.h>

#include "agent/base/vheap.h"
#include "unwind/name/dwarf_const.h"

static bool room(void **list, size_t n, size_t *cap, size_t bytes, size_t max)
{
	void *p;

	if (n < *cap)
		return true;
	if (n >= max)
		return false;
	p = ppa_vheap_realloc(*list, (*cap ? 2 * *cap : 64) * bytes);
	if (!p)
		return false;
	*list = p;
	*cap = *cap ? 2 * *cap : 64;
	return true;
}

/* How long a value of this form is, -1 if it says so itself. */
static int length_of(const struct ppa_dwarf_shape *s, uint16_t form)
{
	switch (form) {
	case DW_FORM_flag_present:
	case DW_FORM_implicit_const:
		return 0;
	case DW_FORM_data1:
	case DW_FORM_flag:
	case DW_FORM_ref1:
	case DW_FORM_strx1:
	case DW_FORM_addrx1:
		return 1;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2:
		return 2;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4:
		return 4;
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sig8:
		return 8;
	case DW_FORM_addr:
		return s->address_size;
	case DW_FORM_strp:
	case DW_FORM_line_strp:
	case DW_FORM_sec_offset:
	case DW_FORM_GNU_strp_alt:
	case DW_FORM_GNU_ref_alt:
		return s->offset_size;
	default:
		return -1;
	}
}

/* What the walk of a tree asks an entry for: its code, and who called it. */
static bool is_asked_for(uint16_t tag, uint16_t name)
{
	switch (name) {
	case DW_AT_sibling:
		return true;
	case DW_AT_low_pc:
	case DW_AT_high_pc:
	case DW_AT_ranges:
	case DW_AT_call_file:
	case DW_AT_call_line:
		return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
	default:
		return false;
	}
}

static void join_skipped(struct ppa_dwarf_abbrevs *a, const struct ppa_dwarf_abbrev *e)
{
	struct ppa_dwarf_attr *attr = a->attrs + e->first;

	for (uint32_t i = e->nattrs; i-- > 0;) {
		bool has_next = i + 1 < e->nattrs && attr[i + 1].nskipped < UINT16_MAX;
		int length = length_of(&a->shape, attr[i].form);

		if (length < 0 || is_asked_for(e->tag, attr[i].name))
			continue;
		attr[i].nskipped = (uint16_t)(1 + (has_next ? attr[i + 1].nskipped : 0));
		attr[i].skipped_bytes = (uint32_t)length + (has_next ? attr[i + 1].skipped_bytes : 0);
	}
}

static bool read_attrs(struct ppa_dwarf_abbrevs *a, struct ppa_dwarf_cursor *c, struct ppa_dwarf_abbrev *e)
{
	for (;;) {
		uint64_t name = ppa_dwarf_uleb(c), form = ppa_dwarf_uleb(c);
		int64_t implicit = form == DW_FORM_implicit_const ? ppa_dwarf_sleb(c) : 0;

		if (c->failed || form > UINT16_MAX)
			return false;
		if (!name && !form) {
			if (a->shape.offset_size)
				join_skipped(a, e);
			return true;
		}
		if (!room((void **)&a->attrs, a->nattrs, &a->attrs_cap, sizeof(*a->attrs), PPA_DWARF_MAX_ATTRS))
			return false;
		/* Names beyond 16 bits are nobody's that we know. */
		a->attrs[a->nattrs++] = (struct ppa_dwarf_attr){
			.name = name > UINT16_MAX ? 0 : (uint16_t)name, .form = (uint16_t)form, .implicit = implicit};
		e->nattrs++;
	}
}

bool ppa_dwarf_abbrevs_read(struct ppa_dwarf_abbrevs *a, struct ppa_dwarf_cursor *c, uint64_t offset,
			    const struct ppa_dwarf_shape *shape, uint64_t only)
{
	a->n = a->nattrs = 0;
	a->shape = (struct ppa_dwarf_shape){0};
	a->offset = offset;
	if (shape)
		a->shape = *shape;
	ppa_dwarf_seek(c, offset, UINT64_MAX);
	for (;;) {
		struct ppa_dwarf_abbrev e = {.code = ppa_dwarf_uleb(c), .first = (uint32_t)a->nattrs};

		if (!e.code)
			return !c->failed && !only;
		if (!room((void **)&a->list, a->n, &a->cap, sizeof(*a->list), PPA_DWARF_MAX_ABBREVS))
			return false;
		e.tag = (uint16_t)ppa_dwarf_uleb(c);
		e.has_children = ppa_dwarf_u8(c) != 0;
		if (!read_attrs(a, c, &e))
			return false;
		a->list[a->n++] = e;
		if (e.code == only)
			return true;
	}
}

void ppa_dwarf_abbrevs_free(struct ppa_dwarf_abbrevs *a)
{
	ppa_vheap_free(a->list);
	ppa_vheap_free(a->attrs);
	memset(a, 0, sizeof(*a));
}

const struct ppa_dwarf_abbrev *ppa_dwarf_abbrev_find(const struct ppa_dwarf_abbrevs *a, uint64_t code)
{
	if (code - 1 < a->n && a->list[code - 1].code == code)
		return &a->list[code - 1];
	for (size_t i = 0; i < a->n; i++)
		if (a->list[i].code == code)
			return &a->list[i];
	return NULL;
}

static struct ppa_dwarf_value number(enum ppa_dwarf_kind kind, uint64_t u)
{
	return (struct ppa_dwarf_value){kind, u};
}

/* The forms that are no plain numbers of the DIE's own. */
static struct ppa_dwarf_value read_reference(struct ppa_dwarf_cursor *c, const struct ppa_dwarf_shape *s, uint16_t form)
{
	switch (form) {
	case DW_FORM_ref1:
		return number(PPA_DWARF_REF_UNIT, ppa_dwarf_u8(c));
	case DW_FORM_ref2:
		return number(PPA_DWARF_REF_UNIT, ppa_dwarf_uint(c, 2));
	case DW_FORM_ref4:
		return number(PPA_DWARF_REF_UNIT, ppa_dwarf_uint(c, 4));
	case DW_FORM_ref8:
		return number(PPA_DWARF_REF_UNIT, ppa_dwarf_uint(c, 8));
	case DW_FORM_ref_udata:
		return number(PPA_DWARF_REF_UNIT, ppa_dwarf_uleb(c));
	case DW_FORM_ref_addr: /* as wide as an address in DWARF 2 */
		return number(PPA_DWARF_REF_INFO,
			      ppa_dwarf_uint(c, s->version == 2 ? s->address_size : s->offset_size));
	case DW_FORM_GNU_ref_alt:
		return number(PPA_DWARF_REF_ALT, ppa_dwarf_uint(c, s->offset_size));
	case DW_FORM_ref_sup4:
		return number(PPA_DWARF_REF_ALT, ppa_dwarf_uint(c, 4));
	case DW_FORM_ref_sup8:
		return number(PPA_DWARF_REF_ALT, ppa_dwarf_uint(c, 8));
	case DW_FORM_addr:
		return number(PPA_DWARF_ADDRESS, ppa_dwarf_uint(c, s->address_size));
	case DW_FORM_addrx:
	case DW_FORM_GNU_addr_index:
		return number(PPA_DWARF_ADDRESS_X, ppa_dwarf_uleb(c));
	case DW_FORM_addrx1:
	case DW_FORM_addrx2:
	case DW_FORM_addrx3:
	case DW_FORM_addrx4:
		return number(PPA_DWARF_ADDRESS_X, ppa_dwarf_uint(c, (unsigned)(form - DW_FORM_addrx1 + 1)));
	case DW_FORM_rnglistx:
		return number(PPA_DWARF_RANGES_X, ppa_dwarf_uleb(c));
	default: /* its length is unknown: nothing behind it can be read */
		ppa_dwarf_fail(c);
		return number(PPA_DWARF_NOTHING, 0);
	}
}

static struct ppa_dwarf_value read_text(struct ppa_dwarf_cursor *c, const struct ppa_dwarf_shape *s, uint16_t form)
{
	struct ppa_dwarf_value v;

	switch (form) {
	case DW_FORM_string:
		v = number(PPA_DWARF_TEXT_HERE, ppa_dwarf_tell(c));
		ppa_dwarf_skip_string(c);
		return v;
	case DW_FORM_strp:
		return number(PPA_DWARF_TEXT, ppa_dwarf_uint(c, s->offset_size));
	case DW_FORM_line_strp:
		return number(PPA_DWARF_TEXT_LINE, ppa_dwarf_uint(c, s->offset_size));
	case DW_FORM_GNU_strp_alt:
	case DW_FORM_strp_sup:
		return number(PPA_DWARF_TEXT_ALT, ppa_dwarf_uint(c, s->offset_size));
	case DW_FORM_strx:
	case DW_FORM_GNU_str_index:
		return number(PPA_DWARF_TEXT_X, ppa_dwarf_uleb(c));
	case DW_FORM_strx1:
	case DW_FORM_strx2:
	case DW_FORM_strx3:
	case DW_FORM_strx4:
		return number(PPA_DWARF_TEXT_X, ppa_dwarf_uint(c, (unsigned)(form - DW_FORM_strx1 + 1)));
	default:
		return read_reference(c, s, form);
	}
}

/* Blocks of bytes that nobody reads; false: form is no block. */
static bool skip_block(struct ppa_dwarf_cursor *c, uint16_t form)
{
	switch (form) {
	case DW_FORM_block:
	case DW_FORM_exprloc:
		ppa_dwarf_skip(c, ppa_dwarf_uleb(c));
		return true;
	case DW_FORM_block1:
		ppa_dwarf_skip(c, ppa_dwarf_u8(c));
		return true;
	case DW_FORM_block2:
		ppa_dwarf_skip(c, ppa_dwarf_uint(c, 2));
		return true;
	case DW_FORM_block4:
		ppa_dwarf_skip(c, ppa_dwarf_uint(c, 4));
		return true;
	case DW_FORM_data16:
		ppa_dwarf_skip(c, 16);
		return true;
	case DW_FORM_ref_sig8:
		ppa_dwarf_skip(c, 8);
		return true;
	default:
		return false;
	}
}

void ppa_dwarf_value_read(struct ppa_dwarf_cursor *c, const struct ppa_dwarf_shape *s, uint16_t form, int64_t implicit,
			  struct ppa_dwarf_value *v)
{
	*v = number(PPA_DWARF_NUMBER, 0);
	if (form == DW_FORM_indirect) {
		uint64_t actual = ppa_dwarf_uleb(c);

		/* One step: an indirect form of an indirect form has no use but harm. */
		form = actual > UINT16_MAX || actual == DW_FORM_indirect || actual == DW_FORM_implicit_const
			       ? 0
			       : (uint16_t)actual;
	}
	switch (form) {
	case DW_FORM_data1:
	case DW_FORM_flag:
		v->u = ppa_dwarf_u8(c);
		break;
	case DW_FORM_data2:
		v->u = ppa_dwarf_uint(c, 2);
		break;
	case DW_FORM_data4:
		v->u = ppa_dwarf_uint(c, 4);
		break;
	case DW_FORM_data8:
		v->u = ppa_dwarf_uint(c, 8);
		break;
	case DW_FORM_udata:
	case DW_FORM_loclistx:
		v->u = ppa_dwarf_uleb(c);
		break;
	case DW_FORM_sdata:
		v->u = (uint64_t)ppa_dwarf_sleb(c);
		break;
	case DW_FORM_implicit_const:
		v->u = (uint64_t)implicit;
		break;
	case DW_FORM_flag_present:
		v->u = 1;
		break;
	case DW_FORM_sec_offset:
		v->u = ppa_dwarf_uint(c, s->offset_size);
		break;
	default:
		*v = skip_block(c, form) ? number(PPA_DWARF_NOTHING, 0) : read_text(c, s, form);
	}
}
