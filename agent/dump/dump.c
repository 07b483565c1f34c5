/* SPDX-License-Identifier: Apache-2.0
 *
 * Two passes. In the first every thread is looked at: sleepers are walked, runners asked for their stack as soon as they
 * are met, so that they answer while the others are read. The second collects the answers for a while; who did not
 * answer may have gone to sleep, and is looked at once more. */
#include "agent/dump/dump.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/lock.h"
#include "agent/base/sampling_signal.h"
#include "agent/base/sys.h"
#include "agent/base/thread.h"
#include "agent/base/vheap.h"
#include "agent/cpu/cpu.h"
#include "agent/dump/look.h"
#include "agent/dump/state.h"
#include "agent/profile/marker.h"
#include "agent/thread/ask.h"
#include "agent/thread/parked.h"
#include "agent/thread/tasks.h"
#include "agent/thread/timer.h"

enum {
	ANSWER_NS = 80 * 1000 *
		    1000, /* for all together; an idle machine needs a tick, a busy one gives runners their turn late */
	POLL_NS = 500 * 1000,
	FIRST_THREADS = 64,
	FIRST_PCS = 1024,
	FILE_BYTES = 512,
};

static struct ppa_lock lock; /* one dump at a time: the questions of ask.h, and the walk below; server */
static struct ppa_unwind_buf *walk;

struct making {
	struct ppa_dump *d;
	struct ppa_look_files files;
	bool with_states;
	bool may_ask; /* our signal's handler is there */
};

static void *grow(void *items, size_t n, size_t *cap, size_t item_bytes, size_t first)
{
	size_t want = *cap ? *cap : first;
	void *p;

	while (want < n)
		want *= 2;
	if (want == *cap)
		return items;
	p = ppa_vheap_realloc(items, want * item_bytes);
	if (p)
		*cap = want;
	return p;
}

static void put_stack(struct ppa_dump *d, struct ppa_dump_thread *t, const uintptr_t *pcs, uint32_t npcs)
{
	uintptr_t *room = grow(d->pcs, d->npcs + npcs, &d->pcs_cap, sizeof(*pcs), FIRST_PCS);

	if (!room) {
		d->err = -ENOMEM;
		return;
	}
	d->pcs = room;
	memcpy(room + d->npcs, pcs, npcs * sizeof(*pcs));
	t->first_pc = d->npcs;
	t->npcs = npcs;
	d->npcs += npcs;
}

static void put_walk(struct ppa_dump *d, struct ppa_dump_thread *t, const struct ppa_unwind_buf *w)
{
	d->nincomplete += w->end != PPA_UNWIND_COMPLETE;
	put_stack(d, t, w->pcs, w->npcs);
}

static void put_marker(struct ppa_dump *d, struct ppa_dump_thread *t, enum ppa_marker m)
{
	uintptr_t pc = ppa_marker_address(m);

	put_stack(d, t, &pc, 1);
}

static struct ppa_dump_thread *add_thread(struct ppa_dump *d)
{
	struct ppa_dump_thread *room = grow(d->threads, d->nthreads + 1, &d->threads_cap, sizeof(*room), FIRST_THREADS);

	if (!room) {
		d->err = -ENOMEM;
		return NULL;
	}
	d->threads = room;
	memset(&room[d->nthreads], 0, sizeof(*room));
	return &room[d->nthreads++];
}

static void set_name(struct ppa_dump_thread *t, const char *name, size_t len)
{
	len = len < sizeof(t->name) - 1 ? len : sizeof(t->name) - 1;
	memset(t->name, 0, sizeof(t->name));
	memcpy(t->name, name, len);
}

/* The name alone. */
static void read_name(const struct ppa_look_files *f, struct ppa_dump_thread *t)
{
	char comm[FILE_BYTES];
	long n = ppa_look_file(f, t->tid, "comm", comm, sizeof(comm));

	if (n > 0)
		set_name(t, comm, (size_t)n - (comm[n - 1] == '\n'));
}

