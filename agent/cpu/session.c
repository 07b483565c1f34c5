/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cpu/session.h"

#include <string.h>
#include <time.h>

#include "agent/base/sys.h"
#include "agent/base/thread.h"
#include "agent/base/vheap.h"
#include "agent/profile/marker.h"
#include "agent/profile/random.h"
#include "agent/thread/threads.h"
#include "unwind/module/modules.h"

enum { FIRST_THREADS = 64 };

/* A key of 0 is slot 0 in its generation 0; the stored form is shifted so that 0 can mean empty. */
static uint64_t stored(uint64_t key)
{
	return key + 1;
}

static size_t place(const struct ppa_session *s, uint64_t key)
{
	size_t mask = s->threads_cap - 1, i = (size_t)(stored(key) * 0x9e3779b97f4a7c15ULL >> 32) & mask;

	while (s->threads[i].key && s->threads[i].key != stored(key))
		i = (i + 1) & mask;
	return i;
}

static int grow_threads(struct ppa_session *s)
{
	struct ppa_session_thread *old = s->threads;
	size_t old_cap = s->threads_cap, cap = old_cap ? 2 * old_cap : FIRST_THREADS;
	struct ppa_session_thread *t = ppa_vheap_calloc(cap, sizeof(*t));

	if (!t)
		return -1;
	s->threads = t;
	s->threads_cap = cap;
	for (size_t i = 0; i < old_cap; i++)
		if (old[i].key)
			t[place(s, old[i].key - 1)] = old[i];
	ppa_vheap_free(old);
	return 0;
}

struct ppa_session_thread *ppa_session_thread(struct ppa_session *s, uint64_t key)
{
	struct ppa_session_thread *t;

	if (4 * (s->nthreads + 1) > 3 * s->threads_cap && grow_threads(s) && s->nthreads + 1 >= s->threads_cap)
		return NULL;
	t = &s->threads[place(s, key)];
	if (t->key)
		return t;
	t->key = stored(key);
	t->acc_ns = ppa_random_below(s->period_ns);
	t->label = PPA_LABEL_NONE;
	s->nthreads++;
	return t;
}

static void begin_thread(struct ppa_thread *t, void *arg)
{
	struct ppa_session *s = arg;
	uint32_t generation = atomic_load_explicit(&t->generation, memory_order_relaxed);
	struct ppa_session_thread *st = ppa_session_thread(s, ppa_threads_key(ppa_threads_index(t), generation));

	if (!st)
		return;
	st->tid = (uint32_t)atomic_load_explicit(&t->tid, memory_order_relaxed);
	st->start_cpu_ns = ppa_sys_clock_ns(ppa_sys_thread_clock((pid_t)st->tid));
}

struct ppa_session *ppa_session_begin(int hz, bool label_tid)
{
	struct ppa_session *s = ppa_vheap_calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->hz = hz;
	s->period_ns = 1000000000ULL / (uint64_t)hz;
	s->label_tid = label_tid;
	for (int i = 0; i < PPA_STAT_COUNT; i++)
		s->stats_begin[i] = ppa_stat_get(i);
	s->begin_utc_ns = (int64_t)ppa_sys_clock_ns(CLOCK_REALTIME);
	s->agent_cpu_begin_ns = ppa_thread_cpu_ns();
	s->process_cpu_begin_ns = ppa_sys_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	s->begin_ns = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	ppa_threads_each(begin_thread, s);
	ppa_session_note_modules(s);
	return s;
}

void ppa_session_note_modules(struct ppa_session *s)
{
	const struct ppa_module_table *now = ppa_modules_hold();
	size_t n = s->ntables;

	if (!now)
		return;
	/* Within a layout tables only grow: the newest serves all samples of it. */
	if (n && s->tables[n - 1]->layout == now->layout) {
		ppa_modules_release(s->tables[n - 1]);
		s->tables[n - 1] = now;
	} else if (n < PPA_SESSION_LAYOUTS_MAX) {
		s->tables[s->ntables++] = now;
	} else {
		/* A target that unloads without end: the oldest pictures are kept, the newest replaces the last. */
		ppa_modules_release(s->tables[n - 1]);
		s->tables[n - 1] = now;
	}
}

