/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is inlined in whom: one pass over a unit's tree, which keeps nothing but the calls of the addresses asked for.
 *
 * Entries are visited parents first. A function around an address begins the address's list of calls, and an inlined call
 * around it joins the list if its parent is the last one. Where two siblings claim an address (compilers' ranges do overlap)
 * the smaller range wins, as in binutils. Everything that cannot hold the code of an address is stepped over by its sibling
 * attribute where the producer wrote one.
 *
 * The tree is walked with a stack of our own, so that its depth costs nothing. The first walk of a unit notes where its
 * functions are; later ones begin there. */
#include <stdlib.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "unwind/name/dwarf_const.h"
#include "unwind/name/dwarf_parts.h"

enum { MAX_DEPTH = 1024, MAX_CALLS = 128, MAX_HOPS = 16 };

/* An open entry. */
struct level {
	uint64_t function; /* the innermost function around here, 0 if none */
	bool is_wanted;	   /* it has an address that is asked for */
};

/* The entry at hand. */
struct entry {
	const struct ppa_dwarf_abbrev *abbrev;
	uint64_t offset, sibling;
	struct ppa_dwarf_span span;
	uint32_t call_file, call_line;
	bool is_inlined, is_hit;
};

struct walk {
	struct ppa_dwarf_file *d;
	const struct ppa_dwarf_unit *u;
	const struct ppa_dwarf_set *s;
	const struct ppa_dwarf_abbrevs *table;
	struct ppa_dwarf_outline *told; /* of each function; NULL: nobody */
	struct entry e;
	size_t depth;
	bool is_cpp;
	bool no_memory;
	struct level levels[MAX_DEPTH];
};

size_t ppa_dwarf_first_at(const struct ppa_dwarf_set *s, uint64_t pc)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->list[middle]->pc < pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool push_call(struct ppa_dwarf_want *w, const struct ppa_dwarf_call *call)
{
	if (w->ncalls == MAX_CALLS)
		return true;
	if (w->ncalls == w->calls_cap) {
		uint32_t cap = w->calls_cap ? 2 * w->calls_cap : 4;
		struct ppa_dwarf_call *calls = ppa_vheap_realloc(w->calls, cap * sizeof(*calls));

		if (!calls)
			return false;
		w->calls = calls;
		w->calls_cap = cap;
	}
	w->calls[w->ncalls++] = *call;
	return true;
}

/* The entry at hand has code at w's address, in a range of so many bytes. */
static void take_call(struct walk *k, struct ppa_dwarf_want *w, uint64_t bytes)
{
	const struct entry *e = &k->e;
	uint32_t n = w->ncalls;

	if (e->is_inlined) {
		while (n && w->calls[n - 1].depth >= k->depth)
			n--;
		if (!n || w->calls[n - 1].entry != k->levels[k->depth - 1].function)
			return;
	} else {
		n = 0;
	}
	if (n < w->ncalls && w->calls[n].bytes <= bytes)
		return;
	w->ncalls = n;
	if (!push_call(w, &(struct ppa_dwarf_call){e->offset, bytes, (uint32_t)k->depth, e->call_file, e->call_line}))
		k->no_memory = true;
	k->e.is_hit = true;
}

static void take_range(void *arg, uint64_t low, uint64_t high)
{
	struct walk *k = arg;

	if (k->told && !k->e.is_inlined &&
	    !ppa_dwarf_outline_function(k->told, low, high, k->e.offset - k->u->place->offset)) {
		ppa_dwarf_outline_end_functions(k->told, false);
		k->told = NULL;
	}
	for (size_t i = ppa_dwarf_first_at(k->s, low); i < k->s->n && k->s->list[i]->pc < high; i++)
		take_call(k, k->s->list[i], high - low);
}

static void take_attr(struct walk *k, uint16_t name, const struct ppa_dwarf_value *v)
{
	if (ppa_dwarf_span_take(&k->e.span, name, v))
		return;
	switch (name) {
	case DW_AT_sibling:
		if (v->kind == PPA_DWARF_REF_UNIT)
			k->e.sibling = k->u->place->offset + v->u;
		break;
	case DW_AT_call_file:
		k->e.call_file = (uint32_t)v->u;
		break;
	case DW_AT_call_line:
		k->e.call_line = (uint32_t)v->u;
		break;
	default:
		break;
	}
}

/* Field by field, as this is done for every entry there is, and clearing them all at once is a slow instruction. */
static void begin_entry(struct entry *e, uint64_t offset)
{
	e->offset = offset;
	e->sibling = 0;
	e->span.low.kind = e->span.high.kind = e->span.ranges.kind = PPA_DWARF_NOTHING;
	e->call_file = e->call_line = 0;
	e->is_inlined = e->is_hit = false;
}

/* Read the entry at the cursor; false at the end of a list of children. */
static bool read_entry(struct walk *k)
{
	struct ppa_dwarf_cursor *c = &k->d->info;
	struct ppa_dwarf_value v;
	uint64_t code;

	begin_entry(&k->e, ppa_dwarf_tell(c));
	code = ppa_dwarf_uleb(c);
	if (!code)
		return false;
	k->e.abbrev = ppa_dwarf_abbrev_find(k->table, code);
	if (!k->e.abbrev) {
		ppa_dwarf_fail(c);
		return false;
	}
	for (uint32_t i = 0; i < k->e.abbrev->nattrs;) {
		const struct ppa_dwarf_attr *a = &k->table->attrs[k->e.abbrev->first + i];

		if (a->nskipped) {
			ppa_dwarf_skip(c, a->skipped_bytes);
			i += a->nskipped;
			continue;
		}
		i++;
		ppa_dwarf_value_read(c, &k->u->place->shape, a->form, a->implicit, &v);
		take_attr(k, a->name, &v);
	}
	return !c->failed;
}

/* Can code of an address that is asked for be below the entry at hand? */
static bool is_of_interest(const struct walk *k)
{
	enum { ARRAY = 0x01, CLASS = 0x02, ENUM = 0x04, STRUCT = 0x13, ROUTINE = 0x15, UNION = 0x17, CALL_SITE = 0x48 };

	switch (k->e.abbrev->tag) {
	case DW_TAG_inlined_subroutine:
		return k->e.is_hit;
	case ARRAY:
	case ENUM:
	case ROUTINE:
	case CALL_SITE:
		return false;
	case CLASS:
	case STRUCT:
	case UNION:
		/* Rust puts functions into types, C++ only declares them there. */
		return !k->is_cpp;
	default: /* also functions that nobody asks for: lambdas and local classes' functions are in them */
		return true;
	}
}

/* Go down into the entry's children, or past them. */
static void descend(struct walk *k)
{
	bool is_function = k->e.abbrev->tag == DW_TAG_subprogram || k->e.is_inlined;
	const struct level *around = &k->levels[k->depth ? k->depth - 1 : 0];
	struct ppa_dwarf_cursor *c = &k->d->info;

	if (!k->e.abbrev->has_children)
		return;
	/* Forwards only: backwards, the walk would never end. */
	if (!is_of_interest(k) && k->e.sibling > ppa_dwarf_tell(c)) {
		ppa_dwarf_seek(c, k->e.sibling, k->u->place->end);
		return;
	}
	if (k->depth == MAX_DEPTH) {
		ppa_dwarf_fail(c);
		return;
	}
	k->levels[k->depth] = is_function ? (struct level){k->e.offset, k->e.is_hit}
			      : k->depth  ? *around
					  : (struct level){0};
	k->depth++;
}

static void visit(struct walk *k)
{
	bool is_below_wanted = k->depth && k->levels[k->depth - 1].is_wanted;

	k->e.is_inlined = k->e.abbrev->tag == DW_TAG_inlined_subroutine;
	/* What is inlined in a function that nobody asks for is not asked for, either. */
	if (k->e.abbrev->tag == DW_TAG_subprogram || (k->e.is_inlined && is_below_wanted))
		ppa_dwarf_each_range(k->d, k->u, &k->e.span, take_range, k);
	descend(k);
}

static bool is_cpp(uint64_t language)
{
	switch (language) {
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14:
	case DW_LANG_C_plus_plus_17:
	case DW_LANG_C_plus_plus_20:
		return true;
	default:
		return false;
	}
}

/* From the entry at offset on: it and all below it, or with is_all all that follow. */
static void walk_from(struct walk *k, uint64_t offset, bool is_all)
{
	struct ppa_dwarf_cursor *c = &k->d->info;
	size_t least = is_all ? 1 : 0;

	k->depth = 0;
	ppa_dwarf_seek(c, offset, k->u->place->end);
	while (ppa_dwarf_left(c) && ppa_dwarf_step(k->d)) {
		if (read_entry(k))
			visit(k);
		else if (c->failed || k->depth <= least)
			break;
		else
			k->depth--;
		if (!is_all && !k->depth)
			break;
	}
}

/* Every entry of the unit. */
static void walk_unit(struct walk *k, struct ppa_dwarf_outline *outline)
{
	k->told = outline;
	walk_from(k, k->u->place->data, true);
	if (k->told)
		ppa_dwarf_outline_end_functions(k->told, k->d->steps && !k->no_memory);
}

/* The functions that the addresses are in. */
static void walk_functions(struct walk *k, const struct ppa_dwarf_outline *outline)
{
	const struct ppa_dwarf_function *f = outline->functions;
	size_t next = 0;

	for (size_t i = 0; i < outline->nfunctions; i++) {
		while (next < k->s->n && k->s->list[next]->pc < f[i].low)
			next++;
		if (next == k->s->n)
			break;
		if (k->s->list[next]->pc - f[i].low < f[i].bytes)
			walk_from(k, k->u->place->offset + f[i].entry, false);
	}
}

bool ppa_dwarf_find_calls(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u, const struct ppa_dwarf_set *s,
			  struct ppa_dwarf_outline *outline)
{
	const struct ppa_dwarf_abbrevs *table = ppa_dwarf_table(d, u->place);
	struct walk *k = ppa_vheap_malloc(sizeof(*k));
	bool had_memory = k != NULL;

	if (!k || !table) {
		ppa_vheap_free(k);
		return had_memory;
	}
	k->d = d;
	k->u = u;
	k->s = s;
	k->table = table;
	k->told = NULL;
	k->no_memory = false;
	k->is_cpp = is_cpp(u->language);
	if (outline && outline->has_functions)
		walk_functions(k, outline);
	else
		walk_unit(k, outline);
	had_memory = !k->no_memory;
	ppa_vheap_free(k);
	return had_memory;
}

/* A reference to another entry, perhaps in another unit or file. */
struct reference {
	struct ppa_dwarf_file *d;
	uint64_t entry;
};

static bool follow(struct reference *r, const struct ppa_dwarf_place *place, const struct ppa_dwarf_value *v)
{
	switch (v->kind) {
	case PPA_DWARF_REF_UNIT:
		r->entry = place->offset + v->u;
		return true;
	case PPA_DWARF_REF_INFO:
		r->entry = v->u;
		return true;
	case PPA_DWARF_REF_ALT:
		r->d = r->d->alt;
		r->entry = v->u;
		return r->d != NULL;
	default:
		return false;
	}
}

/* What one entry says of its name. */
struct naming {
	struct ppa_dwarf_value linkage, name, next;
	uint32_t decl_file, decl_line;
};

static bool read_naming(const struct reference *r, const struct ppa_dwarf_place *place, struct naming *out)
{
	const struct ppa_dwarf_abbrevs *table = ppa_dwarf_table(r->d, place);
	struct ppa_dwarf_cursor *c = &r->d->reference;
	const struct ppa_dwarf_abbrev *abbrev;
	struct ppa_dwarf_value v;

	*out = (struct naming){.decl_file = 0};
	ppa_dwarf_seek(c, r->entry, place->end);
	abbrev = table ? ppa_dwarf_abbrev_find(table, ppa_dwarf_uleb(c)) : NULL;
	for (uint32_t i = 0; abbrev && i < abbrev->nattrs && !c->failed; i++) {
		const struct ppa_dwarf_attr *a = &table->attrs[abbrev->first + i];

		ppa_dwarf_value_read(c, &place->shape, a->form, a->implicit, &v);
		if (a->name == DW_AT_linkage_name || a->name == DW_AT_MIPS_linkage_name)
			out->linkage = v;
		else if (a->name == DW_AT_name)
			out->name = v;
		else if (a->name == DW_AT_abstract_origin || a->name == DW_AT_specification)
			out->next = v;
		else if (a->name == DW_AT_decl_file)
			out->decl_file = (uint32_t)v.u;
		else if (a->name == DW_AT_decl_line)
			out->decl_line = (uint32_t)v.u;
	}
	return abbrev && !c->failed;
}

static size_t text_of(const struct reference *r, const struct ppa_dwarf_unit *u, const struct ppa_dwarf_place *place,
		      const struct ppa_dwarf_value *v, char *buf, size_t cap)
{
	struct ppa_dwarf_unit other;

	/* Only an index into the string offsets needs to know where its own unit's begin. */
	if (v->kind == PPA_DWARF_TEXT_X && place != u->place) {
		if (!ppa_dwarf_unit_read(r->d, place, &other))
			return 0;
		u = &other;
	}
	return ppa_dwarf_text(r->d, u, v, &r->d->sections[PPA_DWARF_INFO], buf, cap);
}

struct ppa_dwarf_name ppa_dwarf_name_of(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u, uint64_t entry,
					char *buf, size_t cap)
{
	struct ppa_dwarf_name name = {.is_known = false};
	struct reference r = {d, entry};
	struct naming n;

	for (int hop = 0; hop < MAX_HOPS && ppa_dwarf_step(d); hop++) {
		const struct ppa_dwarf_place *place = ppa_dwarf_place_of(r.d, r.entry);

		if (!place || !read_naming(&r, place, &n))
			break;
		if (!name.decl_line && place == u->place) {
			name.decl_line = n.decl_line;
			name.decl_file = n.decl_file;
		}
		if (n.linkage.kind && text_of(&r, u, place, &n.linkage, buf, cap)) {
			name.is_known = true;
			break;
		}
		if (!name.is_known && n.name.kind && text_of(&r, u, place, &n.name, buf, cap))
			name.is_known = true;
		if (!follow(&r, place, &n.next))
			break;
	}
	return name;
}
