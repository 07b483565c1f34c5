/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables are plain arrays that double; hash indices find duplicates: address -> location, names -> function, frames and
 * labels -> sample. Before all of them stands a memory of (module table, address) -> location, because a profile of
 * 100,000 stacks asks two million times for the same few thousand frames. The indices die with the picture, the arrays
 * become the snapshot's. */
#include "agent/snapshot/picture.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "agent/snapshot/allocators.h"
#include "agent/snapshot/collect.h"
#include "agent/snapshot/past.h"
#include "agent/profile/marker.h"
#include "unwind/modules.h"
#include "unwind/starts.h"
#include "unwind/symbols.h"
#include "unwind/unwind.h"

enum { TEXT_BLOCK_BYTES = 30 << 10, NAME_BYTES = 4096 };

#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)

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

/* A frame as a walk gave it, and what became of it. */
struct memo {
	uintptr_t address; /* 0: empty */
	const struct ppa_module_table *table;
	uint32_t location;
	bool is_allocator, is_gone;
};

/* Where an address lies: whose code it is, and how far it has to be moved to be unique. */
struct place {
	const struct ppa_text_segment *seg; /* NULL: nobody's */
	uint64_t shift;
	bool is_gone; /* the library is unknown */
};

struct ppa_picture {
	struct ppa_snapshot snap; /* first: ppa_snapshot_free gets a pointer to it */
	struct text_block *texts;
	struct array mappings, functions, lines, locations, stack_locs, labels, samples, comments;
	uint64_t *mapping_serials; /* module of each mapping, beside its start */
	struct index by_address, by_name, by_stack;
	struct array hashes; /* of the samples, for by_stack */
	uint64_t hash;	     /* of the last sample's frames and labels */
	struct memo *memos;
	size_t nmemos, memos_cap;
	const struct ppa_module_table *now; /* not ours */
	const struct ppa_past *past;	    /* not ours; NULL: there is only now */
	uint64_t allocator;		    /* serial of its module, 0: none */
	void (*on_free)(void);
	int err;
	char name[NAME_BYTES]; /* scratch: server stacks are small */
};

static int reserve(struct ppa_picture *p, struct array *a, size_t cap, size_t item_bytes)
{
	void *items = ppa_vheap_realloc(a->items, cap * item_bytes);

	if (!items)
		return p->err = -ENOMEM;
	a->items = items;
	a->cap = cap;
	return 0;
}

static void *add(struct ppa_picture *p, struct array *a, size_t item_bytes)
{
	if (a->n == a->cap && reserve(p, a, a->cap ? 2 * a->cap : 64, item_bytes))
		return NULL;
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

const char *ppa_picture_keep(struct ppa_picture *p, const char *s)
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
	return ppa_picture_keep(p, buf);
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

/* shift: see struct place. */
static uint32_t mapping_of(struct ppa_picture *p, const struct ppa_text_segment *seg, uint64_t shift)
{
	static const char hex[] = "0123456789abcdef";
	const struct ppa_module *m = seg->module;
	char id[2 * PPA_BUILD_ID_MAX + 1];
	struct ppa_mapping *map = p->mappings.items;
	size_t n = p->mappings.n, cap = p->mappings.cap;

	for (size_t i = 0; i < n; i++)
		if (map[i].start == seg->start + shift && p->mapping_serials[i] == m->serial)
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
	*map = (struct ppa_mapping){.start = seg->start + shift, .limit = seg->end + shift, .offset = seg->file_offset};
	map->filename = ppa_picture_keep(p, m->path);
	map->build_id = ppa_picture_keep(p, id);
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
	*f = (struct ppa_function){
		.name = ppa_picture_keep(p, name), .system_name = ppa_picture_keep(p, system_name), .filename = ""};
	x->n++;
	x->places[at] = (uint32_t)p->functions.n;
	return (uint32_t)p->functions.n - 1;
}

/* The function at an address: marker, symbol, the file and where the function begins in it ("libfoo.so+0x1200"), or,
 * outside every module, [unknown code]. *entry is where it begins, 0 if that is unknown. */
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
		return function_of(p, at->is_gone ? "[unloaded code]" : "[unknown code]", "");
	/* Assembly often gives its symbols no size; they end where the next function is known to begin. */
	if (ppa_symbols_lookup(seg->module, address, &sym) == 0 && (sym.size || start <= sym.address)) {
		*entry = sym.address;
		ppa_symbols_demangle(sym.name, name, NAME_BYTES);
		return function_of(p, *name ? name : sym.name, sym.name);
	}
	if (!start && !at->shift)
		start = ppa_unwind_function_start(address);
	*entry = start;
	ppa_symbols_fallback(seg->module, start ? start : address, name, NAME_BYTES);
	return function_of(p, name, "");
}