/* What was left standing by a jump out of a wait is not believed: the walk knows. */
static void note_look(struct ppa_dump_thread *t, const struct ppa_look *look)
{
	t->is_asleep = look->kind == PPA_LOOK_ASLEEP;
	t->is_parked = t->is_asleep && walk->anchored && ppa_parked_read(t->slot, &t->parked);
	t->syscall_nr = t->is_asleep ? look->syscall_nr : -1;
	t->seen_ns = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	t->cpu_ns = look->cpu_ns;
}

/* The name, and what it is that the thread does. */
static void read_state(const struct ppa_look_files *f, struct ppa_dump_thread *t, const struct ppa_look *look)
{
	char stat[FILE_BYTES], channel[FILE_BYTES] = "", letter = '?';
	const char *open, *close = NULL;
	uint64_t now = ppa_sys_clock_ns(CLOCK_MONOTONIC);

	if (ppa_look_file(f, t->tid, "stat", stat, sizeof(stat)) > 0) {
		open = strchr(stat, '(');
		close = strrchr(stat, ')'); /* a name may hold both */
		if (open && close && close > open)
			set_name(t, open + 1, (size_t)(close - open - 1));
		if (close && close[1] == ' ')
			letter = close[2];
	}
	if (look->kind == PPA_LOOK_ASLEEP) {
		ppa_look_file(f, t->tid, "wchan", channel, sizeof(channel));
		if (channel[0] == '0')
			channel[0] = '\0';
		if (t->is_parked && t->parked.since_ns && t->parked.since_ns < now)
			t->asleep_ns = now - t->parked.since_ns;
	}
	ppa_state_describe(look, letter, t->is_parked ? &t->parked : NULL, channel, t->state, sizeof(t->state));
}

/* Its clock stands where an earlier dump found it: it has slept since then at least. */
static void note_sleep(struct ppa_dump_thread *t, const struct ppa_look *look)
{
	uint64_t now = ppa_sys_clock_ns(CLOCK_MONOTONIC);

	if (!t->slot)
		return;
	if (look->kind != PPA_LOOK_ASLEEP) {
		t->slot->asleep_since_ns = 0;
	} else if (!t->slot->asleep_since_ns || t->slot->asleep_cpu_ns != look->cpu_ns) {
		t->slot->asleep_since_ns = now;
		t->slot->asleep_cpu_ns = look->cpu_ns;
	} else {
		t->asleep_ns = now - t->slot->asleep_since_ns;
	}
}

static void ask_runner(const struct making *m, struct ppa_dump_thread *t)
{
	if (!m->may_ask || (t->slot && ppa_timer_is_stack_too_small(t->slot)))
		return;
	t->question = ppa_ask_start(t->tid, t->slot ? &t->slot->bounds : NULL);
}

static void meet(struct making *m, pid_t tid, struct ppa_thread *slot)
{
	struct ppa_dump *d = m->d;
	struct ppa_dump_thread *t;
	struct ppa_look look;

	ppa_look(&m->files, tid, slot, &look, walk);
	if (look.kind == PPA_LOOK_GONE)
		return;
	t = add_thread(d);
	if (!t)
		return;
	t->tid = tid;
	t->slot = slot;
	t->question = -1;
	t->is_main = tid == ppa_sys_getpid();
	t->creator = slot ? slot->creator : NULL;
	t->creator_tid = slot ? slot->creator_tid : 0;
	t->tags = slot ? atomic_load_explicit(&slot->tags, memory_order_relaxed) : 0;
	if (look.kind == PPA_LOOK_ASLEEP)
		put_walk(d, t, walk);
	else
		ask_runner(m, t); /* also one that the kernel says nothing of */
	note_look(t, &look);
	note_sleep(t, &look);
	if (m->with_states)
		read_state(&m->files, t, &look);
	else
		read_name(&m->files, t);
}

