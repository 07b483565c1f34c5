/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables are plain arrays that double; three hash indices find duplicates: segment start -> mapping, address ->
 * location, names -> function. The indices die with the picture, the arrays become the snapshot's. */
#include "agent/snapshot/picture.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "agent/snapshot/collect.h"
#include "agent/profile/marker.h"
#include "unwind/modules.h"
#include "unwind/starts.h"
#include "unwind/symbols.h"
#include "unwind/unwind.h"

enum { TEXT_BLOCK_BYTES = 30 << 10, NAME_BYTES = 4096 };

struct text_block {
	struct text_block *next;
	size_t used, cap;
	char bytes[];
};

struct array {
	void *items;
	size_t n, cap;
};

/* Open addressing, value + 1; 0 is empty. */
struct index {
	uint32_t *places;
	size_t cap, n;
};

struct ppa_picture {
	struct ppa_snapshot snap; /* first: ppa_snapshot_free gets a pointer to it */
	struct text_block *texts;
	struct array mappings, functions, lines, locations, stack_locs, labels, samples, comments;
	uint64_t *mapping_serials; /* module of each mapping, beside its start */
	struct index by_address, by_name;
	int err;
	char name[NAME_BYTES]; /* scratch: server stacks are small */
};

static void *add(struct ppa_picture *p, struct array *a, size_t item_bytes)
{
	if (a->n == a->cap) {
		size_t cap = a->cap ? 2 * a->cap : 64;
		void *items = ppa_vheap_realloc(a->items, cap * item_bytes);

		if (!items) {
			p->err = -ENOMEM;
			return NULL;
		}
		a->items = items;
		a->cap = cap;
	}
	return memset((char *)a->items + a->n++ * item_bytes, 0, item_bytes);
}

static char *text_bytes(struct ppa_picture *p, size_t n)
{
	struct text_block *b = p->texts;
	size_t cap = n > TEXT_BLOCK_BYTES ? n : TEXT_BLOCK_BYTES;

	if (!b || b->cap - b->used < n) {
		b = ppa_vheap_malloc(sizeof(*b) + cap);
		if (!b) {
			p->err = -ENOMEM;
			return NULL;
		}
		*b = (struct text_block){.next = p->texts, .cap = cap};
		p->texts = b;
	}
	b->used += n;
	return b->bytes + b->used - n;
}

static const char *keep(struct ppa_picture *p, const char *s)
{
	size_t n = strlen(s) + 1;
	char *t = text_bytes(p, n);

	return t ? memcpy(t, s, n) : "";
}

