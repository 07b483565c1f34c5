// link: agent/base/slice.c agent/base/sys.c -lpthread
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: a thread that asks for the longest slice has it until it asks for the usual one, gives the turn it is in away for
 * it, once, and its policy and priority, and what of them its children are to inherit, are as they were; a real-time
 * thread is left alone. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/base/self.h"
#include "agent/base/slice.h"

__thread struct ppa_self ppa_self;

#define LONGEST_NS UINT64_C(100000000)

static struct attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
} now(void)
{
	struct attr a = {.size = 0};

	assert_int_equal(syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0), 0);
	return a;
}

static void is_longest_and_nothing_else(void **state)
{
	static const struct sched_param none;
	struct attr before, after;

	(void)state;
	assert_int_equal(setpriority(PRIO_PROCESS, 0, 3), 0);
	for (int policy = SCHED_OTHER; policy != SCHED_IDLE;
	     policy = policy == SCHED_OTHER ? SCHED_BATCH : SCHED_IDLE) {
		assert_int_equal(sched_setscheduler(0, policy | SCHED_RESET_ON_FORK, &none), 0);
		before = now();
		errno = 7;
		ppa_slice_longest();
		assert_int_equal(errno, 7);
		after = now();
		if (before.runtime) /* the kernel has slices of one's own: since 6.12 */
			assert_int_equal(after.runtime, LONGEST_NS);
		assert_true(ppa_self.has_longest_slice);
		after.runtime = before.runtime;
		assert_memory_equal(&after, &before, sizeof(after));
		ppa_slice_usual();
		assert_int_equal(errno, 7);
		after = now();
		assert_false(ppa_self.has_longest_slice);
		assert_memory_equal(&after, &before, sizeof(after));
	}
	assert_int_equal(getpriority(PRIO_PROCESS, 0), 3);
	if (!before.runtime)
		print_message("this kernel has no slices of one's own\n");
}

static void real_time_is_left_alone(void **state)
{
	static const struct sched_param one = {.sched_priority = 1};
	struct attr before, after;

	(void)state;
	if (sched_setscheduler(0, SCHED_RR, &one)) {
		print_message("real-time threads are not permitted here\n");
		skip();
	}
	before = now();
	ppa_slice_longest();
	after = now();
	assert_memory_equal(&after, &before, sizeof(after));
	assert_false(ppa_self.has_longest_slice);
	ppa_slice_usual();
	after = now();
	assert_memory_equal(&after, &before, sizeof(after));
}

static long switches(void)
{
	struct rusage u;

	assert_int_equal(getrusage(RUSAGE_THREAD, &u), 0);
	return u.ru_nivcsw + u.ru_nvcsw;
}

static volatile bool is_over;

static void *compute(void *unused)
{
	(void)unused;
	while (!is_over)
		;
	return NULL;
}

/* Beside one that computes on the same CPU it gives the turn away once, and not again while it has the longest slice. */
static void turn_is_given_away_once(void **state)
{
	static const struct sched_param none;
	cpu_set_t one;
	pthread_t other;
	long given = 0, again = 0, before;

	(void)state;
	assert_int_equal(sched_setscheduler(0, SCHED_OTHER, &none), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(pthread_create(&other, NULL, compute, NULL), 0);
	for (int i = 0; i < 100; i++) {
		usleep(1000); /* this turn begins now */
		before = switches();
		if (ppa_slice_longest())
			ppa_slice_give_turn();
		given += switches() > before;
		before = switches();
		if (ppa_slice_longest())
			ppa_slice_give_turn();
		again += switches() > before;
		ppa_slice_usual();
	}
	is_over = true;
	pthread_join(other, NULL);
	assert_in_range(given, 30, 100); /* the other may have had more than its share just then */
	assert_in_range(again, 0, 10);	 /* a tick may come in between */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_longest_and_nothing_else),
		cmocka_unit_test(turn_is_given_away_once),
		cmocka_unit_test(real_time_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
