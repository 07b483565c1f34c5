// link: agent/thread/newborn.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: where births are frequent a thread whose first moment is far off gets its timer later, and never later than
 * that moment: from the sampler's rounds, or at short periods from those who are born after it. Where that would not pay,
 * everyone gets it at once. Clock, chance and the threads are the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/sys.h"
#include "agent/profile/random.h"
#include "agent/thread/newborn.h"
#include "agent/thread/threads.h"

enum { US = 1000, MS = 1000 * US, BORN = 4096 };

static struct {
	uint64_t now_ns, first_ns;
	uint32_t used;
	struct ppa_thread threads[BORN];
	uint64_t born_ns[BORN];
	int nborn, nvisits;
	uint64_t period_ns;
} world;

/* ---- in place of the agent's ---- */

uint64_t ppa_sys_clock_ns(clockid_t clock)
{
	assert_int_equal(clock, CLOCK_MONOTONIC);
	return world.now_ns;
}

uint64_t ppa_random_below(uint64_t n)
{
	return world.first_ns % n;
}

uint32_t ppa_threads_used(void)
{
	return world.used;
}

void ppa_threads_each(void (*visit)(struct ppa_thread *t, void *arg), void *arg)
{
	world.nvisits++;
	for (int i = 0; i < world.nborn; i++)
		visit(&world.threads[i], arg);
}

void ppa_threads_retime(struct ppa_thread *t)
{
	int i = (int)(t - world.threads);

	/* Never too late for whoever ran all the time since its birth. */
	if (t->first_period_ns)
		assert_true(world.now_ns - world.born_ns[i] <= t->first_ns);
	atomic_store(&t->period_ns, world.period_ns);
}

/* ---- the promise ---- */

static void begin(uint64_t period_ns, uint32_t used)
{
	memset(&world, 0, sizeof(world));
	ppa_newborn_reset();
	world.now_ns = 1000 * (uint64_t)MS;
	world.period_ns = period_ns;
	world.used = used;
	ppa_newborn_tick(period_ns);
}

/* One is born now; did it go without? */
static bool is_born_to_wait(uint64_t first_ns)
{
	struct ppa_thread *t = &world.threads[world.nborn];
	bool waits;

	world.first_ns = first_ns - 1;
	world.born_ns[world.nborn] = world.now_ns;
	waits = ppa_newborn_may_wait(t, world.period_ns);
	assert_int_equal(t->first_ns, first_ns);
	world.nborn++;
	if (!waits)
		ppa_threads_retime(t);
	return waits;
}

static int without_timer(void)
{
	int n = 0;

	for (int i = 0; i < world.nborn; i++)
		n += atomic_load(&world.threads[i].period_ns) == 0;
	return n;
}

/* A millisecond of births, one every so many microseconds, and the sampler's next round. */
static uint64_t births(uint64_t every_us, uint64_t first_ns, int *waited)
{
	for (uint64_t us = 0; us < 1000; us += every_us) {
		*waited += is_born_to_wait(first_ns);
		world.now_ns += every_us * US;
	}
	return ppa_newborn_tick(world.period_ns);
}

static void few_births_wait_for_nobody(void **state)
{
	int waited = 0;

	(void)state;
	begin(10 * MS, 10);
	for (int i = 0; i < 20; i++)
		assert_true(births(200, 9 * MS, &waited) == UINT64_MAX);
	assert_int_equal(waited, 0);
	assert_int_equal(without_timer(), 0);
}

static void at_long_periods_rounds_look_after_them(void **state)
{
	int waited = 0;

	(void)state;
	begin(10 * MS, 10000);
	assert_true(births(20, 9 * MS, &waited) < 2 * MS);
	assert_int_equal(waited, 0);
	for (int i = 0; i < 20; i++)
		births(20, 9 * MS, &waited);
	assert_int_equal(waited, 20 * 50);
	assert_int_equal(without_timer(), 0);
	/* Whose moment may come before the next round. */
	assert_false(is_born_to_wait(MS));
	/* By rounds alone. */
	world.nvisits = 0;
	world.now_ns += MS;
	is_born_to_wait(9 * MS);
	assert_int_equal(world.nvisits, 0);
}

static void at_short_periods_those_born_later_do(void **state)
{
	int waited = 0;

	(void)state;
	begin(MS, 10);
	assert_int_equal(births(20, 900 * US, &waited), MS);
	assert_int_equal(waited, 0);
	world.nvisits = 0;
	births(20, 260 * US, &waited);
	assert_int_equal(waited, 50);
	assert_in_range(world.nvisits, 7, 9); /* every 125 us, and the round */
	assert_int_equal(without_timer(), 0);
	assert_false(is_born_to_wait(240 * US));
	/* Births cease: the next round has the last ones, and then nobody waits any more. */
	assert_true(is_born_to_wait(MS - 1));
	world.now_ns += MS - 1;
	assert_true(ppa_newborn_tick(MS) == UINT64_MAX);
	assert_int_equal(without_timer(), 0);
	assert_false(is_born_to_wait(MS - 1));
	world.nvisits = 0;
	world.now_ns += MS;
	is_born_to_wait(MS - 1);
	assert_int_equal(world.nvisits, 0);
}

static void nobody_is_burdened_with_many_threads(void **state)
{
	int waited = 0;

	(void)state;
	begin(MS, 1000);
	for (int i = 0; i < 20; i++)
		births(20, 900 * US, &waited);
	assert_int_equal(waited, 0);
	begin(MS / 4, 10);
	for (int i = 0; i < 20; i++)
		births(20, 240 * US, &waited);
	assert_int_equal(waited, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_births_wait_for_nobody),
		cmocka_unit_test(at_long_periods_rounds_look_after_them),
		cmocka_unit_test(at_short_periods_those_born_later_do),
		cmocka_unit_test(nobody_is_burdened_with_many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
