// link: agent/base/vheap.c agent/base/sys.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: the private heap keeps every live block's bytes, aligns to 16, gives memory back on trim and large free,
 * and refuses what cannot be had with NULL and ENOMEM. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/vheap.h"

enum { BLOCKS = 2000, ROUNDS = 60000 };

static struct {
	unsigned char *p;
	size_t n;
	unsigned char fill;
} blocks[BLOCKS];

static unsigned rnd(void)
{
	static unsigned x = 12345;

	x = x * 1103515245U + 12345U;
	return x >> 8;
}

static void check_and_drop(int i)
{
	for (size_t k = 0; k < blocks[i].n; k++)
		assert_int_equal(blocks[i].p[k], blocks[i].fill);
	ppa_vheap_free(blocks[i].p);
	blocks[i].p = NULL;
}

static void live_blocks_keep_their_bytes(void **state)
{
	(void)state;
	for (int r = 0; r < ROUNDS; r++) {
		int i = (int)(rnd() % BLOCKS);

		if (blocks[i].p) {
			check_and_drop(i);
			continue;
		}
		blocks[i].n = rnd() % 16 ? rnd() % 700 : rnd() % 40000;
		blocks[i].fill = (unsigned char)rnd();
		blocks[i].p = ppa_vheap_malloc(blocks[i].n);
		assert_non_null(blocks[i].p);
		assert_int_equal((uintptr_t)blocks[i].p % 16, 0);
		memset(blocks[i].p, blocks[i].fill, blocks[i].n);
	}
	for (int i = 0; i < BLOCKS; i++)
		if (blocks[i].p)
			check_and_drop(i);
	ppa_vheap_trim();
	assert_int_equal(ppa_vheap_mapped_bytes(), 0);
}

static void what_is_large_grows_by_a_quarter(void **state)
{
	(void)state;
	assert_int_equal(ppa_vheap_room_after(0, 64, 80), 64);
	assert_int_equal(ppa_vheap_room_after(64, 64, 80), 128);
	for (size_t n = PPA_VHEAP_MOVED_BYTES / 80; n < 100000000; n = ppa_vheap_room_after(n, 64, 80)) {
		assert_true(ppa_vheap_room_after(n, 64, 80) > n);
		assert_true(ppa_vheap_room_after(n, 64, 80) <= n + n / 4 + 1);
	}
}

static void realloc_carries_the_content(void **state)
{
	unsigned char *p = NULL;

	(void)state;
	for (size_t n = 1; n < 20000000; n = n * 3 / 2 + 1) {
		p = ppa_vheap_realloc(p, n);
		assert_non_null(p);
		p[n - 1] = (unsigned char)n;
		for (size_t m = 1; m <= n; m = m * 3 / 2 + 1)
			assert_int_equal(p[m - 1], (unsigned char)m);
	}
	p = ppa_vheap_realloc(p, 5);
	assert_int_equal(p[0], 1);
	assert_null(ppa_vheap_realloc(p, 0));
	ppa_vheap_trim();
	assert_int_equal(ppa_vheap_mapped_bytes(), 0);
}

static void calloc_is_zero_after_reuse(void **state)
{
	unsigned char *p = ppa_vheap_malloc(100), *q;

	(void)state;
	memset(p, 0xff, 100);
	ppa_vheap_free(p);
	q = ppa_vheap_calloc(10, 10);
	for (int i = 0; i < 100; i++)
		assert_int_equal(q[i], 0);
	ppa_vheap_free(q);
}

static void large_blocks_are_kept_for_the_next(void **state)
{
	enum { N = 100, LARGE = 100000 };
	unsigned char *p = ppa_vheap_malloc(LARGE), *all[N], *q;

	(void)state;
	memset(p, 0xff, LARGE);
	ppa_vheap_free(p);
	assert_ptr_equal(q = ppa_vheap_calloc(1, LARGE - 5000), p);
	for (int i = 0; i < LARGE - 5000; i++)
		assert_int_equal(q[i], 0);
	/* Not for one that would waste half of it. */
	ppa_vheap_free(q);
	assert_ptr_not_equal(p = ppa_vheap_malloc(LARGE / 3), q);
	ppa_vheap_free(p);
	/* Nor without end. */
	for (int i = 0; i < N; i++)
		all[i] = ppa_vheap_malloc(LARGE);
	for (int i = 0; i < N; i++)
		ppa_vheap_free(all[i]);
	assert_in_range(ppa_vheap_mapped_bytes(), LARGE, 1200 << 10);
	ppa_vheap_trim();
	assert_int_equal(ppa_vheap_mapped_bytes(), 0);
}

static void impossible_sizes_are_enomem(void **state)
{
	(void)state;
	errno = 0;
	assert_null(ppa_vheap_malloc(SIZE_MAX - 10));
	assert_int_equal(errno, ENOMEM);
	assert_null(ppa_vheap_calloc(SIZE_MAX / 2, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(live_blocks_keep_their_bytes),	      cmocka_unit_test(realloc_carries_the_content),
		cmocka_unit_test(what_is_large_grows_by_a_quarter),   cmocka_unit_test(calloc_is_zero_after_reuse),
		cmocka_unit_test(large_blocks_are_kept_for_the_next), cmocka_unit_test(impossible_sizes_are_enomem),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
