/* SPDX-License-Identifier: Apache-2.0 */
// link: agent/snapshot/trace_wakers.c
/* Promise: each wait is given to whoever ended it, by object and time; what is missing costs its own waits at most, and a
 * signal is not used up twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent/snapshot/trace_wakers.h"

enum { MUTEX = 0x1000, CONDITION = 0x2000, BARRIER = 0x3000, THREAD = 0x4000, OTHER = 0x5000 };

struct found {
	uint64_t at_ns;
	uint32_t tid, stack;
};

static void set_found(void *record, uint64_t at_ns, uint32_t tid, uint32_t stack)
{
	struct found *f = record;

	assert_int_equal(f->tid, 0); /* once */
	*f = (struct found){at_ns, tid, stack};
}

static struct ppa_trace_want want(enum ppa_trace_match how, uintptr_t object, uint64_t begin, uint64_t end,
				  uint32_t tid, struct found *f)
{
	*f = (struct found){0, 0, 0};
	return (struct ppa_trace_want){.object = object,
				       .begin_ns = begin,
				       .end_ns = end,
				       .tid = tid,
				       .stack = tid + 500,
				       .how = how,
				       .record = f};
}

static struct ppa_trace_wake wake(uintptr_t object, uint64_t at, uint32_t tid, bool is_all)
{
	return (struct ppa_trace_wake){.object = object, .at_ns = at, .tid = tid, .stack = tid + 100, .is_all = is_all};
}

static void the_last_release_counts(void **state)
{
	struct found f[4];
	/* Out of order, as threads come one after the other. */
	struct ppa_trace_wake wakes[] = {wake(OTHER, 29, 9, false), wake(MUTEX, 30, 3, false),
					 wake(MUTEX, 10, 1, false), wake(MUTEX, 20, 2, false)};
	struct ppa_trace_want wants[] = {
		want(PPA_MATCH_LAST, MUTEX, 5, 31, 7, &f[0]),
		want(PPA_MATCH_LAST, MUTEX, 5, 25, 8, &f[1]),
		want(PPA_MATCH_LAST, MUTEX, 21, 29, 9, &f[2]), /* its release was lost */
		want(PPA_MATCH_LAST, THREAD, 1, 99, 9, &f[3]),
	};

	(void)state;
	ppa_trace_match(wakes, 4, wants, 4, set_found);
	assert_int_equal(f[0].tid, 3);
	assert_int_equal(f[0].stack, 103);
	assert_int_equal(f[0].at_ns, 30);
	assert_int_equal(f[1].tid, 2);
	assert_int_equal(f[2].tid, 0);
	assert_int_equal(f[3].tid, 0);
}

static void signals_wake_one_each(void **state)
{
	struct found f[5];
	struct ppa_trace_wake wakes[] = {wake(CONDITION, 40, 4, true), wake(CONDITION, 11, 2, false),
					 wake(CONDITION, 10, 1, false), wake(CONDITION, 3, 9, false)};
	struct ppa_trace_want wants[] = {
		want(PPA_MATCH_QUEUE, CONDITION, 5, 13, 21, &f[0]),
		want(PPA_MATCH_QUEUE, CONDITION, 4, 12, 22, &f[1]),
		want(PPA_MATCH_QUEUE, CONDITION, 6, 14, 23, &f[2]), /* spurious: both are used up */
		want(PPA_MATCH_QUEUE, CONDITION, 35, 41, 24, &f[3]),
		want(PPA_MATCH_QUEUE, CONDITION, 36, 42, 25, &f[4]),
	};

	(void)state;
	ppa_trace_match(wakes, 4, wants, 5, set_found);
	assert_int_equal(f[1].tid, 1); /* the first to go */
	assert_int_equal(f[0].tid, 2);
	assert_int_equal(f[2].tid, 0);
	assert_int_equal(f[3].tid, 4);
	assert_int_equal(f[4].tid, 4); /* a broadcast */
}

