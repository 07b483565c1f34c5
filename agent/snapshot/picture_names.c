/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses to locations, functions and mappings, each kept once. Before all that stands a memory of (module table,
 * address) -> location, because a profile of 100,000 stacks asks two million times for the same few thousand frames. */
#include <errno.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "agent/profile/marker.h"
#include "agent/snapshot/allocators.h"
#include "agent/snapshot/past.h"
#include "agent/snapshot/picture_parts.h"
#include "unwind/jit/jit.h"
#include "unwind/module/modules.h"
#include "unwind/walk/starts.h"
#include "unwind/name/symbols.h"
#include "unwind/walk/unwind.h"

/* Where an address lies: whose code it is, and how far it has to be moved to be unique. */
struct place {
	const struct ppa_text_segment *seg; /* NULL: nobody's */
	uint64_t shift;
	bool is_gone; /* the library is unknown */
};

static uint64_t hash_text(uint64_t h, const char *s)
{
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3ULL;
	return h;
}

static uint64_t location_hash(const struct ppa_picture *p, uint32_t i)
{
	return ppa_picture_mix(((const struct ppa_location *)p->locations.items)[i].address);
}

static uint64_t name_hash(const struct ppa_function *f)
{
	uint64_t h = hash_text(hash_text(0xcbf29ce484222325ULL, f->name), f->system_name);

	return ppa_picture_mix(hash_text(h, f->filename) ^ (uint64_t)f->start_line);
}

static uint64_t function_hash(const struct ppa_picture *p, uint32_t i)
{
	return name_hash(&((const struct ppa_function *)p->functions.items)[i]);
}

/* shift: see struct place. */
uint32_t ppa_picture_mapping_of(struct ppa_picture *p, const struct ppa_text_segment *seg, uint64_t shift)
{
	static const char hex[] = "0123456789abcdef";
	const struct ppa_module *m = seg->module;
	char id[2 * PPA_BUILD_ID_MAX + 1];
	struct ppa_mapping *map = p->mappings.items;
	size_t n = p->mappings.n, cap = p->mappings.cap;

	for (size_t i = 0; i < n; i++)
		if (map[i].start == seg->start + shift && p->mapping_serials[i] == m->serial)
			return (uint32_t)i;
	map = ppa_picture_add(p, &p->mappings, sizeof(*map));
	if (!map)
		return PPA_SNAPSHOT_NO_MAPPING;
	if (p->mappings.cap != cap) {
		uint64_t *s = ppa_vheap_realloc(p->mapping_serials, p->mappings.cap * sizeof(*s));

		if (!s) {
			p->err = -ENOMEM;
			p->mappings.n--;
			return PPA_SNAPSHOT_NO_MAPPING;
		}
		p->mapping_serials = s;
	}
	for (size_t i = 0; i < m->build_id_len; i++) {
		id[2 * i] = hex[m->build_id[i] >> 4];
		id[2 * i + 1] = hex[m->build_id[i] & 15];
	}
	id[2 * m->build_id_len] = '\0';
	p->mapping_serials[n] = m->serial;
	*map = (struct ppa_mapping){.start = seg->start + shift, .limit = seg->end + shift, .offset = seg->file_offset};
	map->filename = ppa_picture_keep(p, m->path);
	map->build_id = ppa_picture_keep(p, id);
	return (uint32_t)n;
}

static bool same_function(const struct ppa_function *a, const struct ppa_function *b)
{
	return a->start_line == b->start_line && strcmp(a->name, b->name) == 0 &&
	       strcmp(a->system_name, b->system_name) == 0 && strcmp(a->filename, b->filename) == 0;
}

