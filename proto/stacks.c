/* SPDX-License-Identifier: Apache-2.0
 *
 * Nothing is copied but numbers: each location gets the ids of its frames once, and a stack is walked through them. The
 * order of samples comes from comparing stacks frame by frame from the root, by merging (see order.h). */
#include "proto/stacks.h"

#include <errno.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "agent/snapshot/snapshot.h"
#include "proto/sound.h"

static const char *base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}

static uint32_t intern_frame(struct ppa_stacks *st, const char *name, const char *module, const char *file)
{
	struct ppa_tuple t = {{0}};

	t.v[PPA_FRAME_NAME] = ppa_strtab_intern(&st->strings, name && *name ? name : "?");
	t.v[PPA_FRAME_MODULE] = ppa_strtab_intern(&st->strings, module);
	t.v[PPA_FRAME_FILE] = ppa_strtab_intern(&st->strings, file);
	return ppa_tuples_intern(&st->frames, t);
}

static int number_frames(struct ppa_stacks *st, enum ppa_frames_by by)
{
	const struct ppa_snapshot *s = st->s;
	size_t n = 0;

	for (size_t i = 0; i < s->nlocations; i++)
		n += s->locations[i].nlines;
	if (n > UINT32_MAX)
		return -EINVAL;
	st->first_frame = ppa_vheap_malloc((s->nlocations + 1) * sizeof(*st->first_frame));
	st->frame_ids = ppa_vheap_malloc((n + 1) * sizeof(*st->frame_ids));
	if (!st->first_frame || !st->frame_ids)
		return -ENOMEM;
	st->no_stack = intern_frame(st, "[no stack]", NULL, NULL);
	n = 0;
	for (size_t i = 0; i < s->nlocations; i++) {
		const struct ppa_location *l = &s->locations[i];
		const char *module = by == PPA_FRAMES_BY_NAME || l->mapping == PPA_SNAPSHOT_NO_MAPPING
					     ? NULL
					     : base_name(s->mappings[l->mapping].filename);

		st->first_frame[i] = (uint32_t)n;
		for (uint32_t k = 0; k < l->nlines; k++) {
			const struct ppa_function *f = &s->functions[s->lines[l->first_line + k].function];

			st->frame_ids[n++] =
				intern_frame(st, f->name, module, by == PPA_FRAMES_BY_NAME ? NULL : f->filename);
		}
	}
	st->first_frame[s->nlocations] = (uint32_t)n;
	return st->strings.err ? st->strings.err : st->frames.err;
}

void ppa_stack_begin(const struct ppa_stacks *st, uint32_t sample, struct ppa_stack_walk *w)
{
	const struct ppa_snap_sample *s = &st->s->samples[sample];

	*w = (struct ppa_stack_walk){
		.st = st,
		.locs = st->s->stack_locs + s->first_loc,
		.nlocs = s->nlocs,
		.is_empty = true,
	};
}

bool ppa_stack_next(struct ppa_stack_walk *w, uint32_t *frame)
{
	while (w->at == w->end) {
		uint32_t loc;

		if (w->nlocs == 0) {
			if (!w->is_empty)
				return false;
			w->is_empty = false;
			*frame = w->st->no_stack;
			return true;
		}
		loc = w->locs[--w->nlocs];
		w->end = w->st->first_frame[loc];
		w->at = w->st->first_frame[loc + 1];
	}
	w->is_empty = false;
	*frame = w->st->frame_ids[--w->at];
	return true;
}

/* Does a come before b, 1, after it, -1, or are they equal, 0? */
static int compare(const struct ppa_stacks *st, uint32_t a, uint32_t b)
{
	struct ppa_stack_walk wa, wb;
	uint32_t fa, fb;

	ppa_stack_begin(st, a, &wa);
	ppa_stack_begin(st, b, &wb);
	for (;;) {
		bool more_a = ppa_stack_next(&wa, &fa), more_b = ppa_stack_next(&wb, &fb);

		if (!more_a || !more_b)
			return more_b - more_a;
		if (fa != fb)
			return fa < fb ? 1 : -1;
	}
}

bool ppa_stacks_are_equal(const struct ppa_stacks *st, uint32_t a, uint32_t b)
{
	return compare(st, a, b) == 0;
}

static void merge(const struct ppa_stacks *st, const uint32_t *left, const uint32_t *middle, const uint32_t *end,
		  uint32_t *to)
{
	const uint32_t *right = middle;

	while (left < middle || right < end)
		*to++ = right == end || (left < middle && compare(st, *left, *right) >= 0) ? *left++ : *right++;
}

static int sort(struct ppa_stacks *st)
{
	size_t n = st->s->nsamples;
	uint32_t *room = ppa_vheap_malloc((n + 1) * sizeof(*room)), *swap;

	st->order = ppa_vheap_malloc((n + 1) * sizeof(*st->order));
	if (!room || !st->order) {
		ppa_vheap_free(room);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++)
		st->order[i] = (uint32_t)i;
	for (size_t width = 1; width < n; width *= 2) {
		for (size_t i = 0; i < n; i += 2 * width)
			merge(st, st->order + i, st->order + (n - i < width ? n : i + width),
			      st->order + (n - i < 2 * width ? n : i + 2 * width), room + i);
		swap = st->order;
		st->order = room;
		room = swap;
	}
	ppa_vheap_free(room);
	return 0;
}

int ppa_stacks_init(struct ppa_stacks *st, const struct ppa_snapshot *s, enum ppa_frames_by by)
{
	int err;

	memset(st, 0, sizeof(*st));
	if (!ppa_sound_check(s) || s->nsamples > UINT32_MAX)
		return -EINVAL;
	st->s = s;
	ppa_strtab_init(&st->strings);
	err = st->strings.err ? st->strings.err : number_frames(st, by);
	return err ? err : sort(st);
}

void ppa_stacks_free(struct ppa_stacks *st)
{
	ppa_strtab_free(&st->strings);
	ppa_tuples_free(&st->frames);
	ppa_vheap_free(st->first_frame);
	ppa_vheap_free(st->frame_ids);
	ppa_vheap_free(st->order);
	memset(st, 0, sizeof(*st));
}

const char *ppa_stacks_text(const struct ppa_stacks *st, uint64_t index, uint32_t *len)
{
	const struct ppa_strtab_entry *e = &st->strings.entries[index];

	*len = e->len;
	return e->text;
}