const char *ppa_picture_text(struct ppa_picture *p, const char *fmt, ...)
{
	char buf[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	return keep(p, buf);
}

void ppa_picture_comment(struct ppa_picture *p, const char *text)
{
	const char **c = add(p, &p->comments, sizeof(*c));

	if (c)
		*c = text;
}

/* Make room for one more entry. */
static int index_grow(struct ppa_picture *p, struct index *x, uint64_t (*hash_of)(const struct ppa_picture *, uint32_t))
{
	size_t cap = x->cap ? 2 * x->cap : 256;
	uint32_t *places;

	if (4 * (x->n + 1) <= 3 * x->cap)
		return 0;
	places = ppa_vheap_calloc(cap, sizeof(*places));
	if (!places)
		return p->err = -ENOMEM;
	for (size_t i = 0; i < x->cap; i++) {
		size_t at;

		if (!x->places[i])
			continue;
		at = hash_of(p, x->places[i] - 1) & (cap - 1);
		while (places[at])
			at = (at + 1) & (cap - 1);
		places[at] = x->places[i];
	}
	ppa_vheap_free(x->places);
	x->places = places;
	x->cap = cap;
	return 0;
}

static uint64_t mix(uint64_t h)
{
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
	return h ^ (h >> 31);
}

static uint64_t hash_text(uint64_t h, const char *s)
{
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3ULL;
	return h;
}

static uint64_t location_hash(const struct ppa_picture *p, uint32_t i)
{
	return mix(((const struct ppa_location *)p->locations.items)[i].address);
}

static uint64_t name_hash(const char *name, const char *system_name)
{
	return mix(hash_text(hash_text(0xcbf29ce484222325ULL, name), system_name));
}

static uint64_t function_hash(const struct ppa_picture *p, uint32_t i)
{
	const struct ppa_function *f = &((const struct ppa_function *)p->functions.items)[i];

	return name_hash(f->name, f->system_name);
}

static uint32_t mapping_of(struct ppa_picture *p, const struct ppa_text_segment *seg)
{
	static const char hex[] = "0123456789abcdef";
	const struct ppa_module *m = seg->module;
	char id[2 * PPA_BUILD_ID_MAX + 1];
	struct ppa_mapping *map = p->mappings.items;
	size_t n = p->mappings.n, cap = p->mappings.cap;

	for (size_t i = 0; i < n; i++)
		if (map[i].start == seg->start && p->mapping_serials[i] == m->serial)
			return (uint32_t)i;
	map = add(p, &p->mappings, sizeof(*map));
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
	*map = (struct ppa_mapping){.start = seg->start, .limit = seg->end, .offset = seg->file_offset};
	map->filename = keep(p, m->path);
	map->build_id = keep(p, id);
	return (uint32_t)n;
}

static uint32_t function_of(struct ppa_picture *p, const char *name, const char *system_name)
{
	struct index *x = &p->by_name;
	struct ppa_function *f = p->functions.items;
	size_t at;

	if (index_grow(p, x, function_hash))
		return 0;
	at = name_hash(name, system_name) & (x->cap - 1);
	for (; x->places[at]; at = (at + 1) & (x->cap - 1)) {
		uint32_t i = x->places[at] - 1;

		if (strcmp(f[i].name, name) == 0 && strcmp(f[i].system_name, system_name) == 0)
			return i;
	}
	f = add(p, &p->functions, sizeof(*f));
	if (!f)
		return 0;
	*f = (struct ppa_function){.name = keep(p, name), .system_name = keep(p, system_name), .filename = ""};
	x->n++;
	x->places[at] = (uint32_t)p->functions.n;
	return (uint32_t)p->functions.n - 1;
}

/* The function at an address: marker, symbol, the file and where the function begins in it ("libfoo.so+0x1200"), or,
 * outside every module, [unknown code]. */
static uint32_t name_address(struct ppa_picture *p, const struct ppa_text_segment *seg, uintptr_t address)
{
	const char *marker = ppa_marker_name(address);
	struct ppa_symbol sym;
	uintptr_t start;
	char *name = p->name;

	if (marker)
		return function_of(p, marker, "");
	if (!seg)
		return function_of(p, "[unknown code]", "");
	start = ppa_starts_find(address);
	/* Assembly often gives its symbols no size; they end where the next function is known to begin. */
	if (ppa_symbols_lookup(seg->module, address, &sym) == 0 && (sym.size || start <= sym.address)) {
		ppa_symbols_demangle(sym.name, name, NAME_BYTES);
		return function_of(p, *name ? name : sym.name, sym.name);
	}
	if (!start)
		start = ppa_unwind_function_start(address);
	ppa_symbols_fallback(seg->module, start ? start : address, name, NAME_BYTES);
	return function_of(p, name, "");
}

static uint32_t location_of(struct ppa_picture *p, const struct ppa_text_segment *seg, uintptr_t address)
{
	struct index *x = &p->by_address;
	struct ppa_location *loc = p->locations.items;
	uint32_t mapping = seg ? mapping_of(p, seg) : PPA_SNAPSHOT_NO_MAPPING;
	struct ppa_line *line;
	size_t at;

	if (index_grow(p, x, location_hash))
		return 0;
	at = mix(address) & (x->cap - 1);
	for (; x->places[at]; at = (at + 1) & (x->cap - 1)) {
		uint32_t i = x->places[at] - 1;

		if (loc[i].address == address && loc[i].mapping == mapping)
			return i;
	}
	line = add(p, &p->lines, sizeof(*line));
	loc = line ? add(p, &p->locations, sizeof(*loc)) : NULL;
	if (!loc)
		return 0;
	line->function = name_address(p, seg, address);
	*loc = (struct ppa_location){address, mapping, (uint32_t)p->lines.n - 1, 1};
	if (mapping != PPA_SNAPSHOT_NO_MAPPING)
		((struct ppa_mapping *)p->mappings.items)[mapping].has_functions = true;
	x->n++;
	x->places[at] = (uint32_t)p->locations.n;
	return (uint32_t)p->locations.n - 1;
}

static void add_frame(struct ppa_picture *p, uint32_t location)
{
	uint32_t *l = add(p, &p->stack_locs, sizeof(*l));
	struct ppa_snap_sample *s = (struct ppa_snap_sample *)p->samples.items + p->samples.n - 1;

	if (!l)
		return;
	*l = location;
	s->nlocs++;
}

void ppa_picture_sample(struct ppa_picture *p, const int64_t *values)
{
	struct ppa_snap_sample *s = add(p, &p->samples, sizeof(*s));

	if (!s)
		return;
	s->first_loc = (uint32_t)p->stack_locs.n;
	s->first_label = (uint32_t)p->labels.n;
	memcpy(s->values, values, p->snap.nsample_types * sizeof(*values));
}

void ppa_picture_frames(struct ppa_picture *p, const struct ppa_module_table *t, const uintptr_t *pcs, size_t npcs)
{
	const struct ppa_text_segment *seg = NULL;
	size_t kept = 0;

	if (p->err)
		return;
	for (size_t i = 0; i < npcs; i++) {
		seg = t ? ppa_modules_lookup(t, pcs[i]) : NULL;
		if (seg && seg->module->is_agent && !ppa_marker_name(pcs[i]))
			continue;
		if (!pcs[i])
			continue;
		add_frame(p, location_of(p, seg, pcs[i]));
		kept++;
	}
	if (!kept && npcs) {
		uintptr_t own = ppa_marker_address(PPA_MARKER_AGENT);

		add_frame(p, location_of(p, t ? ppa_modules_lookup(t, own) : NULL, own));
	}
}

void ppa_picture_label(struct ppa_picture *p, const struct ppa_label *l)
{
	struct ppa_label *mine = add(p, &p->labels, sizeof(*mine));

	if (!mine)
		return;
	*mine = *l;
	((struct ppa_snap_sample *)p->samples.items)[p->samples.n - 1].nlabels++;
}

struct ppa_snapshot *ppa_picture_head(struct ppa_picture *p)
{
	return &p->snap;
}

bool ppa_picture_is_empty(const struct ppa_picture *p)
{
	return p->samples.n == 0;
}

struct ppa_picture *ppa_picture_new(const struct ppa_module_table *main_table)
{
	struct ppa_picture *p = ppa_vheap_calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	/* pprof takes mapping 0 for the program, whatever else is there. */
	for (int is_main = 1; is_main >= 0; is_main--)
		for (size_t i = 0; main_table && i < main_table->nsegs; i++)
			if (main_table->segs[i].module->is_main == is_main)
				mapping_of(p, &main_table->segs[i]);
	return p;
}

int ppa_picture_finish(struct ppa_picture *p, struct ppa_snapshot **out)
{
	struct ppa_snapshot *s = &p->snap;

	ppa_vheap_free(p->by_address.places);
	ppa_vheap_free(p->by_name.places);
	ppa_vheap_free(p->mapping_serials);
	s->mappings = p->mappings.items;
	s->nmappings = p->mappings.n;
	s->functions = p->functions.items;
	s->nfunctions = p->functions.n;
	s->lines = p->lines.items;
	s->nlines = p->lines.n;
	s->locations = p->locations.items;
	s->nlocations = p->locations.n;
	s->stack_locs = p->stack_locs.items;
	s->nstack_locs = p->stack_locs.n;
	s->labels = p->labels.items;
	s->nlabels = p->labels.n;
	s->samples = p->samples.items;
	s->nsamples = p->samples.n;
	s->comments = p->comments.items;
	s->ncomments = p->comments.n;
	if (p->err) {
		int err = p->err;

		ppa_snapshot_free(s);
		return err;
	}
	*out = s;
	return 0;
}

void ppa_snapshot_free(struct ppa_snapshot *s)
{
	struct ppa_picture *p = (struct ppa_picture *)s;
	struct text_block *next;

	if (!s)
		return;
	for (struct text_block *b = p->texts; b; b = next) {
		next = b->next;
		ppa_vheap_free(b);
	}
	ppa_vheap_free(p->mappings.items);
	ppa_vheap_free(p->functions.items);
	ppa_vheap_free(p->lines.items);
	ppa_vheap_free(p->locations.items);
	ppa_vheap_free(p->stack_locs.items);
	ppa_vheap_free(p->labels.items);
	ppa_vheap_free(p->samples.items);
	ppa_vheap_free(p->comments.items);
	ppa_vheap_free(p);
}
