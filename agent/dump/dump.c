/* SPDX-License-Identifier: Apache-2.0
 *
 * Two passes. In the first every thread is looked at, where there are many by several of ours at the same time: sleepers
 * are walked, runners asked for their stack as soon as they are met, so that they answer while the others are read; those
 * of the last dump are met first. The second collects the answers for a while, in which the caller may work off what is
 * there; who did not answer may have gone to sleep, and is looked at once more.
 *
 * A thread's place is that on the kernel's list, whoever read it. */
#include "agent/dump/dump.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/crew.h"
#include "agent/base/lock.h"
#include "agent/base/sampling_signal.h"
#include "agent/base/sys.h"
#include "agent/base/thread.h"
#include "agent/base/vheap.h"
#include "agent/cpu/cpu.h"
#include "agent/dump/look.h"
#include "agent/dump/reader.h"
#include "agent/thread/ask.h"
#include "agent/thread/renamed.h"
#include "agent/thread/tasks.h"

enum {
	ANSWER_NS = 80 * 1000 *
		    1000, /* for all together; an idle machine needs a tick, a busy one gives runners their turn late */
	POLL_NS = 2000 * 1000,
	THREADS_A_HELPER = 64, /* some 0.6 ms of work, ten times what a helper costs */
	TAKE = 4,
	RUNNERS_FIRST = 64,
	FIND_NEAR = 32,
	KEPT_THREADS = 4096, /* 2 MiB */
	FRAMES = 24,	     /* of most stacks, at most */
};

/* So long a name is believed that was given to a sleeper past pthread_setname_np, by writing the kernel's file. */
#define NAMES_NS (60 * UINT64_C(1000000000))

static struct ppa_lock lock; /* one dump at a time: the questions of ask.h, the crew, and the next; server */
static struct ppa_dump last; /* empty: none */

struct making {
	const struct ppa_dump_wish *wish;
	struct ppa_dump *d;
	uint64_t callers_cpu_ns; /* of meanwhile */
	struct ppa_tid_list tasks;
	struct ppa_tid_map map;
	struct ppa_dump_reader *readers[PPA_CREW_MAX];
};

/* One item of the crew's. */
static void meet(void *arg, unsigned hand, size_t i)
{
	struct making *m = arg;
	pid_t tid = m->tasks.tids[i];

	if (!m->d->threads[i].tid) /* not met first */
		ppa_dump_read(m->readers[hand], tid, i, *ppa_tid_map_at(&m->map, tid), &m->d->threads[i]);
}

/* Who ran the last time likely runs now, and needs a turn on a CPU to answer: it gets it while the others are read. */
static void meet_runners(struct making *m)
{
	const struct ppa_dump *was = m->readers[0]->setup.last;

	for (size_t i = 0, nmet = 0; was && i < m->tasks.n && nmet < RUNNERS_FIRST; i++) {
		const struct ppa_dump_thread *t = ppa_dump_find(was, m->tasks.tids[i], i);

		if (!t || t->is_asleep)
			continue;
		meet(m, 0, i);
		nmet++;
	}
}

/* Take the answers that are there; whether some are missing. */
static bool collect(struct making *m)
{
	bool is_missing = false;

	for (size_t i = 0; i < m->d->nthreads; i++) {
		struct ppa_dump_thread *t = &m->d->threads[i];
		const struct ppa_unwind_buf *w = t->question >= 0 ? ppa_ask_get(t->question) : NULL;

		if (w) {
			ppa_dump_put_walk(m->readers[0], t, w);
			t->question = -1;
		}
		is_missing |= t->question >= 0;
	}
	return is_missing;
}

/* Who has not answered is asleep by now, or stays without a stack. */
static void look_again(struct making *m)
{
	for (size_t i = 0; i < m->d->nthreads; i++) {
		struct ppa_dump_thread *t = &m->d->threads[i];
		enum ppa_look_kind kind;

		if (t->npcs)
			continue;
		kind = ppa_dump_read_again(m->readers[0], t);
		m->d->nunreadable += kind == PPA_LOOK_UNREADABLE;
		m->d->nunanswered += kind == PPA_LOOK_RUNNING || kind == PPA_LOOK_GONE;
	}
}

static void list_slot(struct ppa_thread *t, void *list)
{
	ppa_tid_list_add(list, atomic_load_explicit(&t->tid, memory_order_relaxed));
}

