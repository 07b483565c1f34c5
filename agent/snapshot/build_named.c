/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows become samples: the table of each stack's time is found, allocators' frames are cut, rows that look the same
 * after that are added up. */
#include <errno.h>

#include "agent/heap/heap.h"
#include "agent/snapshot/build.h"
#include "agent/snapshot/collect.h"
#include "agent/snapshot/kinds.h"
#include "agent/snapshot/past.h"
#include "agent/snapshot/picture.h"
#include "agent/snapshot/rows.h"

static void fill_head(struct ppa_snapshot *head, const struct ppa_kind *kind, const struct ppa_named_times *times)
{
	head->name = kind->name;
	head->form = kind->form;
	for (uint32_t i = 0; i < kind->ntypes; i++)
		head->sample_types[i] = kind->types[i];
	head->nsample_types = kind->ntypes;
	head->default_sample_type = kind->default_type;
	head->period_type = kind->period_type;
	head->period = kind->period();
	head->time_ns = times->time_ns;
	head->duration_ns = times->duration_ns;
}

static bool has_value(const struct ppa_kind *kind, const int64_t *values)
{
	for (uint32_t i = 0; i < kind->ntypes; i++)
		if (values[i])
			return true;
	return false;
}

static void draw(struct ppa_picture *p, const struct ppa_kind *kind, const struct ppa_past *past,
		 const struct ppa_row *row)
{
	unsigned flags = kind->cuts_allocator ? PPA_FRAMES_CUT : 0;
	const struct ppa_module_table *t;
	bool is_gone;

	t = ppa_past_choose(past, row, &is_gone);
	ppa_picture_sample(p, row->values);
	ppa_picture_frames(p, t, row->pcs, row->npcs, flags | (is_gone ? PPA_FRAMES_GONE : 0));
	if (kind->label) {
		struct ppa_label l = {.key = kind->label, .num = row->number};

		if (kind->label_text)
			l.str = kind->label_text((uint64_t)row->number);
		ppa_picture_label(p, &l);
	}
	ppa_picture_tags(p, row->tags);
	ppa_picture_merge(p);
}

/* The rows that have a value; *nframes on their stacks. */
static size_t count_rows(const struct ppa_kind *kind, const struct ppa_rows *rows, size_t *nframes)
{
	size_t n = 0;

	*nframes = 0;
	for (size_t i = 0; i < rows->n; i++) {
		if (!has_value(kind, rows->list[i].values))
			continue;
		n++;
		*nframes += rows->list[i].npcs;
	}
	return n;
}

int ppa_build_named(const struct ppa_named_request *req, const struct ppa_rows *rows,
		    const struct ppa_named_times *times, struct ppa_snapshot **out)
{
	const struct ppa_kind *kind = req->kind;
	struct ppa_picture *p;
	struct ppa_past past;
	int err = -ENOMEM;
	size_t nsamples, nframes;

	if (rows->err)
		return rows->err;
	nsamples = count_rows(kind, rows, &nframes);
	ppa_past_hold(&past);
	p = ppa_picture_new(past.n ? past.eras[0].table : NULL);
	if (p) {
		ppa_picture_expect(p, nsamples, nframes);
		ppa_picture_set_past(p, &past);
		if (kind->cuts_allocator)
			ppa_picture_set_allocator(p, ppa_heap_allocator_address());
		fill_head(ppa_picture_head(p), kind, times);
		for (size_t i = 0; i < rows->n; i++)
			if (has_value(kind, rows->list[i].values))
				draw(p, kind, &past, &rows->list[i]);
		if (kind->comment)
			kind->comment(p);
		if (req->wants_text && kind->text_tail)
			ppa_picture_head(p)->text_tail = kind->text_tail(p, req->may_pause);
		err = ppa_picture_finish(p, out);
	}
	ppa_past_release(&past);
	return err;
}
