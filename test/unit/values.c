// link: agent/api/values.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: every value that was added is taken out once, with the site that added it, whatever other threads do; and
 * memory that runs out refuses new values and forgets none. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/api/values.h"
#include "agent/base/budget.h"

static struct ppa_values v;

static struct ppa_site *site(uintptr_t n)
{
	return (struct ppa_site *)(n + 1);
}

static void a_value_is_there_once(void **state)
{
	(void)state;
	assert_null(ppa_values_remove(&v, 0x1000));
	assert_int_equal(ppa_values_add(&v, 0x1000, site(1)), 0);
	assert_int_equal(ppa_values_add(&v, 0x1000, site(2)), -EEXIST);
	assert_ptr_equal(ppa_values_remove(&v, 0x1000), site(1));
	assert_null(ppa_values_remove(&v, 0x1000));
	assert_int_equal(ppa_values_add(&v, 0x1000, site(2)), 0);
	assert_ptr_equal(ppa_values_remove(&v, 0x1000), site(2));
}

enum { MANY = 200000, THREADS = 8, EACH = 20000 };

static void many_values_are_all_found(void **state)
{
	uint64_t before;

	(void)state;
	for (uintptr_t i = 1; i <= MANY; i++)
		assert_int_equal(ppa_values_add(&v, i * 64, site(i)), 0);
	before = ppa_budget_used();
	/* Taken out in another order, and put in again: no more memory for that. */
	for (uintptr_t i = MANY; i >= 1; i--)
		assert_ptr_equal(ppa_values_remove(&v, i * 64), site(i));
	for (uintptr_t i = 1; i <= MANY; i++)
		assert_int_equal(ppa_values_add(&v, i * 64, site(2 * i)), 0);
	assert_int_equal(ppa_budget_used(), before);
	for (uintptr_t i = 1; i <= MANY; i++)
		assert_ptr_equal(ppa_values_remove(&v, i * 64), site(2 * i));
}

static void *churn(void *arg)
{
	uintptr_t base = (uintptr_t)arg << 32, failed = 0;

	for (uintptr_t round = 0; round < 4; round++) {
		for (uintptr_t i = 1; i <= EACH; i++)
			failed += ppa_values_add(&v, base + i * 16, site(base + round)) != 0;
		for (uintptr_t i = 1; i <= EACH; i++)
			failed += ppa_values_remove(&v, base + i * 16) != site(base + round);
	}
	return (void *)failed;
}

static void threads_do_not_disturb_each_other(void **state)
{
	pthread_t t[THREADS];
	void *failed;

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, churn, (void *)(i + 1)), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], &failed);
		assert_null(failed);
	}
}

static void memory_is_bounded(void **state)
{
	static struct ppa_values small;
	uint64_t before = ppa_budget_used(), room;
	uintptr_t n = 0;

	(void)state;
	ppa_budget_set(PPA_VALUES_SHARE * (before + (1 << 20)));
	room = ppa_budget_limit() / PPA_VALUES_SHARE - before;
	while (ppa_values_add(&small, (n + 1) * 8, site(n)) == 0)
		n++;
	assert_int_equal(ppa_values_add(&small, (n + 1) * 8, site(n)), -ENOMEM);
	assert_true(ppa_budget_used() - before <= room);
	assert_true(n > room / 16 / 2);
	for (uintptr_t i = 0; i < n; i++)
		assert_ptr_equal(ppa_values_remove(&small, (i + 1) * 8), site(i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_value_is_there_once),
		cmocka_unit_test(many_values_are_all_found),
		cmocka_unit_test(threads_do_not_disturb_each_other),
		cmocka_unit_test(memory_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
