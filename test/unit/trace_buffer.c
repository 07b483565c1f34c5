/* SPDX-License-Identifier: Apache-2.0 */
// link: agent/trace/buffer.c test/fakes/traceslots.c
/* Promise: what a thread wrote is read back whole and in order, whoever interrupts it, and however often the recording
 * ends and begins anew; what found no room is counted; chunks come back when their time is over, and never one that a
 * thread still writes in. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <cmocka.h>

#include "agent/base/self.h"
#include "agent/base/sys.h"
#include "agent/thread/threads.h"
#include "agent/trace/buffer.h"

enum { ARENA = 1 << 20, WORDS = 4 };

static struct ppa_thread slots[3]; /* of the tests that use them */

static void put(struct ppa_trace_track *t, uint64_t at, uint64_t number)
{
	uint64_t words[WORDS] = {at, number, ~number, number * 3};
	struct ppa_trace_head head = {.nwords = 1 + WORDS, .kind = PPA_ENTRY_WAIT};

	ppa_trace_put(t, head, words);
}

struct seen {
	uint64_t n, last, tracks;
	bool is_ordered;
};

static void see(const struct ppa_trace_head *head, const uint64_t *words, void *arg)
{
	struct seen *s = arg;

	assert_int_equal(head->kind, PPA_ENTRY_WAIT);
	assert_int_equal(head->nwords, 1 + WORDS);
	assert_true(words[2] == ~words[1] && words[3] == words[1] * 3);
	s->is_ordered &= !s->n || words[1] > s->last;
	s->last = words[1];
	s->n++;
}

static void see_track(struct ppa_trace_track *t, void *arg)
{
	struct seen *s = arg;

	s->tracks++;
	s->last = 0;
	ppa_trace_each_record(t, see, arg);
}

static struct seen read_all(void)
{
	struct seen s = {.is_ordered = true};

	ppa_trace_each_track(see_track, &s);
	return s;
}

static bool nobody_lives(pid_t tid)
{
	(void)tid;
	return false;
}

static bool all_live(pid_t tid)
{
	(void)tid;
	return true;
}

static void what_is_written_is_read(void **state)
{
	(void)state;
	for (int round = 0; round < 3; round++) {
		struct seen s;

		assert_int_equal(ppa_trace_buffer_open(ARENA), 0);
		for (uint64_t i = 1; i <= 5000; i++)
			put(ppa_trace_track_mine(), i, i);
		s = read_all();
		assert_int_equal(s.tracks, 1);
		assert_int_equal(s.n, 5000);
		assert_true(s.is_ordered);
		ppa_trace_buffer_close();
		assert_int_equal(read_all().tracks, 0);
	}
}

static long faults(void)
{
	struct rusage u;

	assert_int_equal(getrusage(RUSAGE_THREAD, &u), 0);
	return u.ru_minflt;
}

/* The recorder looks in every so often; and again in the next recording, whose memory is the same. */
static void who_records_need_not_wait_for_memory(void **state)
{
	enum { EACH = 2000, STEPS = 5, FEW = 8 }; /* 20 pages a step */
	struct ppa_trace_track *t;

	(void)state;
	for (int round = 0; round < 2; round++) {
		assert_int_equal(ppa_trace_buffer_open(ARENA), 0);
		t = ppa_trace_track_mine();
		put(t, 1, 1);
		for (uint64_t step = 0, i = 2; step < STEPS; step++) {
			long before = faults();

			for (uint64_t end = i + EACH; i < end; i++)
				put(t, i, i);
			assert_in_range(faults() - before, 0, FEW);
			ppa_trace_buffer_touch();
		}
		assert_int_equal(read_all().n, 1 + EACH * STEPS);
		ppa_trace_buffer_close();
	}
}

static void full_is_counted(void **state)
{
	enum { TRIED = 100000 };
	struct ppa_trace_track *t;
	struct seen s;

	(void)state;
	assert_int_equal(ppa_trace_buffer_open(ARENA), 0);
	t = ppa_trace_track_mine();
	for (uint64_t i = 1; i <= TRIED; i++)
		put(t, i, i);
	s = read_all();
	assert_true(s.n > ARENA / 8 / (1 + WORDS) * 9 / 10);
	assert_int_equal(s.n + t->lost, TRIED);
	ppa_trace_buffer_close();
}

