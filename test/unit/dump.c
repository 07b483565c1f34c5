// link: agent/dump/dump.c agent/base/sys.c agent/thread/renamed.c test/fakes/vheap.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: a dump meets each thread once, those that ran the last time before all others, and has them in the kernel's
 * order; who ends meanwhile leaves no gap; those that are there are shown while the others are awaited, and again in the
 * whole; names are believed until somebody named another. How one is read is told elsewhere: here threads are numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/crew.h"
#include "agent/base/sampling_signal.h"
#include "agent/base/thread.h"
#include "agent/cpu/cpu.h"
#include "agent/dump/dump.h"
#include "agent/dump/look.h"
#include "agent/dump/reader.h"
#include "agent/thread/ask.h"
#include "agent/thread/renamed.h"
#include "agent/thread/tasks.h"
#include "test/fakes/vheap.h"

enum { THREADS = 300, FIRST_TID = 1000, RUNNERS_FIRST = 64 };

static struct {
	bool runs[THREADS], is_gone[THREADS], keeps_names;
	int nunanswered; /* so often nobody has answered yet */
	int met[THREADS];
	int order[2 * THREADS];
	int nmet;
} world;

static int number(pid_t tid)
{
	assert_in_range(tid, FIRST_TID, FIRST_TID + THREADS - 1);
	return tid - FIRST_TID;
}

/* ---- in place of the agent's ---- */

int ppa_tid_list_add(struct ppa_tid_list *l, pid_t tid)
{
	l->tids[l->n++] = tid;
	return 0;
}

void ppa_tid_list_free(struct ppa_tid_list *l)
{
	free(l->tids);
}

int ppa_tasks_open(void)
{
	return -1;
}

int ppa_tasks_read(int dir, struct ppa_tid_list *out)
{
	(void)dir;
	out->tids = calloc(THREADS, sizeof(*out->tids));
	assert_non_null(out->tids);
	for (int i = 0; i < THREADS; i++)
		ppa_tid_list_add(out, FIRST_TID + i);
	return 0;
}

int ppa_tid_map_make(struct ppa_tid_map *m, void (*add)(struct ppa_thread *t, void *map))
{
	(void)m;
	(void)add;
	return 0;
}

void ppa_tid_map_free(struct ppa_tid_map *m)
{
	(void)m;
}

struct ppa_thread **ppa_tid_map_at(const struct ppa_tid_map *m, pid_t tid)
{
	static struct ppa_thread *none;

	(void)m;
	(void)tid;
	return &none;
}

void ppa_threads_each(void (*visit)(struct ppa_thread *t, void *arg), void *arg)
{
	(void)visit;
	(void)arg;
	fail();
}

bool ppa_thread_owns(pid_t tid)
{
	(void)tid;
	return false;
}

uint64_t ppa_crew_run(const struct ppa_crew_job *job, unsigned want)
{
	assert_in_range(want, 0, PPA_CREW_MAX - 1);
	for (size_t i = 0; i < job->nitems; i++)
		job->work(job->arg, (unsigned)(i % (want + 1)), i);
	return 0;
}

void ppa_crew_reset(void)
{
}

int ppa_look_open(struct ppa_look_files *f)
{
	memset(f, 0, sizeof(*f));
	return 0;
}

void ppa_look_close(struct ppa_look_files *f)
{
	(void)f;
}

int ppa_signal_install(void (*fn)(int, siginfo_t *, void *))
{
	(void)fn;
	return 0;
}

void ppa_cpu_handler(int sig, siginfo_t *si, void *ucontext)
{
	(void)sig;
	(void)si;
	(void)ucontext;
}

int ppa_ask_open(void)
{
	return 0;
}

const struct ppa_unwind_buf *ppa_ask_get(int question)
{
	static struct ppa_unwind_buf walk = {.npcs = 1};

	assert_in_range(question, 0, THREADS - 1);
	if (world.nunanswered) {
		world.nunanswered--;
		return NULL;
	}
	return &walk;
}

void ppa_ask_close(void)
{
}

void ppa_ask_reset(void)
{
}

struct ppa_dump_reader *ppa_dump_reader_new(const struct ppa_dump_setup *setup, uint8_t hand, size_t npcs)
{
	struct ppa_dump_reader *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->setup = *setup;
	r->number = hand;
	r->pcs = calloc(npcs + THREADS, sizeof(*r->pcs));
	assert_non_null(r->pcs);
	return r;
}

void ppa_dump_reader_free(struct ppa_dump_reader *r)
{
	if (r)
		free(r->pcs);
	free(r);
}

void ppa_dump_put_walk(struct ppa_dump_reader *r, struct ppa_dump_thread *t, const struct ppa_unwind_buf *w)
{
	t->reader = r->number;
	t->first_pc = r->npcs;
	t->npcs = w->npcs;
	t->is_gathered = false;
	r->pcs[r->npcs++] = (uintptr_t)t->tid;
}

void ppa_dump_read(struct ppa_dump_reader *r, pid_t tid, size_t place, struct ppa_thread *slot,
		   struct ppa_dump_thread *t)
{
	static const struct ppa_unwind_buf walk = {.npcs = 1};
	int i = number(tid);

	assert_null(slot);
	assert_int_equal(place, i);
	world.keeps_names = r->setup.keeps_names;
	world.met[i]++;
	world.order[world.nmet++] = i;
	if (world.is_gone[i])
		return;
	t->tid = tid;
	t->is_asleep = !world.runs[i];
	t->question = world.runs[i] ? i : -1;
	if (!world.runs[i])
		ppa_dump_put_walk(r, t, &walk);
}

