/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/dump/wall.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "agent/base/sys.h"
#include "agent/base/thread.h"
#include "agent/base/vheap.h"
#include "agent/dump/look.h"
#include "agent/profile/marker.h"
#include "agent/profile/random.h"
#include "agent/thread/tasks.h"
#include "agent/thread/threads.h"
#include "unwind/module/modules.h"

enum {
	SHARE = 100, /* one part in so many of a CPU for all; the CPU profile beside takes as much */
	CREDIT_MAX_NS = 5 * 1000 * 1000,
	ROUND_NS = 100 * 1000 * 1000, /* between two lists of threads */
	CHECK_LOOKS = 16,	      /* between two looks at what they cost */
	FIRST_THREADS = 64,
	NAME_BYTES = 32,
	NAMES_DUE_MAX = 1 << 16,
};

static _Atomic uint32_t active; /* profiles that share what may be spent */

static uint64_t now_ns(void)
{
	return ppa_sys_clock_ns(CLOCK_MONOTONIC);
}

static uint64_t own_cpu_ns(void)
{
	return ppa_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* ---- the threads ---- */

static size_t place(const struct ppa_wall *w, pid_t tid)
{
	size_t i = ((size_t)tid * 2654435761U) & (w->cap - 1);

	while (w->threads[i].tid && w->threads[i].tid != tid)
		i = (i + 1) & (w->cap - 1);
	return i;
}

struct ppa_wall_thread *ppa_wall_find(struct ppa_wall *w, pid_t tid)
{
	struct ppa_wall_thread *t = w->cap && tid ? &w->threads[place(w, tid)] : NULL;

	return t && t->tid ? t : NULL;
}

static int grow(struct ppa_wall *w)
{
	size_t old_cap = w->cap, cap = old_cap ? 2 * old_cap : FIRST_THREADS;
	struct ppa_wall_thread *old = w->threads, *t = ppa_vheap_calloc(cap, sizeof(*t));

	if (!t)
		return -ENOMEM;
	w->threads = t;
	w->cap = cap;
	for (size_t i = 0; i < old_cap; i++)
		if (old[i].tid)
			t[place(w, old[i].tid)] = old[i];
	ppa_vheap_free(old);
	return 0;
}

static void read_name(struct ppa_wall *w, struct ppa_wall_thread *t)
{
	char comm[NAME_BYTES] = "", name[PPA_LABEL_BYTES] = "";
	long n = ppa_look_file(&w->files, t->tid, "comm", comm, sizeof(comm));

	if (n > 1)
		memcpy(name, comm, (size_t)n - 1 < sizeof(name) - 1 ? (size_t)n - 1 : sizeof(name) - 1);
	t->label = ppa_labels_intern(&w->labels, name);
}

static struct ppa_wall_thread *meet(struct ppa_wall *w, pid_t tid)
{
	struct ppa_wall_thread *t;

	if (2 * (w->nthreads + 1) > w->cap && grow(w))
		return NULL;
	t = &w->threads[place(w, tid)];
	if (t->tid)
		return t;
	*t = (struct ppa_wall_thread){.tid = tid, .looked_ns = now_ns(), .names_due = 1};
	read_name(w, t);
	w->nthreads++;
	return t;
}

/* Who is there now. */
static void begin_round(struct ppa_wall *w)
{
	uint64_t begin = now_ns(), cost;
	struct ppa_tid_list tasks = {0};
	struct ppa_tid_map map = {0};
	int dir = ppa_tasks_open();
	const struct ppa_module_table *table;

	w->round++;
	if (dir >= 0 && !ppa_tasks_read(dir, &tasks) && !ppa_tid_map_make(&map, NULL)) {
		for (size_t i = 0; i < tasks.n; i++) {
			struct ppa_wall_thread *t = ppa_thread_owns(tasks.tids[i]) ? NULL : meet(w, tasks.tids[i]);

			if (t) {
				t->round = w->round;
				t->slot = *ppa_tid_map_at(&map, t->tid);
			}
		}
	}
	ppa_tid_map_free(&map);
	ppa_tid_list_free(&tasks);
	if (dir >= 0)
		ppa_sys_close(dir);
	ppa_modules_refresh(false);
	table = ppa_modules_hold();
	if (table) {
		w->layout = table->layout;
		ppa_modules_release(table);
	}
	cost = now_ns() - begin;
	w->next_round_ns = begin + (4 * SHARE * cost > ROUND_NS ? 4 * SHARE * cost : ROUND_NS);
}

/* ---- looks ---- */

static void charge(struct ppa_wall *w, struct ppa_wall_thread *t, const uintptr_t *pcs, uint32_t npcs, uint64_t ns)
{
	struct ppa_stack_key key = {.pcs = pcs, .npcs = npcs, .label = t->label, .layout = w->layout};

	key.tid = w->label_tid ? (uint32_t)t->tid : 0;
	key.tags = t->slot ? atomic_load_explicit(&t->slot->tags, memory_order_relaxed) : 0;
	t->stack = ppa_stacktab_at(&w->stacks, &key);
	if (t->stack)
		t->stack->count += (int64_t)ns;
	else
		w->lost_ns += ns;
}

/* It has moved since the last look, or was never looked at. */
static void look_closely(struct ppa_wall *w, struct ppa_wall_thread *t, uint64_t ns)
{
	uintptr_t unreadable = ppa_marker_address(PPA_MARKER_NO_STACK);
	struct ppa_look look;

	w->walks++;
	/* Threads name themselves soon after their birth, or never again. */
	if (++t->moves >= t->names_due && t->names_due < NAMES_DUE_MAX) {
		t->names_due *= 2;
		read_name(w, t);
	}
	ppa_look(&w->files, t->tid, t->slot, &look, w->walk);
	t->stack = NULL;
	t->cpu_ns = look.cpu_ns;
	switch (look.kind) {
	case PPA_LOOK_GONE:
		break;
	case PPA_LOOK_RUNNING:
		t->running_ns += ns;
		break;
	case PPA_LOOK_ASLEEP:
		charge(w, t, w->walk->pcs, w->walk->npcs, ns);
		break;
	case PPA_LOOK_UNREADABLE:
		charge(w, t, &unreadable, 1, ns);
	}
}

static void look(struct ppa_wall *w, struct ppa_wall_thread *t)
{
	uint64_t now = now_ns(), clock = ppa_look_clock(t->tid), ns = now - t->looked_ns;

	w->looks++;
	t->looked_ns = now;
	if (!clock) {
		t->stack = NULL; /* gone; the next round forgets it */
	} else if (t->stack && clock == t->cpu_ns) {
		t->stack->count += (int64_t)ns;
	} else {
		look_closely(w, t, ns);
	}
}

static void earn_credit(struct ppa_wall *w)
{
	uint64_t now = now_ns();
	uint32_t n = atomic_load_explicit(&active, memory_order_relaxed);

	w->credit_ns += (int64_t)((now - w->credit_at_ns) / SHARE / (n ? n : 1));
	w->credit_at_ns = now;
	if (w->credit_ns > CREDIT_MAX_NS)
		w->credit_ns = CREDIT_MAX_NS;
}

/* Pay for what was done since *before. */
static void pay(struct ppa_wall *w, uint64_t *before)
{
	uint64_t now = own_cpu_ns();

	w->credit_ns -= (int64_t)(now - *before);
	w->spent_ns += now - *before;
	*before = now;
}

uint64_t ppa_wall_tick(struct ppa_wall *w)
{
	uint64_t period = 1000000000U / (uint64_t)w->hz, before = own_cpu_ns(), deadline = now_ns() - period / 2;
	unsigned looks = 0;

	earn_credit(w);
	if (now_ns() >= w->next_round_ns)
		begin_round(w);
	for (size_t i = 0; i < w->cap && w->credit_ns > 0; i++) {
		struct ppa_wall_thread *t = &w->threads[w->next & (w->cap - 1)];

		w->next = (w->next + 1) & (w->cap - 1);
		/* Looked at in this tick's period already, by the tick before that ran late. */
		if (!t->tid || t->round != w->round || t->looked_ns > deadline)
			continue;
		look(w, t);
		if (++looks % CHECK_LOOKS == 0)
			pay(w, &before);
	}
	pay(w, &before);
	/* Not in step with what the program does every so often. */
	return period / 2 + ppa_random_below(period);
}

struct ppa_wall *ppa_wall_begin(int hz, bool label_tid)
{
	struct ppa_wall *w = ppa_vheap_calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	atomic_fetch_add_explicit(&active, 1, memory_order_relaxed);
	w->hz = hz;
	w->label_tid = label_tid;
	w->walk = ppa_vheap_malloc(sizeof(*w->walk));
	if (ppa_look_open(&w->files) || !w->walk) {
		ppa_wall_free(w);
		return NULL;
	}
	w->begin_utc_ns = (int64_t)ppa_sys_clock_ns(CLOCK_REALTIME);
	w->begin_ns = w->credit_at_ns = now_ns();
	begin_round(w);
	for (size_t i = 0; i < w->cap; i++)
		w->threads[i].looked_ns = w->begin_ns;
	w->credit_ns = CREDIT_MAX_NS;
	return w;
}

void ppa_wall_end(struct ppa_wall *w)
{
	w->end_ns = now_ns();
	/* Every thread once more, whatever it costs: what was charged last goes on to the end. */
	for (size_t i = 0; i < w->cap; i++)
		if (w->threads[i].tid && w->threads[i].round == w->round)
			look(w, &w->threads[i]);
}

void ppa_wall_free(struct ppa_wall *w)
{
	if (!w)
		return;
	ppa_look_close(&w->files);
	atomic_fetch_sub_explicit(&active, 1, memory_order_relaxed);
	ppa_stacktab_free(&w->stacks);
	ppa_vheap_free(w->threads);
	ppa_vheap_free(w->walk);
	ppa_vheap_free(w);
}

void ppa_wall_reset(void)
{
	atomic_store_explicit(&active, 0, memory_order_relaxed);
}