static void old_chunks_come_back(void **state)
{
	struct ppa_trace_track *t;
	uint64_t number = 0, now;
	struct seen s;

	(void)state;
	assert_int_equal(ppa_trace_buffer_open(ARENA), 0);
	t = ppa_trace_track_mine();
	now = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	/* Ten times what fits, taken back on the way. */
	for (int i = 0; i < 100; i++) {
		for (int k = 0; k < 2500; k++, number++)
			put(t, now + number, number + 1);
		ppa_trace_recycle(now + number - 2500, all_live);
	}
	assert_int_equal(t->lost, 0);
	s = read_all();
	assert_true(s.is_ordered && s.last == number);
	assert_in_range(s.n, 2500, 6000);
	/* With its thread, the whole track. */
	ppa_trace_recycle(UINT64_MAX, nobody_lives);
	assert_int_equal(read_all().tracks, 0);
	ppa_trace_buffer_close();
}

/* ---- interrupted ---- */

static volatile uint64_t from_handler;

static void handler(int sig)
{
	struct ppa_trace_track *t = ppa_trace_track_mine();

	(void)sig;
	if (t) /* the recording has begun */
		put(t, 1, ((uint64_t)1 << 40) + ++from_handler);
}

static void see_any(const struct ppa_trace_head *head, const uint64_t *words, void *arg)
{
	assert_int_equal(head->nwords, 1 + WORDS);
	assert_true(words[2] == ~words[1] && words[3] == words[1] * 3);
	++*(uint64_t *)arg;
}

static void see_any_track(struct ppa_trace_track *t, void *arg)
{
	ppa_trace_each_record(t, see_any, arg);
}

static void handlers_may_record(void **state)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
	struct ppa_trace_track *t;
	uint64_t own = 0, n = 0, lost = 0;

	(void)state;
	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	/* Closed and opened again under it: but not while a record is written, as the same thread does both. */
	assert_int_equal(ppa_trace_buffer_open(8 << 20), 0);
	while (from_handler < 500 && own < 100000)
		put(ppa_trace_track_mine(), 1, ++own);
	setitimer(ITIMER_REAL, &never, NULL);
	t = ppa_trace_track_mine();
	lost = t->lost + ppa_trace_lost();
	ppa_trace_each_track(see_any_track, &n);
	assert_true(from_handler > 0);
	assert_int_equal(n + lost, own + from_handler);
	ppa_trace_buffer_close();
}

/* ---- while others write ---- */

static _Atomic bool is_over;
static _Atomic uint64_t written;

static void *write_always(void *slot)
{
	ppa_self.slot = slot;
	for (uint64_t i = 1; !is_over; i++) {
		struct ppa_trace_track *t = ppa_trace_track_mine();

		if (t)
			put(t, ppa_sys_clock_ns(CLOCK_MONOTONIC), i);
		written++;
	}
	return slot;
}

static void writers_survive_ends_and_reads(void **state)
{
	enum { THREADS = 2, ENDS = 20 };
	pthread_t threads[THREADS];

	(void)state;
	assert_int_equal(ppa_trace_buffer_open(ARENA), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, write_always, ppa_self.slot ? &slots[1 + i] : NULL);
	for (int i = 0; i < ENDS; i++) {
		for (int k = 0; k < 5; k++) {
			uint64_t n = 0, was = written;

			ppa_trace_recycle(ppa_sys_clock_ns(CLOCK_MONOTONIC) - 1000000, all_live);
			ppa_trace_each_track(see_any_track, &n);
			while (written < was + 10)
				sched_yield();
		}
		ppa_trace_buffer_close();
		assert_int_equal(ppa_trace_buffer_open(ARENA), 0);
	}
	is_over = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ppa_trace_buffer_close();
}

/* ---- threads with a slot, which announce themselves there ---- */

static int with_slot(void **state)
{
	(void)state;
	ppa_self.slot = &slots[0];
	is_over = false;
	from_handler = 0;
	return 0;
}

static int without_slot(void **state)
{
	(void)state;
	assert_int_equal(slots[0].recording, 0);
	ppa_self.slot = NULL;
	return 0;
}

static void chunks_are_left_to_who_writes(void **state)
{
	uint64_t long_ago = ppa_sys_clock_ns(CLOCK_MONOTONIC) - 1000000000, n = 0;
	struct ppa_trace_track *t;

	(void)state;
	assert_int_equal(ppa_trace_buffer_open(ARENA), 0);
	t = ppa_trace_track_mine();
	for (uint64_t i = 1; i <= 2500; i++)
		put(t, long_ago, i);
	slots[0].recording = 1;
	ppa_trace_recycle(UINT64_MAX, all_live);
	ppa_trace_each_track(see_any_track, &n);
	assert_int_equal(n, 2500);
	slots[0].recording = 0;
	ppa_trace_recycle(UINT64_MAX, all_live);
	n = 0;
	ppa_trace_each_track(see_any_track, &n);
	assert_true(n < 500);
	ppa_trace_buffer_close();
}