enum ppa_look_kind ppa_dump_read_again(struct ppa_dump_reader *r, struct ppa_dump_thread *t)
{
	(void)r;
	(void)t;
	fail();
	return PPA_LOOK_GONE;
}

/* ---- the promise ---- */

static void take(struct ppa_dump *d)
{
	memset(world.met, 0, sizeof(world.met));
	world.nmet = 0;
	assert_int_equal(ppa_dump_take(NULL, d), 0);
	for (int i = 0, k = 0; i < THREADS; i++) {
		assert_int_equal(world.met[i], 1);
		if (world.is_gone[i])
			continue;
		assert_int_equal(d->threads[k].tid, FIRST_TID + i);
		assert_int_equal(d->threads[k].npcs, 1);
		assert_int_equal(d->pcs[d->threads[k].first_pc], FIRST_TID + i);
		k++;
		assert_true(i < THREADS - 1 || (size_t)k == d->nthreads);
	}
}

static void take_and_drop(void)
{
	struct ppa_dump d;

	take(&d);
	ppa_dump_free(&d);
}

static void each_is_met_once_runners_first(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	world.runs[7] = world.runs[250] = true;
	take_and_drop();
	assert_int_equal(world.order[0], 0); /* nothing is known yet */
	world.runs[250] = false;
	world.runs[90] = true;
	take_and_drop();
	assert_int_equal(world.order[0], 7);
	assert_int_equal(world.order[1], 250);
	take_and_drop();
	assert_int_equal(world.order[0], 7);
	assert_int_equal(world.order[1], 90);
	assert_int_equal(world.order[2], 0);
	ppa_dump_trim();
	take_and_drop();
	assert_int_equal(world.order[0], 0);
	ppa_dump_trim();
	assert_int_equal(fake_vheap_live, 0);
}

static void not_all_can_be_first(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	for (int i = 100; i < 100 + 2 * RUNNERS_FIRST; i++)
		world.runs[i] = true;
	take_and_drop();
	take_and_drop();
	for (int i = 0; i < RUNNERS_FIRST; i++)
		assert_int_equal(world.order[i], 100 + i);
	assert_int_equal(world.order[RUNNERS_FIRST], 0);
	ppa_dump_trim();
	assert_int_equal(fake_vheap_live, 0);
}

static void the_ended_leave_no_gap(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	world.runs[0] = world.runs[5] = true;
	take_and_drop();
	world.is_gone[0] = world.is_gone[150] = true;
	memset(world.met, 0, sizeof(world.met));
	for (int i = 0; i < 2; i++) {
		struct ppa_dump d;

		world.nmet = 0;
		assert_int_equal(ppa_dump_take(NULL, &d), 0);
		assert_int_equal(d.nthreads, THREADS - 2);
		assert_int_equal(d.threads[0].tid, FIRST_TID + 1);
		assert_int_equal(d.threads[d.nthreads - 1].tid, FIRST_TID + THREADS - 1);
		ppa_dump_free(&d);
	}
	ppa_dump_trim();
	assert_int_equal(fake_vheap_live, 0);
}

/* So far: all but those that run, in their places. */
static void look_meanwhile(void *shown, const struct ppa_dump *so_far)
{
	++*(int *)shown;
	assert_int_equal(so_far->nthreads, THREADS);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(so_far->threads[i].tid, FIRST_TID + i);
		assert_int_equal(so_far->threads[i].npcs, !world.runs[i]);
		if (so_far->threads[i].npcs)
			assert_int_equal(so_far->pcs[so_far->threads[i].first_pc], FIRST_TID + i);
	}
}

static void sleepers_are_shown_while_runners_are_awaited(void **state)
{
	int shown = 0;
	struct ppa_dump_wish wish = {.meanwhile = look_meanwhile, .arg = &shown};
	struct ppa_dump d;

	(void)state;
	memset(&world, 0, sizeof(world));
	world.runs[0] = world.runs[120] = world.runs[THREADS - 1] = true;
	for (int answers_at_once = 0; answers_at_once < 2; answers_at_once++) {
		world.nunanswered = answers_at_once ? 0 : 3;
		assert_int_equal(ppa_dump_take(&wish, &d), 0);
		assert_int_equal(shown, 1); /* and not where there was nothing to wait for */
		for (int i = 0; i < THREADS; i++) {
			assert_int_equal(d.threads[i].npcs, 1);
			assert_int_equal(d.pcs[d.threads[i].first_pc], FIRST_TID + i);
		}
		assert_int_equal(d.npcs, THREADS);
		ppa_dump_free(&d);
	}
	ppa_dump_trim();
	assert_int_equal(fake_vheap_live, 0);
}

static void names_hold_until_another_is_named(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	take_and_drop();
	assert_false(world.keeps_names);
	take_and_drop();
	assert_true(world.keeps_names);
	ppa_renamed_note();
	take_and_drop();
	assert_false(world.keeps_names);
	take_and_drop();
	assert_true(world.keeps_names);
	ppa_dump_trim();
	take_and_drop();
	assert_false(world.keeps_names);
	ppa_dump_trim();
	assert_int_equal(fake_vheap_live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_met_once_runners_first),
		cmocka_unit_test(not_all_can_be_first),
		cmocka_unit_test(the_ended_leave_no_gap),
		cmocka_unit_test(sleepers_are_shown_while_runners_are_awaited),
		cmocka_unit_test(names_hold_until_another_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
