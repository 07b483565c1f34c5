// link: agent/cpu/session.c agent/cpu/session_settle.c agent/cpu/stacktab.c agent/profile/labels.c agent/profile/marker.c agent/profile/random.c agent/base/vheap.c agent/base/sys.c agent/base/stats.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: a session counts its own period's worth of every thread's CPU time, no more and no less, within its own
 * window; what no sample covered is charged where it belongs, and totals are the clocks'. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "agent/base/sys.h"
#include "agent/base/thread.h"
#include "agent/base/vheap.h"
#include "agent/profile/marker.h"
#include "agent/profile/random.h"
#include "agent/cpu/session.h"
#include "agent/thread/threads.h"
#include "unwind/module/modules.h"

enum { MS = 1000 * 1000 };

/* -- the rest of the agent, as far as a session sees it -- */

static const struct ppa_module_table table = {.layout = 1};

const struct ppa_module_table *ppa_modules_hold(void)
{
	return &table;
}

void ppa_modules_release(const struct ppa_module_table *t)
{
	(void)t;
}

uint64_t ppa_thread_cpu_ns(void)
{
	return ppa_sys_clock_ns(CLOCK_PROCESS_CPUTIME_ID); /* the test's own CPU time is nobody's sample */
}

uint32_t ppa_threads_index(const struct ppa_thread *t)
{
	(void)t;
	return 0;
}

void ppa_threads_each(void (*visit)(struct ppa_thread *t, void *arg), void *arg)
{
	(void)visit;
	(void)arg;
}

/* -- helpers -- */

static uint64_t now_ns(void)
{
	return ppa_sys_clock_ns(CLOCK_MONOTONIC);
}

static struct ppa_record record(enum ppa_record_kind kind, uint64_t thread, uint64_t weight_ns, uintptr_t start)
{
	struct ppa_record r = {.time_ns = now_ns(),
			       .weight_ns = weight_ns,
			       .thread_key = thread,
			       .start_routine = start,
			       .tid = (uint32_t)thread,
			       .kind = (uint16_t)kind,
			       .npcs = 1};

	strcpy(r.thread_name, "t");
	return r;
}

static void give(struct ppa_session *s, uint64_t thread, uint64_t weight_ns, uintptr_t pc)
{
	struct ppa_record r = record(PPA_RECORD_SAMPLE, thread, weight_ns, 0);

	ppa_session_take(s, &r, &pc);
}

struct sum {
	uintptr_t leaf; /* 0: any */
	int64_t count;
};

static void add(const struct ppa_stack *st, void *arg)
{
	struct sum *sum = arg;

	if (!sum->leaf || st->pcs[0] == sum->leaf)
		sum->count += st->count;
}

static int64_t count(const struct ppa_session *s, uintptr_t leaf)
{
	struct sum sum = {leaf, 0};

	ppa_stacktab_each(&s->stacks, add, &sum);
	return sum.count;
}

/* -- promises -- */

static void equal_periods_pass_one_to_one(void **state)
{
	struct ppa_session *s = ppa_session_begin(100, false);

	(void)state;
	for (int i = 0; i < 1000; i++)
		give(s, 7, 10 * MS, 0x1000 + (uintptr_t)(i % 3));
	assert_int_equal(count(s, 0), 1000);
	assert_int_equal(count(s, 0x1000), 334);
	ppa_session_free(s);
}

static void a_slower_session_thins_the_common_stream(void **state)
{
	struct ppa_session *s = ppa_session_begin(100, false);

	(void)state;
	for (int i = 0; i < 10000; i++)
		give(s, 7, 1 * MS, 0x1000);
	assert_in_range(count(s, 0), 1000, 1001);
	ppa_session_free(s);
}

static void overrun_weighs_as_many_samples(void **state)
{
	struct ppa_session *s = ppa_session_begin(1000, false);

	(void)state;
	for (int i = 0; i < 250; i++)
		give(s, 7, 4 * MS, 0x1000);
	assert_int_equal(count(s, 0), 1000);
	ppa_session_free(s);
}

/* 20,000 threads with one 1 ms sample each, thinned to 10 ms: 2,000 expected, binomial sigma 42; five sigma. */
static void short_threads_are_thinned_without_bias(void **state)
{
	struct ppa_session *s = ppa_session_begin(100, false);

	(void)state;
	ppa_random_seed();
	for (uint64_t t = 0; t < 20000; t++)
		give(s, t, 1 * MS, 0x1000);
	assert_in_range(count(s, 0), 2000 - 5 * 42, 2000 + 5 * 42);
	ppa_session_free(s);
}

