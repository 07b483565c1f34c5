// link: agent/base/slice.c agent/base/sys.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: a thread that asks for the longest slice has it, and its policy and priority, and what of them its children are
 * to inherit, are as they were; a real-time thread is left alone, and so is one that may not ask. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/base/slice.h"

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
		after.runtime = before.runtime;
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
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_longest_and_nothing_else),
		cmocka_unit_test(real_time_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
