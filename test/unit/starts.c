/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/walk/starts.c unwind/walk/unindexed.c
/* Promise: the nearest start at or before a pc is found, across words and up to a function's greatest length, and nothing
 * outside a segment; the description of the last function at or before a pc is found in an index of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unwind/walk/starts.h"
#include "unwind/walk/unindexed.h"

enum { TEXT_BYTES = 128 << 10 };

static void nearest_start(void **state)
{
	static uint64_t bits[TEXT_BYTES / 64];
	static const unsigned at[] = {0, 63, 64, 1000, 1001, 100000};
	const uintptr_t lo = 0x10000000;

	(void)state;
	assert_int_equal(ppa_starts_find(lo), 0);
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		bits[at[i] / 64] |= UINT64_C(1) << (at[i] % 64);
	assert_true(ppa_starts_add(lo, lo + TEXT_BYTES, bits));
	for (uintptr_t pc = 0; pc < TEXT_BYTES; pc++) {
		uintptr_t expected = 0;

		for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
			if (at[i] <= pc)
				expected = at[i];
		/* Further away than any function is long it may be given or not. */
		if (pc - expected < 32000)
			assert_int_equal(ppa_starts_find(lo + pc), lo + expected);
	}
	assert_int_equal(ppa_starts_find(lo + 90000), 0);
	assert_int_equal(ppa_starts_find(lo - 1), 0);
	assert_int_equal(ppa_starts_find(lo + TEXT_BYTES), 0);
}

static void segments_are_few(void **state)
{
	static uint64_t bits[1] = {1};
	int n = 0;

	(void)state;
	while (n < 100 && ppa_starts_add(0x20000000u + (uintptr_t)n * 64, 0x20000040u + (uintptr_t)n * 64, bits))
		n++;
	assert_in_range(n, 1, 99);
	assert_int_equal(ppa_starts_find(0x20000005), 0x20000000);
}

static void agent_range(void **state)
{
	(void)state;
	assert_false(ppa_starts_is_agent(0x5000));
	ppa_starts_set_agent(0x5000, 0x6000);
	assert_true(ppa_starts_is_agent(0x5000) && ppa_starts_is_agent(0x5fff));
	assert_false(ppa_starts_is_agent(0x4fff) || ppa_starts_is_agent(0x6000));
}

static void own_index(void **state)
{
	static const struct ppa_unindexed_entry entries[] = {{0x10, 100}, {0x20, 200}, {0x300, 300}};
	const struct ppa_unindexed u = {0x1000, 0x2000, 0x800000, 0x801000, entries, 3}, *m = NULL;

	(void)state;
	assert_true(ppa_unindexed_add(&u));
	assert_int_equal(ppa_unindexed_find(0x100f, &m), 0);
	assert_int_equal(ppa_unindexed_find(0x1010, &m), 0x800000 + 100);
	assert_int_equal(m->hi, 0x801000);
	assert_int_equal(ppa_unindexed_find(0x101f, &m), 0x800000 + 100);
	assert_int_equal(ppa_unindexed_find(0x1020, &m), 0x800000 + 200);
	assert_int_equal(ppa_unindexed_find(0x12ff, &m), 0x800000 + 200);
	assert_int_equal(ppa_unindexed_find(0x1fff, &m), 0x800000 + 300);
	assert_int_equal(ppa_unindexed_find(0x2000, &m), 0);
	assert_int_equal(ppa_unindexed_find(0xfff, &m), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nearest_start),
		cmocka_unit_test(segments_are_few),
		cmocka_unit_test(agent_range),
		cmocka_unit_test(own_index),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
