// link: agent/thread/threads.c agent/base/sys.c -lpthread
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: whoever of two brings a thread's timer to the period last, and whoever of them finds the slot claimed by the
 * other, the timer ends up with the period that was set last. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/base/self.h"
#include "agent/cpu/cpu.h"
#include "agent/thread/newborn.h"
#include "agent/thread/threads.h"
#include "agent/thread/timer.h"

enum { ROUNDS = 300000, PERIOD = 1000 };

static _Atomic uint64_t timer;
static _Atomic int round_begun, round_done;
static struct ppa_thread *slot;
__thread struct ppa_self ppa_self;

void ppa_timer_set(struct ppa_thread *t, uint64_t period_ns)
{
	(void)t;
	atomic_store(&timer, period_ns);
}

/* Nobody is born or ends here. */
void ppa_timer_delete(struct ppa_thread *t)
{
	(void)t;
}

bool ppa_timer_unpack(uint64_t value, uint32_t *index, uint32_t *generation)
{
	*generation = *index = (uint32_t)value;
	return false;
}

bool ppa_newborn_may_wait(struct ppa_thread *t, uint64_t period_ns)
{
	(void)t;
	(void)period_ns;
	return false;
}

void ppa_cpu_thread_ends(const struct ppa_thread *t)
{
	(void)t;
}

static void *follower(void *unused)
{
	(void)unused;
	for (int i = 1; i <= ROUNDS; i++) {
		while (atomic_load(&round_begun) != i)
			;
		ppa_threads_retime(slot);
		atomic_store(&round_done, i);
	}
	return NULL;
}

/* One sets a period and the timer, and the other at the same time takes both back. */
static void last_period_wins(void **state)
{
	pthread_t other;
	int wrong = 0;

	(void)state;
	assert_int_equal(ppa_threads_init(), 0);
	ppa_threads_adopt_main((uintptr_t)&other);
	slot = ppa_self.slot;
	assert_non_null(slot);
	assert_int_equal(pthread_create(&other, NULL, follower, NULL), 0);
	for (int i = 1; i <= ROUNDS; i++) {
		ppa_threads_set_period(PERIOD);
		atomic_store(&round_begun, i);
		for (volatile int wait = i % 64; wait > 0; wait--)
			;
		ppa_threads_set_period(0);
		ppa_threads_retime(slot);
		while (atomic_load(&round_done) != i)
			;
		wrong += atomic_load(&timer) != 0;
	}
	pthread_join(other, NULL);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(last_period_wins)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
