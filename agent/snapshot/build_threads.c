/* SPDX-License-Identifier: Apache-2.0
 *
 * goroutine: the dump's threads, equal stacks of equally named threads counted together; or, for debug=2, each by
 * itself, its creator's stack as a sample behind its own (label created_by), as proto/threads.h wants them. Where threads
 * run and wait for a turn to answer, the sleepers are shown before: of a thousand that takes 2 ms, which after the last
 * answer would often be the one too many for the server's own turn on a busy CPU.
 * threadcreate: the creation sites, and a marker for threads that nobody was seen creating. */
#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "agent/base/lock.h"
#include "agent/base/sys.h"
#include "agent/base/thread.h"
#include "agent/base/vheap.h"
#include "agent/dump/dump.h"
#include "agent/profile/labels.h"
#include "agent/snapshot/build.h"
#include "agent/snapshot/collect.h"
#include "agent/snapshot/past.h"
#include "agent/snapshot/picture.h"
#include "agent/snapshot/rows.h"
#include "agent/thread/created.h"
#include "agent/thread/tasks.h"

static struct {
	struct ppa_lock lock;	 /* a leaf; server */
	struct ppa_labels names; /* values of the label thread, for ever: a delta compares them */
	/* of the last dump */
	size_t nours, nunanswered, nunreadable, nincomplete;
	uint64_t took_ns, cpu_ns;
} threads;

const char *ppa_goroutine_label(uint64_t number)
{
	return number < PPA_LABELS_MAX ? threads.names.values[number] : "other";
}

static int64_t label_of(const struct ppa_dump_thread *t)
{
	uint32_t label;

	ppa_lock(&threads.lock);
	label = ppa_labels_intern(&threads.names, t->name);
	ppa_unlock(&threads.lock);
	return label;
}

static void remember(const struct ppa_dump *d)
{
	ppa_lock(&threads.lock);
	threads.nours = d->nours;
	threads.nunanswered = d->nunanswered;
	threads.nunreadable = d->nunreadable;
	threads.nincomplete = d->nincomplete;
	threads.took_ns = d->took_ns;
	threads.cpu_ns = d->cpu_ns;
	ppa_unlock(&threads.lock);
}

void ppa_goroutine_gather(struct ppa_rows *rows)
{
	struct ppa_dump d;
	int err;

	err = ppa_dump_take(NULL, &d);
	for (size_t i = 0; !err && i < d.nthreads; i++) {
		const struct ppa_dump_thread *t = &d.threads[i];
		struct ppa_row *row = ppa_rows_at_stack(rows, d.pcs + t->first_pc, t->npcs, label_of(t), t->tags);

		if (row)
			row->values[0]++;
	}
	if (err)
		rows->err = err;
	else
		remember(&d);
	ppa_dump_free(&d);
}

void ppa_goroutine_reset(void)
{
	ppa_lock_reset(&threads.lock);
}

int64_t ppa_goroutine_period(void)
{
	return 1;
}

void ppa_goroutine_comment(struct ppa_picture *p)
{
	ppa_picture_comment_tags(p);
	ppa_picture_comment(p,
			    ppa_picture_text(p,
					     "pprofagent: %zu threads of the agent left out; %zu stacks cut short; "
					     "%zu threads ran on unasked ([running]), %zu not readable ([no stack]); "
					     "took %" PRIu64 " us, %" PRIu64 " us of CPU",
					     threads.nours, threads.nincomplete, threads.nunanswered,
					     threads.nunreadable, threads.took_ns / 1000, threads.cpu_ns / 1000));
}

/* ---- one by one ---- */

static void put_label(struct ppa_picture *p, const char *key, const char *str, int64_t num)
{
	struct ppa_label l = {.key = key, .str = str, .num = num};

	ppa_picture_label(p, &l);
}

/* creators: a row for each site that was met. */
static void draw_creator(struct ppa_picture *p, const struct ppa_past *past, struct ppa_rows *creators,
			 const struct ppa_dump_thread *t)
{
	static const int64_t none[1];
	struct ppa_row *row = ppa_rows_at(creators, t->creator, 0);
	const struct ppa_module_table *table;
	bool is_gone;

	if (row) {
		table = ppa_past_choose(past, row, &is_gone);
		ppa_picture_sample(p, none);
		ppa_picture_frames(p, table, row->pcs, row->npcs, is_gone ? PPA_FRAMES_GONE : 0);
		put_label(p, "created_by", NULL, t->creator_tid);
	}
}

static void draw_thread(struct ppa_picture *p, const struct ppa_past *past, struct ppa_rows *creators,
			const struct ppa_dump *d, const struct ppa_dump_thread *t)
{
	static const int64_t one[1] = {1};

	ppa_picture_sample(p, one);
	ppa_picture_frames(p, past->n ? past->eras[0].table : NULL, d->pcs + t->first_pc, t->npcs, 0);
	put_label(p, "tid", NULL, t->tid);
	put_label(p, "state", ppa_picture_keep(p, t->state), 0);
	put_label(p, "minutes", NULL, (int64_t)(t->asleep_ns / 60000000000U));
	put_label(p, "name", ppa_picture_keep(p, t->name), 0);
	ppa_picture_tags(p, t->tags);
	if (t->creator)
		draw_creator(p, past, creators, t);
}