/* Without /proc there are those that hooks told of, and no more than runners' stacks. Ours are left out. */
static int list_threads(struct making *m, const struct ppa_look_files *files)
{
	size_t n = 0;
	int err = 0;

	if (files->task >= 0)
		err = ppa_tasks_read(files->task, &m->tasks);
	else
		ppa_threads_each(list_slot, &m->tasks);
	for (size_t i = 0; i < m->tasks.n; i++)
		if (!ppa_thread_owns(m->tasks.tids[i]))
			m->tasks.tids[n++] = m->tasks.tids[i];
	m->d->nours = m->tasks.n - n;
	m->tasks.n = n;
	return err ? err : ppa_tid_map_make(&m->map, NULL);
}

/* A place for every thread on the list, and who is to read them. */
static int prepare(struct making *m, const struct ppa_dump_setup *setup, unsigned *nhelpers)
{
	size_t want = m->tasks.n / THREADS_A_HELPER + 1, npcs;

	want = want < PPA_CREW_MAX ? want : PPA_CREW_MAX;
	npcs = FRAMES * m->tasks.n / want;
	m->d->threads = ppa_vheap_calloc(m->tasks.n + 1, sizeof(*m->d->threads));
	m->readers[0] = ppa_dump_reader_new(setup, 0, npcs);
	if (!m->d->threads || !m->readers[0])
		return -ENOMEM;
	for (size_t i = 1; i < want; i++) {
		m->readers[i] = ppa_dump_reader_new(setup, (uint8_t)i, npcs);
		if (!m->readers[i])
			return -ENOMEM;
		*nhelpers = (unsigned)i;
	}
	return 0;
}

/* Those that ended before they were looked at leave no gap. */
static void close_ranks(struct making *m)
{
	struct ppa_dump *d = m->d;

	for (size_t i = 0; i < m->tasks.n; i++)
		if (d->threads[i].tid)
			d->threads[d->nthreads++] = d->threads[i];
}

/* The stacks that readers have put since the last time, behind those that are there. */
static int gather_stacks(struct making *m)
{
	struct ppa_dump *d = m->d;
	size_t base[PPA_CREW_MAX] = {0}, n = d->npcs;
	uintptr_t *pcs;

	for (int i = 0; i < PPA_CREW_MAX; i++) {
		const struct ppa_dump_reader *r = m->readers[i];

		if (r && r->err)
			return r->err;
		base[i] = r ? n - r->ngathered : 0;
		n += r ? r->npcs - r->ngathered : 0;
	}
	pcs = ppa_vheap_realloc(d->pcs, (n + 1) * sizeof(*pcs));
	if (!pcs)
		return -ENOMEM;
	d->pcs = pcs;
	d->npcs = n;
	for (size_t i = 0; i < d->nthreads; i++) {
		struct ppa_dump_thread *t = &d->threads[i];

		if (!t->npcs || t->is_gathered)
			continue;
		memcpy(pcs + base[t->reader] + t->first_pc, m->readers[t->reader]->pcs + t->first_pc,
		       t->npcs * sizeof(*pcs));
		t->first_pc += base[t->reader];
		t->is_gathered = true;
	}
	for (int i = 0; i < PPA_CREW_MAX; i++)
		if (m->readers[i])
			m->readers[i]->ngathered = m->readers[i]->npcs;
	return 0;
}

static void count_incomplete(struct making *m)
{
	for (int i = 0; i < PPA_CREW_MAX; i++)
		m->d->nincomplete += m->readers[i] ? m->readers[i]->nincomplete : 0;
}

static void let_caller_begin(struct making *m)
{
	uint64_t cpu = ppa_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);

	if (!m->wish->meanwhile || gather_stacks(m))
		return;
	m->wish->meanwhile(m->wish->arg, m->d);
	m->callers_cpu_ns = ppa_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
}

static void wait_for_answers(struct making *m)
{
	uint64_t deadline = ppa_sys_clock_ns(CLOCK_MONOTONIC) + ANSWER_NS;
	struct timespec pause = {0, POLL_NS};

	if (!collect(m))
		return;
	let_caller_begin(m);
	while (collect(m) && ppa_sys_clock_ns(CLOCK_MONOTONIC) < deadline)
		ppa_syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&pause, 0, 0, 0);
}

