/* SPDX-License-Identifier: Apache-2.0
 *
 * Units: a chain of headers through .debug_info, each with a length. Only the headers are read to list them; the first
 * entry of each, which says what addresses the unit covers, is read when somebody asks. */
#include "unwind/name/dwarf_unit.h"

#include <errno.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "unwind/name/dwarf_const.h"

/* What crafted data can cost: each byte of the file may be read so many times, and so many entries looked at for it. Honest
 * files are read less than twice. */
enum { WORK_PER_BYTE = 32, WORK_AT_LEAST = 64 << 20, STEPS_PER_BYTE = 4, STEPS_AT_LEAST = 1 << 20 };

#define DWARF64_ESCAPE 0xffffffffU

bool ppa_dwarf_places_add(struct ppa_dwarf_places *p, const struct ppa_dwarf_place *place)
{
	if (p->n == p->cap) {
		size_t cap = p->cap ? 2 * p->cap : 64;
		struct ppa_dwarf_place *list =
			cap > PPA_DWARF_MAX_UNITS ? NULL : ppa_vheap_realloc(p->list, cap * sizeof(*list));

		if (!list)
			return false;
		p->list = list;
		p->cap = cap;
	}
	p->list[p->n++] = *place;
	return true;
}

/* The header at the cursor. False: the chain ends here. */
static bool read_header(struct ppa_dwarf_cursor *c, struct ppa_dwarf_place *p)
{
	uint64_t len;

	*p = (struct ppa_dwarf_place){.offset = ppa_dwarf_tell(c), .shape = {.offset_size = 4}};
	len = ppa_dwarf_uint(c, 4);
	if (len == DWARF64_ESCAPE) {
		p->shape.offset_size = 8;
		len = ppa_dwarf_uint(c, 8);
	}
	if (c->failed || !len || len > ppa_dwarf_left(c))
		return false;
	p->end = ppa_dwarf_tell(c) + len;
	p->shape.version = (uint8_t)ppa_dwarf_uint(c, 2);
	if (p->shape.version >= 5) {
		p->type = (uint8_t)ppa_dwarf_u8(c);
		p->shape.address_size = (uint8_t)ppa_dwarf_u8(c);
		p->abbrevs = ppa_dwarf_uint(c, p->shape.offset_size);
		if (p->type == DW_UT_skeleton || p->type == DW_UT_split_compile)
			ppa_dwarf_skip(c, 8); /* the .dwo file's id */
	} else {
		p->abbrevs = ppa_dwarf_uint(c, p->shape.offset_size);
		p->shape.address_size = (uint8_t)ppa_dwarf_u8(c);
	}
	p->data = ppa_dwarf_tell(c);
	return !c->failed;
}

/* Can anything in the unit be read and be of use? Type units hold no code. */
static bool is_readable(const struct ppa_dwarf_place *p)
{
	return p->shape.version >= 2 && p->shape.version <= 5 &&
	       (p->shape.address_size == 8 || p->shape.address_size == 4) && p->type != DW_UT_type &&
	       p->type != DW_UT_split_type && p->data < p->end;
}

static int list_units(struct ppa_dwarf_file *d, struct ppa_dwarf_places *places)
{
	struct ppa_dwarf_cursor *c = &d->reference; /* jumps, so a small window */
	struct ppa_dwarf_place p;

	ppa_dwarf_seek(c, 0, UINT64_MAX);
	while (ppa_dwarf_left(c) && read_header(c, &p)) {
		if (is_readable(&p) && !ppa_dwarf_places_add(places, &p))
			return -ENOMEM;
		ppa_dwarf_seek(c, p.end, UINT64_MAX);
	}
	return 0;
}

bool ppa_dwarf_place_read(struct ppa_dwarf_file *d, struct ppa_dwarf_place *place)
{
	struct ppa_dwarf_place p;

	if (!place->end) {
		ppa_dwarf_seek(&d->reference, place->offset, UINT64_MAX);
		/* One that cannot be read has nothing in it, and is not tried again. */
		if (!ppa_dwarf_left(&d->reference) || !read_header(&d->reference, &p) || !is_readable(&p))
			p = (struct ppa_dwarf_place){
				.offset = place->offset, .data = place->offset + 1, .end = place->offset + 1};
		*place = p;
	}
	return place->data < place->end;
}

int ppa_dwarf_file_open(struct ppa_dwarf_file *d, const struct ppa_elf_file *f, uint64_t *allowance,
			struct ppa_inflated *inflated, struct ppa_dwarf_index *index)
{
	uint64_t bytes = 0;
	int err;

