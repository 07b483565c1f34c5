/* SPDX-License-Identifier: Apache-2.0
 *
 * stacks in order -> what each has beyond its predecessor -> sink. Labels are interned on the way; the texts go last. */
#include "proto/flame.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "agent/snapshot/snapshot.h"
#include "proto/json.h"
#include "proto/order.h"
#include "proto/sink.h"
#include "proto/stacks.h"

/* A label's tuple. */
enum { LABEL_KEY, LABEL_TEXT, LABEL_NUMBER, LABEL_IS_NUMBER };

struct writer {
	struct ppa_stacks *st;
	const struct ppa_snapshot *s;
	struct ppa_sink *out;
	struct ppa_tuples labels;
	uint32_t type;
	bool *is_small;		/* by sample; NULL: none is */
	uint32_t small_frame;	/* of all those together */
	uint32_t before;	/* the sample written last, */
	bool is_first, is_next; /* if there is one; whether a number has been written */
};

static void put(struct writer *w, const char *text)
{
	ppa_sink_write(w->out, text, strlen(text));
}

static void put_number(struct writer *w, int64_t v)
{
	if (w->is_next)
		put(w, ",");
	w->is_next = true;
	ppa_json_number(w->out, v);
}

static void put_string(struct writer *w, uint64_t index)
{
	uint32_t len;
	const char *text = ppa_stacks_text(w->st, index, &len);

	ppa_json_string(w->out, text, len);
}

/* ---- which stacks are told ---- */

static int64_t size_of(int64_t v)
{
	return v < 0 ? (v == INT64_MIN ? INT64_MAX : -v) : v;
}

/* Largest first, until there are enough. */
static int choose(struct writer *w)
{
	size_t n = w->s->nsamples, kept = 0;
	uint64_t nframes = 0;
	struct ppa_order *order, *sorted;

	if (n <= PPA_FLAME_STACKS_MAX && w->s->nstack_locs <= PPA_FLAME_FRAMES_MAX)
		return 0;
	w->is_small = ppa_vheap_calloc(n, sizeof(*w->is_small));
	order = ppa_vheap_malloc(2 * n * sizeof(*order));
	if (!w->is_small || !order) {
		ppa_vheap_free(order);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++)
		order[i] = (struct ppa_order){size_of(w->s->samples[i].values[w->type]), (uint32_t)i};
	sorted = ppa_order_sort(order, order + n, n);
	for (size_t i = 0; i < n; i++) {
		nframes += w->s->samples[sorted[i].index].nlocs;
		if (kept < PPA_FLAME_STACKS_MAX && nframes <= PPA_FLAME_FRAMES_MAX)
			kept++;
		else
			w->is_small[sorted[i].index] = true;
	}
	ppa_vheap_free(order);
	return 0;
}

static bool is_small(const struct writer *w, uint32_t sample)
{
	return w->is_small && w->is_small[sample];
}

/* ---- stacks ---- */

static uint32_t intern_label(struct writer *w, const struct ppa_label *l)
{
	struct ppa_tuple t = {{0}};

	t.v[LABEL_KEY] = ppa_strtab_intern(&w->st->strings, l->key);
	if (l->str) {
		t.v[LABEL_TEXT] = ppa_strtab_intern(&w->st->strings, l->str);
	} else {
		t.v[LABEL_NUMBER] = (uint64_t)l->num;
		t.v[LABEL_IS_NUMBER] = 1;
	}
	return ppa_tuples_intern(&w->labels, t);
}

static void put_values(struct writer *w, const int64_t *values)
{
	for (uint32_t i = 0; i < w->s->nsample_types; i++)
		put_number(w, values[i]);
}

static void put_entry(struct writer *w, const struct ppa_snap_sample *sample)
{
	put_number(w, sample->nlabels);
	for (uint32_t i = 0; i < sample->nlabels; i++)
		put_number(w, intern_label(w, &w->s->labels[sample->first_label + i]));
	put_values(w, sample->values);
}

/* What a stack has beyond the one written before. */
static void put_frames(struct writer *w, uint32_t sample)
{
	struct ppa_stack_walk before, now, rest;
	uint32_t a, b, nshared = 0, nmore = 0;
	bool differs = w->is_first;

	if (!w->is_first)
		ppa_stack_begin(w->st, w->before, &before);
	ppa_stack_begin(w->st, sample, &now);
	rest = now;
	while (ppa_stack_next(&now, &b)) {
		if (!differs && (!ppa_stack_next(&before, &a) || a != b))
			differs = true;
		if (differs) {
			nmore++;
		} else {
			nshared++;
			rest = now;
		}
	}
	put_number(w, nshared);
	put_number(w, nmore);
	while (ppa_stack_next(&rest, &b))
		put_number(w, b);
	w->before = sample;
	w->is_first = false;
}