static void only_the_window_counts(void **state)
{
	struct ppa_record early = record(PPA_RECORD_SAMPLE, 7, 10 * MS, 0), late;
	struct ppa_session *s = ppa_session_begin(100, false);
	uintptr_t pc = 0x1000;

	(void)state;
	ppa_session_take(s, &early, &pc);
	assert_int_equal(count(s, 0), 0);
	give(s, 7, 10 * MS, pc);
	s->end_ns = now_ns();
	late = record(PPA_RECORD_SAMPLE, 7, 10 * MS, 0);
	ppa_session_take(s, &late, &pc);
	assert_int_equal(count(s, 0), 1);
	ppa_session_free(s);
}

/* 1,000 threads of 2 ms: one in five was hit by a sample of 10 ms at random. The total is exact all the same. */
static void ended_threads_are_settled_to_the_clock(void **state)
{
	struct ppa_session *s = ppa_session_begin(100, false);
	uintptr_t exit_leaf = ppa_marker_address(PPA_MARKER_EXIT);

	(void)state;
	for (uint64_t t = 0; t < 1000; t++) {
		struct ppa_record end = record(PPA_RECORD_EXIT, t, 2 * MS, 0x5000);

		if (t % 10 == 0)
			give(s, t, 10 * MS, 0x1000);
		ppa_session_take(s, &end, NULL);
	}
	s->end_ns = now_ns();
	ppa_session_settle(s);
	assert_int_equal(count(s, 0x1000), 100);
	assert_int_equal(count(s, exit_leaf), 100);
	ppa_session_free(s);
}

static void blocked_time_has_its_own_frame(void **state)
{
	struct ppa_session *s = ppa_session_begin(100, false);
	struct ppa_record r = record(PPA_RECORD_BLOCKED, 7, 1000 * MS, 0);

	(void)state;
	ppa_session_take(s, &r, NULL);
	assert_int_equal(count(s, ppa_marker_address(PPA_MARKER_BLOCKED)), 100);
	ppa_session_free(s);
}

static void threads_in_one_slot_are_told_apart_by_generation(void **state)
{
	struct ppa_session *s = ppa_session_begin(100, true);

	(void)state;
	give(s, ppa_threads_key(3, 0), 10 * MS, 0x1000);
	give(s, ppa_threads_key(3, 1), 10 * MS, 0x1000);
	assert_int_equal(s->nthreads, 2);
	ppa_session_free(s);
}

static void new_stacks_fold_when_the_table_is_full(void **state)
{
	static uintptr_t pcs[PPA_UNWIND_MAX_FRAMES];
	struct ppa_stacktab t = {0};
	struct sum all = {0, 0}, other = {ppa_marker_address(PPA_MARKER_OTHER), 0};
	struct ppa_stack_key k = {.pcs = pcs, .npcs = PPA_UNWIND_MAX_FRAMES};
	int offered = 0;

	(void)state;
	for (; offered < 20000; offered++) {
		pcs[0] = 0x10000 + (uintptr_t)offered;
		ppa_stacktab_add(&t, &k, 1);
	}
	pcs[0] = 0x10000;
	ppa_stacktab_add(&t, &k, 1); /* known: goes on counting */
	ppa_stacktab_each(&t, add, &all);
	ppa_stacktab_each(&t, add, &other);
	assert_true(t.bytes <= PPA_STACKTAB_MAX_BYTES);
	assert_int_equal(all.count, offered + 1);
	assert_in_range(other.count, 1, offered - 1);
	ppa_stacktab_free(&t);
	ppa_vheap_trim();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_periods_pass_one_to_one),
		cmocka_unit_test(a_slower_session_thins_the_common_stream),
		cmocka_unit_test(overrun_weighs_as_many_samples),
		cmocka_unit_test(short_threads_are_thinned_without_bias),
		cmocka_unit_test(only_the_window_counts),
		cmocka_unit_test(ended_threads_are_settled_to_the_clock),
		cmocka_unit_test(blocked_time_has_its_own_frame),
		cmocka_unit_test(threads_in_one_slot_are_told_apart_by_generation),
		cmocka_unit_test(new_stacks_fold_when_the_table_is_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
