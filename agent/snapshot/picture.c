/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples are appended as they are drawn, frames and labels in arrays of their own. Where stacks that differ may look
 * the same in the end, an index over frames and labels finds the earlier sample. */
#include "agent/snapshot/picture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "agent/profile/marker.h"
#include "agent/profile/tags.h"
#include "agent/snapshot/collect.h"
#include "agent/snapshot/picture_parts.h"
#include "unwind/module/modules.h"

#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)

static void add_frame(struct ppa_picture *p, uint32_t location)
{
	uint32_t *l = ppa_picture_add(p, &p->stack_locs, sizeof(*l));
	struct ppa_snap_sample *s = (struct ppa_snap_sample *)p->samples.items + p->samples.n - 1;

	if (!l)
		return;
	*l = location;
	s->nlocs++;
	p->hash = (p->hash ^ location) * HASH_FACTOR;
}

void ppa_picture_sample(struct ppa_picture *p, const int64_t *values)
{
	struct ppa_snap_sample *s = ppa_picture_add(p, &p->samples, sizeof(*s));

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

	p->cuts_allocators |= is_cutting;
	for (size_t i = 0; i < npcs; i++) {
		const struct ppa_memo *m;

		if (p->err || !pcs[i])
			continue;
		m = ppa_picture_look_up(p, t, pcs[i], flags & PPA_FRAMES_GONE);
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
		const struct ppa_memo *m = ppa_picture_look_up(p, t, own, false);

		last_cut = m ? m->location : 0;
	}
	add_frame(p, last_cut);
}

void ppa_picture_label(struct ppa_picture *p, const struct ppa_label *l)
{
	struct ppa_label *mine = ppa_picture_add(p, &p->labels, sizeof(*mine));

	if (!mine)
		return;
	*mine = *l;
	p->hash = (p->hash ^ (uint64_t)l->num) * HASH_FACTOR;
	((struct ppa_snap_sample *)p->samples.items)[p->samples.n - 1].nlabels++;
}

void ppa_picture_tags(struct ppa_picture *p, uint32_t set)
{
	struct ppa_tag t;

	for (uint32_t i = 0; ppa_tags_at(set, i, &t); i++) {
		struct ppa_label l = {.key = t.key, .str = t.value};

		ppa_picture_label(p, &l);
	}
	/* Strings do not enter the hash one by one. */
	p->hash = (p->hash ^ set) * HASH_FACTOR;
}

void ppa_picture_comment_tags(struct ppa_picture *p)
{
	uint64_t folded = ppa_tags_folded();

	if (folded)
		ppa_picture_comment(p,
				    ppa_picture_text(p,
						     "pprofagent: %" PRIu64 " times a label became [other labels]: the "
						     "program has more than %d sets of them, or too little memory for "
						     "them (PPROF_MAX_MEMORY)",
						     folded, PPA_TAGS_SETS));
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
	struct ppa_index *x = &p->by_stack;
	uint64_t hash = ppa_picture_mix(p->hash), *mine;
	size_t at;

	if (p->err || ppa_picture_index_grow(p, x, sample_hash) ||
	    !(mine = ppa_picture_add(p, &p->hashes, sizeof(*mine))))
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
				ppa_picture_mapping_of(p, &main_table->segs[i], 0);
	return p;
}

void ppa_picture_expect(struct ppa_picture *p, size_t nsamples, size_t nframes)
{
	if (nsamples > p->samples.cap)
		ppa_picture_reserve(p, &p->samples, nsamples, sizeof(struct ppa_snap_sample));
	if (nframes > p->stack_locs.cap)
		ppa_picture_reserve(p, &p->stack_locs, nframes, sizeof(uint32_t));
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

	ppa_picture_tell_gaps(p);
	ppa_picture_add_lines(p);
	ppa_vheap_free(p->origins.items);
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
	struct ppa_text_block *next;

	if (!s)
		return;
	for (struct ppa_text_block *b = p->texts; b; b = next) {
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