	memset(d, 0, sizeof(*d));
	err = ppa_dwarf_sections_open(d->sections, f, allowance, inflated);
	if (err)
		return err;
	for (size_t i = 0; i < PPA_DWARF_NSECTIONS; i++)
		bytes += d->sections[i].size;
	d->work = WORK_AT_LEAST + bytes * WORK_PER_BYTE;
	d->steps = STEPS_AT_LEAST + bytes * STEPS_PER_BYTE;
	ppa_dwarf_cursor_init(&d->info, &d->sections[PPA_DWARF_INFO], PPA_DWARF_WINDOW, &d->work);
	ppa_dwarf_cursor_init(&d->reference, &d->sections[PPA_DWARF_INFO], PPA_DWARF_SMALL_WINDOW, &d->work);
	ppa_dwarf_cursor_init(&d->abbrev, &d->sections[PPA_DWARF_ABBREV], PPA_DWARF_SMALL_WINDOW, &d->work);
	ppa_dwarf_cursor_init(&d->text, &d->sections[PPA_DWARF_STR], PPA_DWARF_SMALL_WINDOW, &d->work);
	ppa_dwarf_cursor_init(&d->ranges, &d->sections[PPA_DWARF_RANGES], PPA_DWARF_SMALL_WINDOW, &d->work);
	ppa_dwarf_cursor_init(&d->index, &d->sections[PPA_DWARF_ADDR], PPA_DWARF_SMALL_WINDOW, &d->work);
	ppa_dwarf_cursor_init(&d->line, &d->sections[PPA_DWARF_LINE], PPA_DWARF_WINDOW, &d->work);
	if (index && index->places) {
		d->units = (struct ppa_dwarf_places){index->places, index->nplaces, index->nplaces};
		d->is_partial = index->is_partial;
	} else {
		d->is_partial = index && !index->is_whole && ppa_dwarf_aranges_read(d, index);
		err = d->is_partial ? 0 : list_units(d, &d->units);
	}
	if (err) {
		ppa_dwarf_file_close(d);
		return err;
	}
	d->known = index;
	if (index)
		ppa_dwarf_index_take_places(index, d->units.list, d->units.n, d->is_partial);
	return 0;
}

int ppa_dwarf_file_list_all(struct ppa_dwarf_file *d)
{
	struct ppa_dwarf_places whole = {.n = 0};
	int err = list_units(d, &whole);

	ppa_dwarf_index_widen(d->known, whole.list, whole.n);
	d->units = whole;
	d->is_partial = false;
	return err;
}

void ppa_dwarf_file_close(struct ppa_dwarf_file *d)
{
	struct ppa_dwarf_cursor *cursors[] = {&d->info,	  &d->reference, &d->abbrev, &d->text,
					      &d->ranges, &d->index,	 &d->line};

	for (size_t i = 0; i < PPA_ARRAY_LEN(cursors); i++)
		ppa_dwarf_cursor_free(cursors[i]);
	for (size_t i = 0; i < PPA_DWARF_TABLES; i++)
		ppa_dwarf_abbrevs_free(&d->tables[i]);
	ppa_dwarf_abbrevs_free(&d->head);
	if (!d->known)
		ppa_vheap_free(d->units.list);
	else if (d->has_all && d->is_partial)
		ppa_dwarf_index_widen(d->known, d->all.list, d->all.n); /* next time with all of them at once */
	else
		ppa_vheap_free(d->all.list);
	memset(d, 0, sizeof(*d));
}