/* All samples of one stack, order[first..end). */
static void put_stack(struct writer *w, size_t first, size_t end)
{
	const uint32_t *order = w->st->order;
	uint32_t nentries = 0;

	for (size_t i = first; i < end; i++)
		nentries += !is_small(w, order[i]);
	if (nentries == 0)
		return;
	put_frames(w, order[first]);
	put_number(w, nentries);
	for (size_t i = first; i < end; i++)
		if (!is_small(w, order[i]))
			put_entry(w, &w->s->samples[order[i]]);
}

static void put_small(struct writer *w)
{
	uint64_t sum[PPA_SNAPSHOT_MAX_VALUES] = {0};
	int64_t values[PPA_SNAPSHOT_MAX_VALUES];

	if (!w->is_small)
		return;
	for (size_t i = 0; i < w->s->nsamples; i++)
		for (uint32_t k = 0; w->is_small[i] && k < w->s->nsample_types; k++)
			sum[k] += (uint64_t)w->s->samples[i].values[k];
	memcpy(values, sum, sizeof(values));
	put_number(w, 0); /* frames shared */
	put_number(w, 1); /* frames more */
	put_number(w, w->small_frame);
	put_number(w, 1); /* entries */
	put_number(w, 0); /* labels */
	put_values(w, values);
}

static void put_stacks(struct writer *w)
{
	put(w, "\"stacks\":[");
	for (size_t i = 0, end; i < w->s->nsamples; i = end) {
		for (end = i + 1; end < w->s->nsamples; end++)
			if (!ppa_stacks_are_equal(w->st, w->st->order[i], w->st->order[end]))
				break;
		put_stack(w, i, end);
	}
	put_small(w);
	put(w, "],\n");
}

/* ---- the rest ---- */

static void put_types(struct writer *w)
{
	const char *path = w->s->nmappings && w->s->mappings[0].filename ? w->s->mappings[0].filename : "";
	const char *slash = strrchr(path, '/'), *main = slash ? slash + 1 : path;

	put(w, "{\"types\":[");
	for (uint32_t i = 0; i < w->s->nsample_types; i++) {
		const struct ppa_value_type *t = &w->s->sample_types[i];
		const char *type = t->type ? t->type : "", *unit = t->unit ? t->unit : "";

		put(w, i ? ",[" : "[");
		ppa_json_string(w->out, type, strlen(type));
		put(w, ",");
		ppa_json_string(w->out, unit, strlen(unit));
		put(w, "]");
	}
	put(w, "],\"selected\":");
	ppa_json_number(w->out, w->type);
	put(w, ",\"main\":");
	ppa_json_string(w->out, main, strlen(main));
	put(w, ",\n");
}

static void put_labels(struct writer *w)
{
	put(w, "\"labels\":[");
	for (uint32_t i = 0; i < w->labels.n; i++) {
		const uint64_t *v = w->labels.list[i].v;

		put(w, i ? ",[" : "[");
		put_string(w, v[LABEL_KEY]);
		put(w, ",");
		if (v[LABEL_IS_NUMBER]) {
			put(w, "\"");
			ppa_json_number(w->out, (int64_t)v[LABEL_NUMBER]);
			put(w, "\"");
		} else {
			put_string(w, v[LABEL_TEXT]);
		}
		put(w, "]");
	}
	put(w, "],\n");
}

static void put_texts(struct writer *w)
{
	put(w, "\"frames\":[");
	w->is_next = false;
	for (uint32_t i = 0; i < w->st->frames.n; i++) {
		const uint64_t *v = w->st->frames.list[i].v;

		put_number(w, (int64_t)v[PPA_FRAME_NAME]);
		put_number(w, (int64_t)v[PPA_FRAME_MODULE]);
		put_number(w, (int64_t)v[PPA_FRAME_FILE]);
	}
	put(w, "],\n\"strings\":[");
	for (uint32_t i = 0; i < w->st->strings.n; i++) {
		if (i)
			put(w, ",");
		put_string(w, i);
	}
	put(w, "]}\n");
}

int ppa_flame_encode(struct ppa_stacks *st, uint32_t type, struct ppa_sink *out)
{
	struct writer w = {.st = st, .s = st->s, .out = out, .type = type, .is_first = true};
	struct ppa_tuple small = {{0}};
	int err = choose(&w);

	if (!err) {
		if (w.is_small) {
			small.v[PPA_FRAME_NAME] = ppa_strtab_intern(&st->strings, "[smaller stacks]");
			w.small_frame = ppa_tuples_intern(&st->frames, small);
		}
		put_types(&w);
		put_stacks(&w);
		put_labels(&w);
		put_texts(&w);
		err = st->strings.err ? st->strings.err : st->frames.err ? st->frames.err : w.labels.err;
	}
	ppa_tuples_free(&w.labels);
	ppa_vheap_free(w.is_small);
	if (err)
		out->err = err;
	return out->err;
}