static void the_last_to_come_opens_a_barrier(void **state)
{
	struct found f[6];
	struct ppa_trace_want wants[] = {
		/* Round one: 3 comes last; 1 goes late, when 2 has come again already. */
		want(PPA_MATCH_BARRIER, BARRIER, 10, 33, 1, &f[0]),
		want(PPA_MATCH_BARRIER, BARRIER, 12, 21, 2, &f[1]),
		want(PPA_MATCH_BARRIER, BARRIER, 20, 21, 3, &f[2]),
		/* Round two: 1 comes last. */
		want(PPA_MATCH_BARRIER, BARRIER, 25, 41, 2, &f[3]),
		want(PPA_MATCH_BARRIER, BARRIER, 30, 41, 3, &f[4]),
		want(PPA_MATCH_BARRIER, BARRIER, 40, 41, 1, &f[5]),
	};

	(void)state;
	ppa_trace_match(NULL, 0, wants, 6, set_found);
	assert_int_equal(f[0].tid, 3);
	assert_int_equal(f[1].tid, 3);
	assert_int_equal(f[2].tid, 0);
	assert_int_equal(f[3].tid, 1);
	assert_int_equal(f[3].stack, 501);
	assert_int_equal(f[4].tid, 1);
	assert_int_equal(f[5].tid, 0);
}

static void threads_end_joins(void **state)
{
	struct found f[2];
	struct ppa_trace_wake wakes[] = {wake(THREAD, 500000000, 5, true), wake(THREAD, 10, 4, true)};
	struct ppa_trace_want wants[] = {
		want(PPA_MATCH_JOIN, THREAD, 500000020, 500000030, 1, &f[0]), /* it had said so just before */
		want(PPA_MATCH_JOIN, THREAD, 400000000, 400000030, 1, &f[1]), /* another thread's, long ago */
	};

	(void)state;
	ppa_trace_match(wakes, 2, wants, 2, set_found);
	assert_int_equal(f[0].tid, 5);
	assert_int_equal(f[1].tid, 0);
}

/* Many of both, in random order: whoever is found was there at the time, for that object, and not twice. */
static void nothing_is_used_twice(void **state)
{
	enum { N = 20000, OBJECTS = 50 };
	struct ppa_trace_wake *wakes = calloc(N, sizeof(*wakes));
	struct ppa_trace_want *wants = calloc(N, sizeof(*wants));
	struct found *f = calloc(N, sizeof(*f));
	char *used = calloc(N + 1, 1);
	size_t nfound = 0;

	(void)state;
	srand(1);
	for (uint32_t i = 0; i < N; i++) {
		uint64_t begin = (uint64_t)rand() % 1000000;

		wakes[i] = wake(MUTEX + (uintptr_t)rand() % OBJECTS, (uint64_t)rand() % 1000000, i + 1, false);
		wants[i] = want(PPA_MATCH_QUEUE, MUTEX + (uintptr_t)rand() % OBJECTS, begin,
				begin + (uint64_t)rand() % 2000, N + i, &f[i]);
	}
	ppa_trace_match(wakes, N, wants, N, set_found);
	for (size_t i = 0; i < N; i++) {
		const struct found *by = wants[i].record;

		if (!by->tid)
			continue;
		nfound++;
		assert_in_range(by->at_ns, wants[i].begin_ns, wants[i].end_ns);
		assert_int_equal(used[by->tid]++, 0);
	}
	/* 400 wakes an object in a million, and waits of a thousand: 0.4 for each wait. */
	assert_true(nfound > N / 10);
	free(wakes);
	free(wants);
	free(f);
	free(used);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_release_counts),
		cmocka_unit_test(signals_wake_one_each),
		cmocka_unit_test(the_last_to_come_opens_a_barrier),
		cmocka_unit_test(threads_end_joins),
		cmocka_unit_test(nothing_is_used_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