/* Its slot has another owner by now, who is at a record: no chunk is lost by that. */
static void chunks_of_the_dead_come_back(void **state)
{
	uint64_t long_ago = ppa_sys_clock_ns(CLOCK_MONOTONIC) - 1000000000, n = 0;
	struct ppa_trace_track *t;

	(void)state;
	assert_int_equal(ppa_trace_buffer_open(ARENA), 0);
	t = ppa_trace_track_mine();
	for (uint64_t i = 1; i <= 10000; i++)
		put(t, long_ago, i);
	slots[0].recording = 1;
	ppa_trace_recycle(UINT64_MAX, nobody_lives);
	slots[0].recording = 0;
	assert_int_equal(read_all().tracks, 0);
	t = ppa_trace_track_mine();
	for (uint64_t i = 1; i <= 100000; i++)
		put(t, long_ago, i);
	ppa_trace_each_track(see_any_track, &n);
	assert_true(n > ARENA / 8 / (1 + WORDS) * 9 / 10);
	ppa_trace_buffer_close();
}

/* Nor by a thread that is at some record or other whenever it is looked at. */
static void chunks_just_left_are_not_taken(void **state)
{
	uint64_t now = ppa_sys_clock_ns(CLOCK_MONOTONIC) + 1000000000, n = 0;
	struct ppa_trace_track *t;

	(void)state;
	assert_int_equal(ppa_trace_buffer_open(ARENA), 0);
	t = ppa_trace_track_mine();
	for (uint64_t i = 1; i <= 2500; i++)
		put(t, now, i);
	ppa_trace_recycle(UINT64_MAX, all_live);
	ppa_trace_each_track(see_any_track, &n);
	assert_int_equal(n, 2500);
	ppa_trace_buffer_close();
}

/* Nothing is given back under the feet of who writes; the next recording is elsewhere. */
static void an_end_leaves_the_arena_to_who_writes(void **state)
{
	uint64_t n = 0;

	(void)state;
	assert_int_equal(ppa_trace_buffer_open(ARENA), 0);
	put(ppa_trace_track_mine(), 1, 1);
	slots[0].recording = 1;
	ppa_trace_buffer_close();
	slots[0].recording = 0;
	assert_int_equal(ppa_trace_buffer_open(ARENA), 0);
	put(ppa_trace_track_mine(), 1, 1);
	ppa_trace_each_track(see_any_track, &n);
	assert_int_equal(n, 1);
	ppa_trace_buffer_close();
}

/* A handler that jumped out of a record has left the mark of its frame, which is further down than any later one. */
static void a_jump_leaves_no_mark(void **state)
{
	char further_up;

	(void)state;
	assert_int_equal(ppa_trace_buffer_open(ARENA), 0);
	slots[0].recording = (uintptr_t)&further_up - 65536;
	put(ppa_trace_track_mine(), 1, 1);
	assert_int_equal(slots[0].recording, 0);
	/* One further up is that of a record we have interrupted. */
	slots[0].recording = (uintptr_t)&further_up + 65536;
	put(ppa_trace_track_mine(), 1, 2);
	assert_int_equal(slots[0].recording, (uintptr_t)&further_up + 65536);
	slots[0].recording = 0;
	ppa_trace_buffer_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(full_is_counted),
		cmocka_unit_test(who_records_need_not_wait_for_memory),
		cmocka_unit_test(old_chunks_come_back),
		cmocka_unit_test(handlers_may_record),
		cmocka_unit_test(writers_survive_ends_and_reads),
		cmocka_unit_test_setup_teardown(what_is_written_is_read, with_slot, without_slot),
		cmocka_unit_test_setup_teardown(full_is_counted, with_slot, without_slot),
		cmocka_unit_test_setup_teardown(handlers_may_record, with_slot, without_slot),
		cmocka_unit_test_setup_teardown(writers_survive_ends_and_reads, with_slot, without_slot),
		cmocka_unit_test_setup_teardown(chunks_are_left_to_who_writes, with_slot, without_slot),
		cmocka_unit_test_setup_teardown(chunks_of_the_dead_come_back, with_slot, without_slot),
		cmocka_unit_test_setup_teardown(chunks_just_left_are_not_taken, with_slot, without_slot),
		cmocka_unit_test_setup_teardown(an_end_leaves_the_arena_to_who_writes, with_slot, without_slot),
		cmocka_unit_test_setup_teardown(a_jump_leaves_no_mark, with_slot, without_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