static uint32_t location_of(struct ppa_picture *p, const struct place *where, uintptr_t address)
{
	struct index *x = &p->by_address;
	struct ppa_location *loc = p->locations.items;
	uint32_t mapping = where->seg ? mapping_of(p, where->seg, where->shift) : PPA_SNAPSHOT_NO_MAPPING;
	uint64_t shown = address + where->shift, entry;
	struct ppa_line *line;
	size_t at;

	if (index_grow(p, x, location_hash))
		return 0;
	at = mix(shown) & (x->cap - 1);
	for (; x->places[at]; at = (at + 1) & (x->cap - 1)) {
		uint32_t i = x->places[at] - 1;

		if (loc[i].address == shown && loc[i].mapping == mapping)
			return i;
	}
	line = add(p, &p->lines, sizeof(*line));
	loc = line ? add(p, &p->locations, sizeof(*loc)) : NULL;
	if (!loc)
		return 0;
	line->function = name_address(p, where, address, &entry);
	*loc = (struct ppa_location){shown, mapping, (uint32_t)p->lines.n - 1, 1, entry ? entry + where->shift : 0};
	if (mapping != PPA_SNAPSHOT_NO_MAPPING)
		((struct ppa_mapping *)p->mappings.items)[mapping].has_functions = true;
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
	size_t at = mix(address ^ ((uint64_t)(uintptr_t)t << 20) ^ is_gone) & mask;

	while (p->memos[at].address &&
	       (p->memos[at].address != address || p->memos[at].table != t || p->memos[at].is_gone != is_gone))
		at = (at + 1) & mask;
	return at;
}