/* The last one that does not begin behind offset. */
static struct ppa_dwarf_place *place_before(const struct ppa_dwarf_places *p, uint64_t offset)
{
	size_t low = 0, high = p->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (p->list[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &p->list[low - 1] : NULL;
}

const struct ppa_dwarf_place *ppa_dwarf_place_of(struct ppa_dwarf_file *d, uint64_t offset)
{
	struct ppa_dwarf_place *p = place_before(&d->units, offset);

	if (p && ppa_dwarf_place_read(d, p) && offset < p->end)
		return p;
	if (!d->is_partial)
		return NULL;
	d->has_all = d->has_all || (!d->all.n && !list_units(d, &d->all));
	if (!d->has_all)
		return NULL;
	p = place_before(&d->all, offset);
	return p && offset < p->end ? p : NULL;
}

const struct ppa_dwarf_abbrevs *ppa_dwarf_table(struct ppa_dwarf_file *d, const struct ppa_dwarf_place *place)
{
	struct ppa_dwarf_abbrevs *a;

	for (size_t i = 0; i < PPA_DWARF_TABLES; i++)
		if (d->tables[i].n && d->tables[i].offset == place->abbrevs &&
		    memcmp(&d->tables[i].shape, &place->shape, sizeof(place->shape)) == 0)
			return &d->tables[i];
	a = &d->tables[d->next_table++ % PPA_DWARF_TABLES];
	if (ppa_dwarf_abbrevs_read(a, &d->abbrev, place->abbrevs, &place->shape, 0))
		return a;
	a->n = 0;
	return NULL;
}

bool ppa_dwarf_span_take(struct ppa_dwarf_span *s, uint16_t name, const struct ppa_dwarf_value *v)
{
	switch (name) {
	case DW_AT_low_pc:
		s->low = *v;
		return true;
	case DW_AT_high_pc:
		s->high = *v;
		return true;
	case DW_AT_ranges:
		s->ranges = *v;
		return true;
	default:
		return false;
	}
}

static void take_head(struct ppa_dwarf_unit *u, uint16_t name, const struct ppa_dwarf_value *v)
{
	if (ppa_dwarf_span_take(&u->span, name, v))
		return;
	switch (name) {
	case DW_AT_name:
		u->name = *v;
		break;
	case DW_AT_comp_dir:
		u->comp_dir = *v;
		break;
	case DW_AT_language:
		u->language = v->u;
		break;
	case DW_AT_stmt_list:
		u->has_lines = v->kind == PPA_DWARF_NUMBER;
		u->lines = v->u;
		break;
	case DW_AT_str_offsets_base:
		u->str_offsets_base = v->u;
		break;
	case DW_AT_addr_base:
		u->addr_base = v->u;
		break;
	case DW_AT_rnglists_base:
		u->rnglists_base = v->u;
		break;
	case DW_AT_dwo_name:
	case DW_AT_GNU_dwo_name:
		u->is_split = true;
		break;
	default:
		break;
	}
}

static bool table_entry(struct ppa_dwarf_file *d, uint64_t base, uint64_t i, enum ppa_dwarf_section_id id,
			unsigned bytes, uint64_t *out)
{
	if (i > d->sections[id].size)
		return false;
	ppa_dwarf_turn_to(&d->index, &d->sections[id]);
	ppa_dwarf_seek(&d->index, base + i * bytes, UINT64_MAX);
	*out = ppa_dwarf_uint(&d->index, bytes);
	return !d->index.failed;
}

static bool address_of(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u, const struct ppa_dwarf_value *v,
		       uint64_t *out)
{
	*out = v->u;
	if (v->kind == PPA_DWARF_ADDRESS)
		return true;
	return v->kind == PPA_DWARF_ADDRESS_X &&
	       table_entry(d, u->addr_base, v->u, PPA_DWARF_ADDR, u->place->shape.address_size, out);
}

bool ppa_dwarf_unit_read(struct ppa_dwarf_file *d, const struct ppa_dwarf_place *place, struct ppa_dwarf_unit *u)
{
	struct ppa_dwarf_cursor *c = &d->reference;
	struct ppa_dwarf_abbrevs *head = &d->head;
	struct ppa_dwarf_value v;
	uint64_t code;
	bool ok;

	*u = (struct ppa_dwarf_unit){.place = place, .is_split = place->type == DW_UT_skeleton};
	ppa_dwarf_seek(c, place->data, place->end);
	code = ppa_dwarf_uleb(c);
	ok = code && ppa_dwarf_abbrevs_read(head, &d->abbrev, place->abbrevs, NULL, code);
	if (ok) {
		const struct ppa_dwarf_abbrev *a = &head->list[head->n - 1];

		for (uint32_t i = 0; i < a->nattrs; i++) {
			const struct ppa_dwarf_attr *attr = &head->attrs[a->first + i];

			ppa_dwarf_value_read(c, &place->shape, attr->form, attr->implicit, &v);
			take_head(u, attr->name, &v);
		}
		ok = !c->failed;
	}
	if (!ok || !address_of(d, u, &u->span.low, &u->base))
		u->base = 0;
	return ok;
}

/* Whom to tell of ranges. */
struct teller {
	void (*fn)(void *arg, uint64_t low, uint64_t high);
	void *arg;
};

static void tell(const struct teller *t, uint64_t low, uint64_t high)
{
	if (low && low < high)
		t->fn(t->arg, low, high);
}

/* DWARF 2 to 4: pairs of addresses; the highest address says that a new base follows. */
static void each_old_range(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u, uint64_t offset,
			   const struct teller *t)
{
	struct ppa_dwarf_cursor *c = &d->ranges;
	unsigned bytes = u->place->shape.address_size;
	uint64_t highest = bytes == 8 ? UINT64_MAX : UINT32_MAX, base = u->base;

	ppa_dwarf_turn_to(c, &d->sections[PPA_DWARF_RANGES]);
	ppa_dwarf_seek(c, offset, UINT64_MAX);
	while (ppa_dwarf_step(d)) {
		uint64_t low = ppa_dwarf_uint(c, bytes), high = ppa_dwarf_uint(c, bytes);

		if (c->failed || (!low && !high))
			return;
		if (low == highest)
			base = high;
		else
			tell(t, base + low, base + high);
	}
}

static bool indexed(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u, uint64_t i, uint64_t *out)
{
	struct ppa_dwarf_value v = {PPA_DWARF_ADDRESS_X, i};

	return address_of(d, u, &v, out);
}

/* One entry of a DWARF 5 list; false at its end. */
static bool new_range(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u, uint64_t *base, const struct teller *t)
{
	struct ppa_dwarf_cursor *c = &d->ranges;
	unsigned bytes = u->place->shape.address_size;
	uint64_t low = 0, high = 0;

	switch (ppa_dwarf_u8(c)) {
	case DW_RLE_base_addressx:
		return indexed(d, u, ppa_dwarf_uleb(c), base);
	case DW_RLE_startx_endx:
		if (!indexed(d, u, ppa_dwarf_uleb(c), &low) || !indexed(d, u, ppa_dwarf_uleb(c), &high))
			return false;
		break;
	case DW_RLE_startx_length:
		if (!indexed(d, u, ppa_dwarf_uleb(c), &low))
			return false;
		high = low + ppa_dwarf_uleb(c);
		break;
	case DW_RLE_offset_pair:
		low = *base + ppa_dwarf_uleb(c);
		high = *base + ppa_dwarf_uleb(c);
		break;
	case DW_RLE_base_address:
		*base = ppa_dwarf_uint(c, bytes);
		return true;
	case DW_RLE_start_end:
		low = ppa_dwarf_uint(c, bytes);
		high = ppa_dwarf_uint(c, bytes);
		break;
	case DW_RLE_start_length:
		low = ppa_dwarf_uint(c, bytes);
		high = low + ppa_dwarf_uleb(c);
		break;
	default: /* the end, or unknown */
		return false;
	}
	if (!c->failed)
		tell(t, low, high);
	return true;
}

static void each_new_range(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u, const struct ppa_dwarf_value *list,
			   const struct teller *t)
{
	uint64_t offset = list->u, base = u->base;

	if (list->kind == PPA_DWARF_RANGES_X) {
		if (!table_entry(d, u->rnglists_base, list->u, PPA_DWARF_RNGLISTS, u->place->shape.offset_size,
				 &offset))
			return;
		offset += u->rnglists_base;
	}
	ppa_dwarf_turn_to(&d->ranges, &d->sections[PPA_DWARF_RNGLISTS]);
	ppa_dwarf_seek(&d->ranges, offset, UINT64_MAX);
	while (ppa_dwarf_step(d) && !d->ranges.failed && new_range(d, u, &base, t))
		;
}

void ppa_dwarf_each_range(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u, const struct ppa_dwarf_span *s,
			  void (*fn)(void *arg, uint64_t low, uint64_t high), void *arg)
{
	struct teller t = {fn, arg};
	uint64_t low, high;

	if (s->ranges.kind == PPA_DWARF_RANGES_X ||
	    (s->ranges.kind == PPA_DWARF_NUMBER && u->place->shape.version >= 5)) {
		each_new_range(d, u, &s->ranges, &t);
	} else if (s->ranges.kind == PPA_DWARF_NUMBER) {
		each_old_range(d, u, s->ranges.u, &t);
	} else if (s->high.kind != PPA_DWARF_NOTHING && address_of(d, u, &s->low, &low)) {
		if (s->high.kind == PPA_DWARF_NUMBER)
			tell(&t, low, low + s->high.u);
		else if (address_of(d, u, &s->high, &high))
			tell(&t, low, high);
	}
}

size_t ppa_dwarf_text(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u, const struct ppa_dwarf_value *v,
		      const struct ppa_dwarf_section *here, char *buf, size_t cap)
{
	enum ppa_dwarf_section_id id = v->kind == PPA_DWARF_TEXT_LINE ? PPA_DWARF_LINE_STR : PPA_DWARF_STR;
	const struct ppa_dwarf_section *sec = v->kind == PPA_DWARF_TEXT_HERE ? here : &d->sections[id];
	struct ppa_dwarf_cursor *c = &d->text;
	uint64_t offset = v->u;

	buf[0] = '\0';
	if (v->kind == PPA_DWARF_TEXT_ALT) {
		struct ppa_dwarf_value in_alt = {PPA_DWARF_TEXT, v->u};

		return d->alt ? ppa_dwarf_text(d->alt, u, &in_alt, NULL, buf, cap) : 0;
	}
	if (v->kind < PPA_DWARF_TEXT_HERE ||
	    (v->kind == PPA_DWARF_TEXT_X &&
	     !table_entry(d, u->str_offsets_base, v->u, PPA_DWARF_STR_OFFSETS, u->place->shape.offset_size, &offset)))
		return 0;
	ppa_dwarf_turn_to(c, sec);
	ppa_dwarf_seek(c, offset, UINT64_MAX);
	return ppa_dwarf_string(c, buf, cap);
}