struct showing {
	const struct ppa_named_request *req;
	bool *is_shown; /* each of the dump's threads; NULL: none of them */
};

/* A snapshot of those threads that have a stack and were not shown yet; with the last the comment. */
static int draw(const struct showing *s, const struct ppa_dump *d, bool is_last, struct ppa_snapshot **out)
{
	struct ppa_rows creators = {.list = NULL};
	struct ppa_snapshot *head;
	struct ppa_past past;
	struct ppa_picture *p;
	int err = -ENOMEM;

	ppa_past_hold(&past);
	p = ppa_picture_new(past.n ? past.eras[0].table : NULL);
	if (p) {
		head = ppa_picture_head(p);
		head->name = "goroutine";
		head->form = PPA_FORM_THREADS;
		head->sample_types[0] = (struct ppa_value_type){"goroutine", "count"};
		head->nsample_types = 1;
		head->time_ns = (int64_t)ppa_sys_clock_ns(CLOCK_REALTIME);
		for (size_t i = 0; i < d->nthreads; i++) {
			if (!d->threads[i].npcs || (s->is_shown && s->is_shown[i]))
				continue;
			draw_thread(p, &past, &creators, d, &d->threads[i]);
			if (s->is_shown)
				s->is_shown[i] = true;
		}
		if (is_last)
			ppa_goroutine_comment(p);
		err = ppa_picture_finish(p, out);
	}
	ppa_rows_free(&creators);
	ppa_past_release(&past);
	return err;
}

/* Without memory for it all come with the last. */
static void show_first(void *arg, const struct ppa_dump *so_far)
{
	struct ppa_snapshot *part = NULL;
	struct showing *s = arg;

	s->is_shown = ppa_vheap_calloc(so_far->nthreads + 1, sizeof(*s->is_shown));
	if (s->is_shown && !draw(s, so_far, false, &part)) {
		s->req->first_part(s->req->arg, part);
		ppa_snapshot_free(part);
	} else {
		ppa_vheap_free(s->is_shown);
		s->is_shown = NULL;
	}
}

int ppa_goroutine_each(const struct ppa_named_request *req, struct ppa_snapshot **out)
{
	struct showing s = {.req = req};
	struct ppa_dump_wish wish = {true, req->first_part ? show_first : NULL, &s};
	struct ppa_dump d;
	int err = ppa_dump_take(&wish, &d);

	if (!err) {
		remember(&d);
		err = draw(&s, &d, true, out);
	}
	ppa_vheap_free(s.is_shown);
	ppa_dump_free(&d);
	return err;
}

/* ---- threadcreate ---- */

/* Threads that are there and whose creation nobody saw. */
static uint64_t count_unknown(void)
{
	struct ppa_tid_list tasks = {0};
	struct ppa_tid_map map = {0};
	int dir = ppa_tasks_open();
	uint64_t n = 0;

	if (dir < 0)
		return 0;
	if (!ppa_tasks_read(dir, &tasks) && !ppa_tid_map_make(&map, NULL)) {
		for (size_t i = 0; i < tasks.n; i++) {
			const struct ppa_thread *t = *ppa_tid_map_at(&map, tasks.tids[i]);

			n += tasks.tids[i] != ppa_sys_getpid() && !ppa_thread_owns(tasks.tids[i]) && !(t && t->creator);
		}
	}
	ppa_sys_close(dir);
	ppa_tid_map_free(&map);
	ppa_tid_list_free(&tasks);
	return n;
}

static void add_site(const struct ppa_site *s, void *arg)
{
	int64_t n = (int64_t)atomic_load_explicit(&s->counters[0], memory_order_relaxed);
	struct ppa_row *row = n ? ppa_rows_add(arg, s, 0) : NULL;

	if (row)
		row->values[0] = n;
}

void ppa_threadcreate_gather(struct ppa_rows *rows)
{
	/* A thread under way has no slot of its own yet and looks like a stranger. */
	if (!ppa_threads_is_birth_under_way())
		ppa_created_note_unknown(count_unknown());
	ppa_sites_each(&ppa_created_sites, add_site, rows);
}

static void count_site(const struct ppa_site *s, void *arg)
{
	*(uint64_t *)arg += atomic_load_explicit(&s->counters[0], memory_order_relaxed);
}

uint64_t ppa_threadcreate_count(void)
{
	uint64_t n = 0;

	ppa_sites_each(&ppa_created_sites, count_site, &n);
	return n;
}

void ppa_threadcreate_comment(struct ppa_picture *p)
{
	uint64_t folded = atomic_load_explicit(&ppa_created_sites.folded, memory_order_relaxed);

	if (folded)
		ppa_picture_comment(p,
				    ppa_picture_text(p,
						     "pprofagent: %" PRIu64 " threads under [other stacks]: the memory "
						     "limit left no room for their own (PPROF_MAX_MEMORY)",
						     folded));
}
