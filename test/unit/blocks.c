// link: agent/heap/blocks.c -lpthread
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: a block entered is found until it is removed, by any thread and through any growth; the filter never denies
 * one that is there; a hidden block is not found but still visited; without memory an entry is refused and nothing else
 * happens. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/budget.h"
#include "agent/heap/blocks.h"

enum { MANY = 60000 };

static struct ppa_site *const site = (struct ppa_site *)4096;

static void *address(uint64_t i)
{
	return (void *)(0x550000000000 + i * 48);
}

static bool add(void *p, uint64_t bytes)
{
	struct ppa_block b = {site, bytes, 4096, 7}, stale;
	bool has_stale, ok = ppa_blocks_add(p, &b, &stale, &has_stale);

	assert_false(has_stale);
	return ok;
}

static void count(const struct ppa_block *b, void *arg)
{
	assert_ptr_equal(b->site, site);
	++*(uint64_t *)arg;
}

static uint64_t visited(void)
{
	uint64_t n = 0;

	ppa_blocks_each(count, &n);
	return n;
}

static void found_until_removed(void **state)
{
	struct ppa_block b;

	(void)state;
	ppa_budget_set(256 << 20);
	for (uint64_t i = 0; i < MANY; i++)
		assert_true(add(address(i), i));
	assert_int_equal(ppa_blocks_count(), MANY);
	assert_int_equal(visited(), MANY);
	for (uint64_t i = 0; i < MANY; i++) {
		assert_true(ppa_blocks_may_have(address(i)));
		assert_true(ppa_blocks_find(address(i), &b));
		assert_int_equal(b.bytes, i);
		assert_false(ppa_blocks_find((char *)address(i) + 16, &b));
	}
	for (uint64_t i = 0; i < MANY; i += 2) {
		assert_true(ppa_blocks_remove(address(i), &b));
		assert_int_equal(b.bytes, i);
		assert_false(ppa_blocks_remove(address(i), &b));
	}
	for (uint64_t i = 1; i < MANY; i += 2) {
		assert_true(ppa_blocks_may_have(address(i)));
		assert_true(ppa_blocks_remove(address(i), &b));
	}
	assert_int_equal(ppa_blocks_count(), 0);
	assert_int_equal(visited(), 0);
}

/* A way to free that we do not see: the same address comes again. */
static void known_address_again_is_stale(void **state)
{
	struct ppa_block b = {site, 1, 4096, 0}, stale;
	bool has_stale;

	(void)state;
	assert_true(add(address(1), 111));
	assert_true(ppa_blocks_add(address(1), &b, &stale, &has_stale));
	assert_true(has_stale);
	assert_int_equal(stale.bytes, 111);
	assert_true(ppa_blocks_remove(address(1), &b));
	assert_int_equal(b.bytes, 1);
	assert_int_equal(ppa_blocks_count(), 0);
}

static void hidden_is_away_but_counted(void **state)
{
	struct ppa_block_place *place;
	struct ppa_block b;

	(void)state;
	assert_true(add(address(5), 55));
	place = ppa_blocks_hide(address(5), &b);
	assert_non_null(place);
	assert_int_equal(b.bytes, 55);
	assert_null(ppa_blocks_hide(address(5), &b));
	assert_false(ppa_blocks_find(address(5), &b));
	assert_int_equal(visited(), 1);
	/* Meanwhile the address may belong to somebody else. */
	assert_true(add(address(5), 56));
	assert_true(ppa_blocks_remove(address(5), &b));
	assert_int_equal(b.bytes, 56);
	ppa_blocks_restore(place, address(5));
	assert_true(ppa_blocks_may_have(address(5)));
	place = ppa_blocks_hide(address(5), &b);
	ppa_blocks_drop(place, address(5), &b);
	assert_false(ppa_blocks_find(address(5), &b));
	assert_int_equal(ppa_blocks_count(), 0);
}

/* Blocks whose byte of the filter is null's. */
static void null_is_never_there(void **state)
{
	void *p = (void *)(UINT64_C(1) << 40);
	struct ppa_block b;

	(void)state;
	assert_true(add(p, 1));
	assert_true(ppa_blocks_may_have(NULL));
	assert_false(ppa_blocks_find(NULL, &b));
	assert_false(ppa_blocks_remove(NULL, &b));
	assert_null(ppa_blocks_hide(NULL, &b));
	assert_true(ppa_blocks_remove(p, &b));
}

/* Threads enter, look up, hand over and remove while the table and its filter grow. */
enum { THREADS = 4, EACH = 40000, HAND_OVER = 64 };

static _Atomic(void *) hand[HAND_OVER];

static void *churn(void *arg)
{
	uint64_t base = 1000000 * (1 + (uint64_t)(uintptr_t)arg), bad = 0;
	struct ppa_block b;

	for (uint64_t i = 0; i < EACH; i++) {
		void *p = address(base + i), *other;

		bad += !add(p, base + i);
		bad += !ppa_blocks_may_have(p);
		/* Keep one in two; give the others to whoever comes by. */
		if (i % 2)
			continue;
		other = atomic_exchange(&hand[i % HAND_OVER], p);
		if (other)
			bad += !ppa_blocks_may_have(other) || !ppa_blocks_remove(other, &b) ||
			       address(b.bytes) != other;
	}
	for (uint64_t i = 1; i < EACH; i += 2) {
		void *p = address(base + i);

		bad += !ppa_blocks_may_have(p) || !ppa_blocks_remove(p, &b) || b.bytes != base + i;
	}
	return (void *)(uintptr_t)bad;
}

static void threads_lose_nothing(void **state)
{
	pthread_t t[THREADS];
	struct ppa_block b;
	void *bad;

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, churn, (void *)i), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], &bad);
		assert_int_equal((uintptr_t)bad, 0);
	}
	for (int i = 0; i < HAND_OVER; i++)
		if (hand[i])
			assert_true(ppa_blocks_remove(hand[i], &b));
	assert_int_equal(ppa_blocks_count(), 0);
	assert_int_equal(visited(), 0);
}

static void refused_without_memory(void **state)
{
	struct ppa_block b;
	uint64_t n = 0;

	(void)state;
	ppa_budget_set(1);
	while (add(address(9000000 + n), n) && n < 10000000)
		n++;
	assert_true(n > 1000 && n < 10000000);
	assert_int_equal(ppa_blocks_count(), n);
	for (uint64_t i = 0; i < n; i++)
		assert_true(ppa_blocks_remove(address(9000000 + i), &b));
	assert_true(add(address(9000000 + n), n));
	assert_true(ppa_blocks_remove(address(9000000 + n), &b));
}

static void own_blocks_are_orphans_in_a_child(void **state)
{
	struct ppa_block b = {PPA_BLOCK_OWN, 10, 0, 0}, stale;
	bool has_stale;

	(void)state;
	assert_true(ppa_blocks_add(address(3), &b, &stale, &has_stale));
	ppa_blocks_reset();
	assert_true(ppa_blocks_remove(address(3), &b));
	assert_ptr_equal(b.site, PPA_BLOCK_ORPHAN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found_until_removed),
		cmocka_unit_test(known_address_again_is_stale),
		cmocka_unit_test(hidden_is_away_but_counted),
		cmocka_unit_test(null_is_never_there),
		cmocka_unit_test(threads_lose_nothing),
		cmocka_unit_test(refused_without_memory),
		cmocka_unit_test(own_blocks_are_orphans_in_a_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