/* The last dump, and whether its names still hold. */
static void look_back(struct ppa_dump_setup *setup, struct ppa_dump *out, uint64_t now_ns)
{
	setup->last = last.nthreads ? &last : NULL;
	out->nrenamed = ppa_renamed_count();
	setup->keeps_names = setup->last && last.nrenamed == out->nrenamed && now_ns - last.named_ns < NAMES_NS;
	out->named_ns = setup->keeps_names ? last.named_ns : now_ns;
}

static int take(struct making *m, struct ppa_dump_setup *setup)
{
	struct ppa_crew_job job = {.work = meet, .arg = m, .take = TAKE};
	unsigned nhelpers = 0;
	int err = ppa_ask_open();

	if (err)
		return err;
	setup->may_ask = ppa_signal_install(ppa_cpu_handler) == 0;
	err = list_threads(m, &setup->files);
	if (!err)
		err = prepare(m, setup, &nhelpers);
	if (!err) {
		job.nitems = m->tasks.n;
		meet_runners(m);
		m->d->cpu_ns = ppa_crew_run(&job, nhelpers);
		close_ranks(m);
		wait_for_answers(m);
		look_again(m);
		err = gather_stacks(m);
		count_incomplete(m);
	}
	ppa_ask_close();
	return err;
}

int ppa_dump_take(const struct ppa_dump_wish *wish, struct ppa_dump *out)
{
	static const struct ppa_dump_wish plain;
	uint64_t begin = ppa_sys_clock_ns(CLOCK_MONOTONIC), cpu = ppa_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	struct making m = {.wish = wish ? wish : &plain, .d = out};
	struct ppa_dump_setup setup = {.with_states = m.wish->with_states, .pid = ppa_sys_getpid()};

	memset(out, 0, sizeof(*out));
	ppa_lock(&lock);
	look_back(&setup, out, begin);
	ppa_look_open(&setup.files);
	out->err = take(&m, &setup);
	ppa_look_close(&setup.files);
	ppa_unlock(&lock);
	for (int i = 0; i < PPA_CREW_MAX; i++)
		ppa_dump_reader_free(m.readers[i]);
	ppa_tid_map_free(&m.map);
	ppa_tid_list_free(&m.tasks);
	out->took_ns = ppa_sys_clock_ns(CLOCK_MONOTONIC) - begin;
	out->cpu_ns += ppa_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu - m.callers_cpu_ns;
	return out->err;
}

static void discard(struct ppa_dump *d)
{
	ppa_vheap_free(d->threads);
	ppa_vheap_free(d->pcs);
	memset(d, 0, sizeof(*d));
}

void ppa_dump_free(struct ppa_dump *d)
{
	struct ppa_dump old = *d;

	ppa_lock(&lock);
	if (!d->err && d->nthreads && d->nthreads <= KEPT_THREADS) {
		old = last;
		last = *d;
	}
	ppa_unlock(&lock);
	discard(&old);
	memset(d, 0, sizeof(*d));
}

void ppa_dump_trim(void)
{
	struct ppa_dump old;

	ppa_lock(&lock);
	old = last;
	memset(&last, 0, sizeof(last));
	ppa_unlock(&lock);
	discard(&old);
}

const struct ppa_dump_thread *ppa_dump_find(const struct ppa_dump *d, pid_t tid, size_t place)
{
	size_t lo = 0, n = d->nthreads;

	for (size_t k = 0; k < FIND_NEAR; k++) {
		if (place + k < n && d->threads[place + k].tid == tid)
			return &d->threads[place + k];
		if (k <= place && place - k < n && d->threads[place - k].tid == tid)
			return &d->threads[place - k];
	}
	while (n) {
		size_t half = n / 2;

		if (d->threads[lo + half].tid <= tid) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo && d->threads[lo - 1].tid == tid ? &d->threads[lo - 1] : NULL;
}

uint64_t ppa_dump_count(void)
{
	struct ppa_tid_list tasks = {0};
	int dir = ppa_tasks_open();
	uint64_t n = 0;

	if (dir < 0)
		return 0;
	ppa_tasks_read(dir, &tasks);
	ppa_sys_close(dir);
	for (size_t i = 0; i < tasks.n; i++)
		n += !ppa_thread_owns(tasks.tids[i]);
	ppa_tid_list_free(&tasks);
	return n;
}

void ppa_dump_reset(void)
{
	memset(&last, 0, sizeof(last)); /* the heap's memory is gone */
	ppa_lock_reset(&lock);
	ppa_crew_reset();
	ppa_ask_reset();
}