const struct ppa_module_table *ppa_session_table(const struct ppa_session *s, uint64_t layout)
{
	for (size_t i = 0; i < s->ntables; i++)
		if (s->tables[i]->layout == layout)
			return s->tables[i];
	return s->ntables ? s->tables[s->ntables - 1] : NULL;
}

/* How many samples of this session a weight of the sampler's stands for. */
static int64_t thin(const struct ppa_session *s, struct ppa_session_thread *t, uint64_t weight_ns)
{
	int64_t n;

	t->offered_ns += weight_ns;
	t->acc_ns += weight_ns;
	n = (int64_t)(t->acc_ns / s->period_ns);
	t->acc_ns %= s->period_ns;
	return n;
}

void ppa_session_account(struct ppa_session *s, enum ppa_marker leaf, uintptr_t start_routine, uint32_t label,
			 int64_t rest_ns)
{
	struct ppa_session_account *a = s->accounts;
	size_t i = 0;

	while (i < s->naccounts && (a[i].start_routine != start_routine || a[i].leaf != leaf))
		i++;
	if (i == PPA_SESSION_ACCOUNTS_MAX)
		i = 0; /* more start routines than anyone has: the first account takes the rest */
	else if (i == s->naccounts)
		a[s->naccounts++] = (struct ppa_session_account){.start_routine = start_routine, .leaf = leaf};
	a[i].label = label;
	a[i].nthreads++;
	a[i].balance_ns += rest_ns;
}

/* A thread that was never met before leaves nothing but its rest: most of those that live for microseconds. */
static void take_exit(struct ppa_session *s, const struct ppa_record *r)
{
	struct ppa_session_thread *t = s->threads_cap ? &s->threads[place(s, r->thread_key)] : NULL;
	uint32_t label = ppa_labels_intern(&s->labels, r->thread_name);
	int64_t rest = (int64_t)r->weight_ns;

	if (t && t->key) {
		rest -= (int64_t)(t->start_cpu_ns + t->offered_ns);
		t->ended = true;
	}
	ppa_session_account(s, PPA_MARKER_EXIT, r->start_routine, label, rest);
}

void ppa_session_take(struct ppa_session *s, const struct ppa_record *r, const uintptr_t *pcs)
{
	uintptr_t blocked = ppa_marker_address(PPA_MARKER_BLOCKED);
	struct ppa_session_thread *t;
	struct ppa_stack_key key;
	int64_t n;

	if (r->time_ns < s->begin_ns || (s->end_ns && r->time_ns >= s->end_ns))
		return;
	if (r->kind == PPA_RECORD_EXIT) {
		take_exit(s, r);
		return;
	}
	t = ppa_session_thread(s, r->thread_key);
	if (!t) {
		s->failed_ns += r->weight_ns;
		return;
	}
	t->tid = r->tid;
	t->label = ppa_labels_intern(&s->labels, r->thread_name);
	s->offered_ns += r->weight_ns;
	n = thin(s, t, r->weight_ns);
	if (!n)
		return;
	if (s->tap) {
		if (r->kind == PPA_RECORD_SAMPLE)
			s->tap(r, pcs);
		return;
	}
	key = (struct ppa_stack_key){
		.pcs = r->kind == PPA_RECORD_BLOCKED ? &blocked : pcs,
		.npcs = r->kind == PPA_RECORD_BLOCKED ? 1 : r->npcs,
		.label = t->label,
		.tid = s->label_tid ? r->tid : 0,
		.tags = r->tags,
		.layout = s->ntables ? s->tables[s->ntables - 1]->layout : 0,
	};
	ppa_stacktab_add(&s->stacks, &key, n);
}

void ppa_session_free(struct ppa_session *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->ntables; i++)
		ppa_modules_release(s->tables[i]);
	ppa_stacktab_free(&s->stacks);
	ppa_vheap_free(s->threads);
	ppa_vheap_free(s);
}