uint32_t ppa_picture_function(struct ppa_picture *p, const struct ppa_function *like)
{
	struct ppa_index *x = &p->by_name;
	struct ppa_function *f = p->functions.items;
	size_t at;

	if (ppa_picture_index_grow(p, x, function_hash))
		return 0;
	at = name_hash(like) & (x->cap - 1);
	for (; x->places[at]; at = (at + 1) & (x->cap - 1))
		if (same_function(&f[x->places[at] - 1], like))
			return x->places[at] - 1;
	f = ppa_picture_add(p, &p->functions, sizeof(*f));
	if (!f)
		return 0;
	*f = (struct ppa_function){.name = ppa_picture_keep(p, like->name),
				   .system_name = ppa_picture_keep(p, like->system_name),
				   .filename = ppa_picture_keep(p, like->filename),
				   .start_line = like->start_line};
	x->n++;
	x->places[at] = (uint32_t)p->functions.n;
	return (uint32_t)p->functions.n - 1;
}

static uint32_t function_of(struct ppa_picture *p, const char *name, const char *system_name)
{
	return ppa_picture_function(p, &(struct ppa_function){name, system_name, "", 0});
}

/* Code that belongs to no file: as its generator calls it, or [unknown code]. */
static uint32_t name_generated(struct ppa_picture *p, uintptr_t address, uint64_t *entry)
{
	struct ppa_jit_words words;
	uintptr_t start;

	if (!p->is_jit_fresh && ppa_symbols_are_on())
		ppa_jit_refresh(0);
	p->is_jit_fresh = true;
	if (!ppa_symbols_are_on() || !ppa_jit_find(address, p->name, sizeof(p->name), &words, &start))
		return function_of(p, "[unknown code]", "");
	*entry = start;
	return ppa_picture_function(p, &(struct ppa_function){words.name, words.symbol, words.file, words.line});
}

/* The function at an address: marker, symbol, the file and where the function begins in it ("libfoo.so+0x1200"), or,
 * outside every module, what generated code is called. *entry is where it begins, 0 if that is unknown. */
static uint32_t name_address(struct ppa_picture *p, const struct place *at, uintptr_t address, uint64_t *entry)
{
	const struct ppa_text_segment *seg = at->seg;
	const char *marker = ppa_marker_name(address);
	/* What is mapped there now is none of a former library's business. */
	uintptr_t start = seg && !at->shift ? ppa_starts_find(address) : 0;
	struct ppa_symbol sym;
	char *name = p->name;

	*entry = marker ? address : 0;
	if (marker)
		return function_of(p, marker, "");
	if (!seg)
		return at->is_gone ? function_of(p, "[unloaded code]", "") : name_generated(p, address, entry);
	/* Assembly often gives its symbols no size; they end where the next function is known to begin. */
	if (ppa_symbols_lookup(seg->module, address, &sym) == 0 && (sym.size || start <= sym.address)) {
		*entry = sym.address;
		ppa_symbols_demangle(sym.name, name, PPA_PICTURE_NAME_BYTES);
		return function_of(p, *name ? name : sym.name, sym.name);
	}
	if (ppa_symbols_are_on())
		ppa_picture_note_gap(p, seg->module);
	if (!start && !at->shift)
		start = ppa_unwind_function_start(address);
	*entry = start;
	ppa_symbols_fallback(seg->module, start ? start : address, name, PPA_PICTURE_NAME_BYTES);
	return function_of(p, name, "");
}

static uint32_t location_of(struct ppa_picture *p, const struct place *where, uintptr_t address)
{
	struct ppa_index *x = &p->by_address;
	struct ppa_location *loc = p->locations.items;
	uint32_t mapping = where->seg ? ppa_picture_mapping_of(p, where->seg, where->shift) : PPA_SNAPSHOT_NO_MAPPING;
	uint64_t shown = address + where->shift, entry;
	struct ppa_origin *origin;
	struct ppa_line *line;
	size_t at;

	if (ppa_picture_index_grow(p, x, location_hash))
		return 0;
	at = ppa_picture_mix(shown) & (x->cap - 1);
	for (; x->places[at]; at = (at + 1) & (x->cap - 1)) {
		uint32_t i = x->places[at] - 1;

		if (loc[i].address == shown && loc[i].mapping == mapping)
			return i;
	}
	line = ppa_picture_add(p, &p->lines, sizeof(*line));
	origin = line ? ppa_picture_add(p, &p->origins, sizeof(*origin)) : NULL;
	loc = origin ? ppa_picture_add(p, &p->locations, sizeof(*loc)) : NULL;
	if (!loc)
		return 0;
	line->function = name_address(p, where, address, &entry);
	*loc = (struct ppa_location){shown, mapping, (uint32_t)p->lines.n - 1, 1, entry ? entry + where->shift : 0};
	*origin = (struct ppa_origin){where->seg && !ppa_marker_name(address) ? where->seg->module : NULL, address};
	if (mapping != PPA_SNAPSHOT_NO_MAPPING)
		((struct ppa_mapping *)p->mappings.items)[mapping].has_functions = ppa_symbols_are_on();
	x->n++;
	x->places[at] = (uint32_t)p->locations.n;
	return (uint32_t)p->locations.n - 1;
}