static int grow_memos(struct ppa_picture *p)
{
	struct memo *old = p->memos;
	size_t old_cap = p->memos_cap, cap = old_cap ? 2 * old_cap : 1024;
	struct memo *m = ppa_vheap_calloc(cap, sizeof(*m));

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

/* What an address of a stack is; NULL on no memory. */
static const struct memo *look_up(struct ppa_picture *p, const struct ppa_module_table *t, uintptr_t address,
				  bool is_gone)
{
	struct place where;
	struct memo *m;

	if (2 * (p->nmemos + 1) > p->memos_cap && grow_memos(p))
		return NULL;
	m = &p->memos[memo_place(p, t, address, is_gone)];
	if (m->address)
		return m;
	where = place_of(p, t, address, is_gone);
	*m = (struct memo){.address = address, .table = t, .location = PPA_SNAPSHOT_NO_MAPPING, .is_gone = is_gone};
	p->nmemos++;
	if (where.seg && where.seg->module->is_agent && !ppa_marker_name(address))
		return m;
	m->location = location_of(p, &where, address);
	if (!p->err)
		m->is_allocator = is_allocator(p, &where, m->location);
	return m;
}

static void add_frame(struct ppa_picture *p, uint32_t location)
{
	uint32_t *l = add(p, &p->stack_locs, sizeof(*l));
	struct ppa_snap_sample *s = (struct ppa_snap_sample *)p->samples.items + p->samples.n - 1;

	if (!l)
		return;
	*l = location;
	s->nlocs++;
	p->hash = (p->hash ^ location) * HASH_FACTOR;
}

void ppa_picture_sample(struct ppa_picture *p, const int64_t *values)
{
	struct ppa_snap_sample *s = add(p, &p->samples, sizeof(*s));

	if (!s)
		return;
	p->hash = 0;
	s->first_loc = (uint32_t)p->stack_locs.n;
	s->first_label = (uint32_t)p->labels.n;
	memcpy(s->values, values, p->snap.nsample_types * sizeof(*values));
}

void ppa_picture_frames(struct ppa_picture *p, const struct ppa_module_table *t, const uintptr_t *pcs, size_t npcs,
			unsigned flags)
{
	uint32_t last_cut = PPA_SNAPSHOT_NO_MAPPING;
	bool is_cutting = flags & PPA_FRAMES_CUT;
	size_t kept = 0;

	for (size_t i = 0; i < npcs; i++) {
		const struct memo *m;

		if (p->err || !pcs[i])
			continue;
		m = look_up(p, t, pcs[i], flags & PPA_FRAMES_GONE);
		if (!m || m->location == PPA_SNAPSHOT_NO_MAPPING)
			continue;
		is_cutting = is_cutting && m->is_allocator;
		if (is_cutting) {
			last_cut = m->location;
			continue;
		}
		add_frame(p, m->location);
		kept++;
	}
	if (kept || !npcs || p->err)
		return;
	if (last_cut == PPA_SNAPSHOT_NO_MAPPING) {
		uintptr_t own = ppa_marker_address(PPA_MARKER_AGENT);
		const struct memo *m = look_up(p, t, own, false);

		last_cut = m ? m->location : 0;
	}
	add_frame(p, last_cut);
}

void ppa_picture_label(struct ppa_picture *p, const struct ppa_label *l)
{
	struct ppa_label *mine = add(p, &p->labels, sizeof(*mine));

	if (!mine)
		return;
	*mine = *l;
	p->hash = (p->hash ^ (uint64_t)l->num) * HASH_FACTOR;
	((struct ppa_snap_sample *)p->samples.items)[p->samples.n - 1].nlabels++;
}

static uint64_t sample_hash(const struct ppa_picture *p, uint32_t i)
{
	return ((const uint64_t *)p->hashes.items)[i];
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_sample(const struct ppa_picture *p, const struct ppa_snap_sample *a, const struct ppa_snap_sample *b)
{
	const struct ppa_label *labels = p->labels.items;
	const uint32_t *locs = p->stack_locs.items;

	if (a->nlocs != b->nlocs || a->nlabels != b->nlabels ||
	    memcmp(locs + a->first_loc, locs + b->first_loc, a->nlocs * sizeof(*locs)) != 0)
		return false;
	for (uint32_t k = 0; k < a->nlabels; k++) {
		const struct ppa_label *x = labels + a->first_label + k, *y = labels + b->first_label + k;

		if (x->num != y->num || !same_text(x->key, y->key) || !same_text(x->str, y->str))
			return false;
	}
	return true;
}

void ppa_picture_merge(struct ppa_picture *p)
{
	struct ppa_snap_sample *samples = p->samples.items, *s = samples + p->samples.n - 1;
	struct index *x = &p->by_stack;
	uint64_t hash = mix(p->hash), *mine;
	size_t at;

	if (p->err || index_grow(p, x, sample_hash) || !(mine = add(p, &p->hashes, sizeof(*mine))))
		return;
	*mine = hash;
	at = hash & (x->cap - 1);
	for (; x->places[at]; at = (at + 1) & (x->cap - 1)) {
		uint32_t i = x->places[at] - 1;

		if (sample_hash(p, i) != hash || !same_sample(p, &samples[i], s))
			continue;
		for (uint32_t k = 0; k < p->snap.nsample_types; k++)
			samples[i].values[k] += s->values[k];
		p->stack_locs.n = s->first_loc;
		p->labels.n = s->first_label;
		p->samples.n--;
		p->hashes.n--;
		return;
	}
	x->n++;
	x->places[at] = (uint32_t)p->samples.n;
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
	p->now = main_table;
	/* pprof takes mapping 0 for the program, whatever else is there. */
	for (int is_main = 1; is_main >= 0; is_main--)
		for (size_t i = 0; main_table && i < main_table->nsegs; i++)
			if (main_table->segs[i].module->is_main == is_main)
				mapping_of(p, &main_table->segs[i], 0);
	return p;
}

void ppa_picture_expect(struct ppa_picture *p, size_t nsamples, size_t nframes)
{
	if (nsamples > p->samples.cap)
		reserve(p, &p->samples, nsamples, sizeof(struct ppa_snap_sample));
	if (nframes > p->stack_locs.cap)
		reserve(p, &p->stack_locs, nframes, sizeof(uint32_t));
}

void ppa_picture_set_past(struct ppa_picture *p, const struct ppa_past *past)
{
	p->past = past;
}

void ppa_picture_set_allocator(struct ppa_picture *p, uintptr_t address)
{
	const struct ppa_text_segment *seg = p->now && address ? ppa_modules_lookup(p->now, address) : NULL;
	const struct ppa_text_segment *libc = seg ? ppa_modules_lookup(p->now, (uintptr_t)&abort) : NULL;

	/* libc's and the program's other functions are of interest. */
	if (seg && !seg->module->is_main && !seg->module->is_agent && (!libc || libc->module != seg->module))
		p->allocator = seg->module->serial;
}

int ppa_picture_finish(struct ppa_picture *p, struct ppa_snapshot **out)
{
	struct ppa_snapshot *s = &p->snap;

	ppa_vheap_free(p->by_address.places);
	ppa_vheap_free(p->by_name.places);
	ppa_vheap_free(p->by_stack.places);
	ppa_vheap_free(p->memos);
	ppa_vheap_free(p->hashes.items);
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

void ppa_picture_on_free(struct ppa_snapshot *s, void (*fn)(void))
{
	((struct ppa_picture *)s)->on_free = fn;
}

void ppa_snapshot_free(struct ppa_snapshot *s)
{
	struct ppa_picture *p = (struct ppa_picture *)s;
	void (*on_free)(void) = s ? p->on_free : NULL;
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
	if (on_free)
		on_free();
}
