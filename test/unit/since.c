// link: agent/snapshot/since.c test/fakes/vheap.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: what is asked for again and again adds up to the whole, however many stacks there are; and memory that runs
 * out takes nothing from the next answer. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/snapshot/kinds.h"
#include "agent/snapshot/rows.h"
#include "agent/snapshot/since.h"
#include "test/fakes/vheap.h"

enum { SITES = 5000 };

static uintptr_t stacks[SITES];
static struct ppa_row list[SITES];
static struct ppa_rows rows = {.list = list};

/* The first n sites, in another order each time, each with these values. */
static void gather(size_t n, int64_t added, int64_t bytes, int64_t live)
{
	static size_t first;

	first += 7;
	rows.n = n;
	rows.err = 0;
	for (size_t i = 0; i < n; i++)
		list[i] = (struct ppa_row){
			.pcs = &stacks[(i + first) % n], .npcs = 1, .values = {added, bytes, live, live}};
}

static void expect(int64_t added, int64_t bytes, int64_t live)
{
	for (size_t i = 0; i < rows.n; i++) {
		assert_int_equal(list[i].values[0], added);
		assert_int_equal(list[i].values[1], bytes);
		assert_int_equal(list[i].values[2], live);
		assert_int_equal(list[i].values[3], live);
	}
}

static void each_answer_is_what_came_since_the_last(void **state)
{
	static const struct ppa_kind heap;
	int64_t duration = -1;

	(void)state;
	ppa_since_reset();
	gather(10, 5, 500, 3);
	assert_int_equal(ppa_since_subtract(&heap, &rows, &duration), 0);
	assert_int_equal(duration, 0);
	expect(5, 500, 3);
	gather(10, 5, 500, 2);
	assert_int_equal(ppa_since_subtract(&heap, &rows, &duration), 0);
	assert_true(duration > 0);
	expect(0, 0, 2);
	/* No memory for the new ones: as if nobody had asked. */
	gather(SITES, 8, 800, 7);
	fake_vheap_budget = 0;
	assert_int_equal(ppa_since_subtract(&heap, &rows, &duration), -ENOMEM);
	fake_vheap_budget = -1;
	gather(SITES, 9, 900, 7);
	assert_int_equal(ppa_since_subtract(&heap, &rows, &duration), 0);
	for (size_t i = 0; i < rows.n; i++)
		assert_int_equal(list[i].values[0], list[i].pcs < &stacks[10] ? 4 : 9);
	gather(SITES, 10, 1000, 7);
	assert_int_equal(ppa_since_subtract(&heap, &rows, &duration), 0);
	expect(1, 100, 7);
}

static void kinds_are_apart_and_few(void **state)
{
	static const struct ppa_kind kinds[PPA_SINCE_KINDS + 1];
	int64_t duration;

	(void)state;
	ppa_since_reset();
	for (int k = 0; k < 2 * PPA_SINCE_KINDS; k++) {
		gather(10, 5 * k, 500, 3);
		assert_int_equal(ppa_since_subtract(&kinds[k % PPA_SINCE_KINDS], &rows, &duration), 0);
		expect(k < PPA_SINCE_KINDS ? 5 * k : 5 * PPA_SINCE_KINDS, k < PPA_SINCE_KINDS ? 500 : 0, 3);
	}
	assert_int_equal(ppa_since_subtract(&kinds[PPA_SINCE_KINDS], &rows, &duration), -ENOMEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_answer_is_what_came_since_the_last),
		cmocka_unit_test(kinds_are_apart_and_few),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