static struct place place_of(const struct ppa_picture *p, const struct ppa_module_table *t, uintptr_t address,
			     bool is_gone)
{
	struct place at = {t ? ppa_modules_lookup(t, address) : NULL, 0, false};

	if (is_gone && !(at.seg && at.seg->module->at_startup)) {
		at.seg = NULL;
		at.is_gone = true;
		at.shift = PPA_PAST_SHIFT_UNKNOWN;
	} else if (t != p->now && at.seg && !at.seg->module->at_startup && p->past) {
		at.shift = ppa_past_shift(p->past, address, at.seg->module->serial);
	}
	return at;
}

/* Is a frame here an allocator's own, or a thin cover of one? */
static bool is_allocator(const struct ppa_picture *p, const struct place *at, uint32_t location)
{
	const struct ppa_location *loc = (const struct ppa_location *)p->locations.items + location;
	const struct ppa_line *line = (const struct ppa_line *)p->lines.items + loc->first_line + loc->nlines - 1;
	const struct ppa_function *f = (const struct ppa_function *)p->functions.items + line->function;

	if (!at->seg)
		return false;
	return (p->allocator && at->seg->module->serial == p->allocator) ||
	       ppa_allocators_have(f->system_name, f->name);
}

static size_t memo_place(const struct ppa_picture *p, const struct ppa_module_table *t, uintptr_t address, bool is_gone)
{
	size_t mask = p->memos_cap - 1;
	size_t at = ppa_picture_mix(address ^ ((uint64_t)(uintptr_t)t << 20) ^ is_gone) & mask;

	while (p->memos[at].address &&
	       (p->memos[at].address != address || p->memos[at].table != t || p->memos[at].is_gone != is_gone))
		at = (at + 1) & mask;
	return at;
}

static int grow_memos(struct ppa_picture *p)
{
	struct ppa_memo *old = p->memos;
	size_t old_cap = p->memos_cap, cap = old_cap ? 2 * old_cap : 1024;
	struct ppa_memo *m = ppa_vheap_calloc(cap, sizeof(*m));

	if (!m)
		return p->err = -ENOMEM;
	p->memos = m;
	p->memos_cap = cap;
	for (size_t i = 0; i < old_cap; i++)
		if (old[i].address)
			m[memo_place(p, old[i].table, old[i].address, old[i].is_gone)] = old[i];
	ppa_vheap_free(old);
	return 0;
}

const struct ppa_memo *ppa_picture_look_up(struct ppa_picture *p, const struct ppa_module_table *t, uintptr_t address,
					   bool is_gone)
{
	struct place where;
	struct ppa_memo *m;

	if (2 * (p->nmemos + 1) > p->memos_cap && grow_memos(p))
		return NULL;
	m = &p->memos[memo_place(p, t, address, is_gone)];
	if (m->address)
		return m;
	where = place_of(p, t, address, is_gone);
	*m = (struct ppa_memo){.address = address, .table = t, .location = PPA_SNAPSHOT_NO_MAPPING, .is_gone = is_gone};
	p->nmemos++;
	if (where.seg && where.seg->module->is_agent && !ppa_marker_name(address))
		return m;
	m->location = location_of(p, &where, address);
	if (!p->err)
		m->is_allocator = is_allocator(p, &where, m->location);
	return m;
}