/* Take the answers that are there; whether some are missing. */
static bool collect(struct ppa_dump *d)
{
	bool is_missing = false;

	for (size_t i = 0; i < d->nthreads; i++) {
		struct ppa_dump_thread *t = &d->threads[i];
		const struct ppa_unwind_buf *w = t->question >= 0 ? ppa_ask_get(t->question) : NULL;

		if (w) {
			put_walk(d, t, w);
			t->question = -1;
		}
		is_missing |= t->question >= 0;
	}
	return is_missing;
}

/* Who has not answered is asleep by now, or stays without a stack. */
static void look_again(struct making *m)
{
	struct ppa_dump *d = m->d;
	struct ppa_look look;

	for (size_t i = 0; i < d->nthreads; i++) {
		struct ppa_dump_thread *t = &d->threads[i];

		if (t->npcs)
			continue;
		ppa_look(&m->files, t->tid, t->slot, &look, walk);
		note_look(t, &look);
		if (look.kind == PPA_LOOK_ASLEEP) {
			put_walk(d, t, walk);
			if (m->with_states)
				read_state(&m->files, t, &look);
		} else if (look.kind == PPA_LOOK_UNREADABLE) {
			d->nunreadable++;
			put_marker(d, t, PPA_MARKER_NO_STACK);
		} else {
			d->nunanswered++;
			put_marker(d, t, PPA_MARKER_RUNNING);
		}
	}
}

static void wait_for_answers(struct ppa_dump *d)
{
	uint64_t deadline = ppa_sys_clock_ns(CLOCK_MONOTONIC) + ANSWER_NS;
	struct timespec pause = {0, POLL_NS};

	while (collect(d) && ppa_sys_clock_ns(CLOCK_MONOTONIC) < deadline)
		ppa_syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&pause, 0, 0, 0);
}

static void list_slot(struct ppa_thread *t, void *list)
{
	ppa_tid_list_add(list, atomic_load_explicit(&t->tid, memory_order_relaxed));
}

/* Without /proc there are those that hooks told of, and no more than runners' stacks. */
static int list_threads(const struct making *m, struct ppa_tid_list *tasks)
{
	if (m->files.task >= 0)
		return ppa_tasks_read(m->files.task, tasks);
	ppa_threads_each(list_slot, tasks);
	return 0;
}

static int take(struct making *m)
{
	struct ppa_tid_list tasks = {0};
	struct ppa_tid_map map = {0};
	int err;

	if (!walk)
		walk = ppa_sys_map(sizeof(*walk));
	if (!walk || ppa_ask_open())
		return -ENOMEM;
	m->may_ask = ppa_signal_install(ppa_cpu_handler) == 0;
	err = list_threads(m, &tasks);
	if (!err)
		err = ppa_tid_map_make(&map, NULL);
	for (size_t i = 0; !err && i < tasks.n; i++) {
		if (ppa_thread_owns(tasks.tids[i]))
			m->d->nours++;
		else
			meet(m, tasks.tids[i], *ppa_tid_map_at(&map, tasks.tids[i]));
	}
	wait_for_answers(m->d);
	look_again(m);
	ppa_ask_close();
	ppa_tid_map_free(&map);
	ppa_tid_list_free(&tasks);
	return err;
}

int ppa_dump_take(bool with_states, struct ppa_dump *out)
{
	uint64_t begin = ppa_sys_clock_ns(CLOCK_MONOTONIC), cpu = ppa_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	struct making m = {.d = out, .with_states = with_states};
	int err;

	memset(out, 0, sizeof(*out));
	ppa_lock(&lock);
	ppa_look_open(&m.files);
	err = take(&m);
	ppa_look_close(&m.files);
	ppa_unlock(&lock);
	out->took_ns = ppa_sys_clock_ns(CLOCK_MONOTONIC) - begin;
	out->cpu_ns = ppa_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	if (err)
		out->err = err;
	return out->err;
}

void ppa_dump_free(struct ppa_dump *d)
{
	ppa_vheap_free(d->threads);
	ppa_vheap_free(d->pcs);
	memset(d, 0, sizeof(*d));
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
	ppa_lock_reset(&lock);
	ppa_ask_reset();
}
