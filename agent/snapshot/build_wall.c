/* SPDX-License-Identifier: Apache-2.0
 *
 * wall: sleepers' stacks as they were charged, and the time of each runner shared out among the stacks that the CPU
 * profile of the same window saw of it. Samples are time divided by the period, so that both types agree. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "agent/cpu/session.h"
#include "agent/dump/wall.h"
#include "agent/profile/marker.h"
#include "agent/snapshot/build.h"
#include "agent/snapshot/picture.h"
#include "unwind/module/modules.h"

struct drawing {
	struct ppa_picture *p;
	struct ppa_wall *w;
	const struct ppa_session *cpu;
	int64_t period_ns, carry_ns; /* what rounding took from earlier samples */
};

static void put(struct drawing *d, int64_t ns, const struct ppa_stack_key *k)
{
	int64_t values[2] = {(ns + d->carry_ns) / d->period_ns, ns};

	d->carry_ns += ns - values[0] * d->period_ns;
	ppa_picture_sample(d->p, values);
	ppa_picture_frames(d->p, ppa_session_table(d->cpu, k->layout), k->pcs, k->npcs, 0);
	if (k->label < d->w->labels.n) {
		struct ppa_label l = {.key = "thread", .str = ppa_picture_keep(d->p, d->w->labels.values[k->label])};

		ppa_picture_label(d->p, &l);
	}
	if (k->tid) {
		struct ppa_label l = {.key = "tid", .num = k->tid};

		ppa_picture_label(d->p, &l);
	}
	ppa_picture_tags(d->p, k->tags);
	ppa_picture_merge(d->p);
}

static struct ppa_stack_key key_of(const struct ppa_stack *st)
{
	return (struct ppa_stack_key){
		.pcs = st->pcs,
		.npcs = st->npcs,
		.label = st->label,
		.tid = st->tid,
		.tags = st->tags,
		.layout = st->layout,
	};
}

static void draw_asleep(const struct ppa_stack *st, void *arg)
{
	struct ppa_stack_key key = key_of(st);

	put(arg, st->count, &key);
}

static void count_running(const struct ppa_stack *st, void *arg)
{
	const struct drawing *d = arg;
	struct ppa_wall_thread *t = ppa_wall_find(d->w, (pid_t)st->tid);

	if (t)
		t->running_samples += (uint64_t)st->count;
}

static void draw_running(const struct ppa_stack *st, void *arg)
{
	struct drawing *d = arg;
	struct ppa_wall_thread *t = ppa_wall_find(d->w, (pid_t)st->tid);
	struct ppa_stack_key key = key_of(st);
	uint64_t ns;

	if (!t || !t->running_samples)
		return;
	/* The rest for the last, so that nothing is lost by rounding. */
	ns = (uint64_t)((double)t->running_ns * (double)st->count / (double)t->running_samples);
	ns = ns > t->running_ns || t->running_samples == (uint64_t)st->count ? t->running_ns : ns;
	t->running_samples -= (uint64_t)st->count;
	t->running_ns -= ns;
	key.label = t->label;
	key.tid = d->w->label_tid ? st->tid : 0;
	if (ns)
		put(d, (int64_t)ns, &key);
}

/* Who ran whenever it was looked at, and never long enough for a sample. */
static void draw_unsampled(struct drawing *d)
{
	uintptr_t running = ppa_marker_address(PPA_MARKER_RUNNING);

	for (size_t i = 0; i < d->w->cap; i++) {
		const struct ppa_wall_thread *t = &d->w->threads[i];

		struct ppa_stack_key key = {
			.pcs = &running,
			.npcs = 1,
			.label = t->label,
			.tid = d->w->label_tid ? (uint32_t)t->tid : 0,
			.layout = UINT64_MAX,
		};

		if (t->tid && t->running_ns)
			put(d, (int64_t)t->running_ns, &key);
	}
}

static void comment(struct ppa_picture *p, const struct ppa_wall *w)
{
	uint64_t ns = w->end_ns - w->begin_ns;

	ppa_picture_comment(p, ppa_picture_text(p,
						"pprofagent: %zu threads, %" PRIu64 " looks, %" PRIu64
						" of them closer; %" PRIu64 " ms of time lost; the looks took %" PRIu64
						".%03" PRIu64 " ms of CPU",
						w->nthreads, w->looks, w->walks, w->lost_ns / 1000000,
						w->spent_ns / 1000000, w->spent_ns / 1000 % 1000));
	if (w->nthreads && ns && w->looks < (uint64_t)w->hz * (ns / 1000000) * w->nthreads / 2000)
		ppa_picture_comment(p, ppa_picture_text(p,
							"pprofagent: each thread was looked at %" PRIu64
							" times on average, less often than asked for (no more than 1 "
							"%% of a CPU goes into looks)",
							w->looks / w->nthreads));
}

int ppa_build_wall(struct ppa_wall *w, const struct ppa_session *cpu, struct ppa_snapshot **out)
{
	struct drawing d = {.p = ppa_picture_new(ppa_session_table(cpu, UINT64_MAX)), .w = w, .cpu = cpu};
	static const struct ppa_value_type types[] = PPA_SNAPSHOT_TIME_TYPES("wall");
	struct ppa_snapshot *head;

	if (!d.p)
		return -ENOMEM;
	d.period_ns = 1000000000 / w->hz;
	head = ppa_picture_head(d.p);
	head->name = "wall";
	memcpy(head->sample_types, types, sizeof(types));
	head->nsample_types = PPA_ARRAY_LEN(types);
	head->period_type = (struct ppa_value_type){"wall", "nanoseconds"};
	head->period = d.period_ns;
	head->time_ns = w->begin_utc_ns;
	head->duration_ns = (int64_t)(w->end_ns - w->begin_ns);
	ppa_stacktab_each(&w->stacks, draw_asleep, &d);
	ppa_stacktab_each(&cpu->stacks, count_running, &d);
	ppa_stacktab_each(&cpu->stacks, draw_running, &d);
	draw_unsampled(&d);
	comment(d.p, w);
	return ppa_picture_finish(d.p, out);
}
