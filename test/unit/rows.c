// link: agent/snapshot/rows.c test/fakes/vheap.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: a delta is what happened between two moments, row by row, whoever stores the stacks; and memory that runs
 * out is an error and no leak. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/profile/sites.h"
#include "agent/snapshot/rows.h"
#include "test/fakes/vheap.h"

/* A site whose stack is three frames made from n. */
static struct ppa_site *site(uintptr_t n, uint64_t label, uint64_t origin)
{
	struct ppa_site *s = calloc(1, sizeof(*s) + 3 * sizeof(uintptr_t));

	assert_non_null(s);
	s->npcs = 3;
	s->label = label;
	s->origin = origin;
	s->hash = n % 7; /* collisions */
	for (uintptr_t i = 0; i < 3; i++)
		s->pcs[i] = 0x1000 * n + i;
	return s;
}

static void set(struct ppa_row *row, int64_t a, int64_t b)
{
	assert_non_null(row);
	row->values[0] = a;
	row->values[3] = b;
}

static void equal_rows_are_subtracted(void **state)
{
	struct ppa_rows before = {.n = 0}, now = {.n = 0};
	struct ppa_site *sites[1000];

	(void)state;
	for (uintptr_t i = 0; i < 1000; i++)
		sites[i] = site(i, 64, 0);
	for (int i = 0; i < 1000; i++)
		set(ppa_rows_add(&now, sites[999 - i], 64), 999 - i + 5, -3);
	for (int i = 0; i < 1000; i++)
		set(ppa_rows_add(&before, sites[i], 64), i, 4);
	ppa_rows_subtract(&now, &before);
	assert_int_equal(now.err, 0);
	assert_int_equal(now.n, 1000);
	for (size_t i = 0; i < now.n; i++) {
		assert_int_equal(now.list[i].values[0], 5);
		assert_int_equal(now.list[i].values[3], -7);
		assert_int_equal(now.list[i].values[1], 0);
	}
	ppa_rows_free(&now);
	ppa_rows_free(&before);
	for (int i = 0; i < 1000; i++)
		free(sites[i]);
	assert_int_equal(fake_vheap_live, 0);
}

static void rows_of_one_side_stay(void **state)
{
	struct ppa_rows before = {.n = 0}, now = {.n = 0};
	struct ppa_site *old = site(1, 0, 0), *both = site(2, 0, 0), *new = site(3, 0, 0);

	(void)state;
	set(ppa_rows_add(&before, old, 0), 10, 1);
	set(ppa_rows_add(&before, both, 0), 20, 2);
	set(ppa_rows_add(&now, both, 0), 21, 2);
	set(ppa_rows_add(&now, new, 0), 30, 3);
	ppa_rows_subtract(&now, &before);
	assert_int_equal(now.n, 3);
	assert_int_equal(now.list[0].values[0], 1);
	assert_int_equal(now.list[0].values[3], 0);
	assert_int_equal(now.list[1].values[0], 30);
	assert_int_equal(now.list[2].values[0], -10);
	assert_ptr_equal(now.list[2].pcs, old->pcs);
	ppa_rows_free(&now);
	ppa_rows_free(&before);
	free(old), free(both), free(new);
}

/* Not the address of the stack but the stack; not the stack alone. */
static void identity_is_stack_origin_and_number(void **state)
{
	struct ppa_rows r = {.n = 0};
	struct ppa_site *a = site(1, 0, 0), *copy = site(1, 0, 0), *reloaded = site(1, 0, 77), *other = site(8, 0, 0);

	(void)state;
	ppa_rows_at(&r, a, 5)->values[0] += 1;
	ppa_rows_at(&r, copy, 5)->values[0] += 2;
	ppa_rows_at(&r, a, 6)->values[0] += 10;
	ppa_rows_at(&r, reloaded, 5)->values[0] += 100;
	ppa_rows_at(&r, other, 5)->values[0] += 1000;
	assert_int_equal(r.n, 4);
	assert_int_equal(r.list[0].values[0], 3);
	assert_int_equal(r.list[1].number, 6);
	assert_int_equal(r.list[2].origin, 77);
	ppa_rows_free(&r);
	free(a), free(copy), free(reloaded), free(other);
}

static void many_rows_are_found_again(void **state)
{
	struct ppa_rows r = {.n = 0};
	struct ppa_site *s = site(1, 0, 0);

	(void)state;
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < 5000; i++)
			ppa_rows_at(&r, s, i)->values[1]++;
	assert_int_equal(r.n, 5000);
	for (int i = 0; i < 5000; i++)
		assert_int_equal(r.list[i].values[1], 3);
	ppa_rows_free(&r);
	free(s);
	assert_int_equal(fake_vheap_live, 0);
}

static void refused_memory_is_an_error(void **state)
{
	struct ppa_site *s = site(1, 0, 0);

	(void)state;
	for (int budget = 0;; budget++) {
		struct ppa_rows before = {.n = 0}, now = {.n = 0};
		int err;

		fake_vheap_budget = budget;
		for (int i = 0; i < 600; i++) {
			ppa_rows_add(&before, s, i);
			ppa_rows_at(&now, s, 1000 - i);
		}
		ppa_rows_subtract(&now, &before);
		fake_vheap_budget = -1;
		err = now.err;
		ppa_rows_free(&before);
		ppa_rows_free(&now);
		assert_int_equal(fake_vheap_live, 0);
		if (!err)
			break;
		assert_true(err < 0);
		assert_true(budget < 100);
	}
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_rows_are_subtracted),	       cmocka_unit_test(rows_of_one_side_stay),
		cmocka_unit_test(identity_is_stack_origin_and_number), cmocka_unit_test(many_rows_are_found_again),
		cmocka_unit_test(refused_memory_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
