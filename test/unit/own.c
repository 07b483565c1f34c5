// link: agent/heap/own.c agent/base/sys.c -lpthread
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: blocks for libc lie in the range, zeroed and apart from each other, and are used again once freed; what does
 * not fit is refused; and a child of a fork never gets an address that its parent may have given to libc. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/heap/own.h"

enum { THREADS = 4, ROUNDS = 20000, LIVE = 8 };

static void lies_apart_and_is_zeroed(void **state)
{
	static const size_t sizes[] = {0, 1, 16, 32, 33, 272, 1000, 4096, 16384};
	char *blocks[sizeof(sizes) / sizeof(sizes[0])];

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		blocks[i] = ppa_own_alloc(sizes[i]);
		assert_non_null(blocks[i]);
		assert_true(ppa_own_offset(blocks[i]) < PPA_OWN_RANGE_BYTES);
		assert_int_equal((uintptr_t)blocks[i] % 16, 0);
		for (size_t k = 0; k < sizes[i]; k++)
			assert_int_equal(blocks[i][k], 0);
		memset(blocks[i], (int)i + 1, sizes[i]);
	}
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (size_t k = 0; k < sizes[i]; k++)
			assert_int_equal(blocks[i][k], i + 1);
		ppa_own_free(blocks[i], sizes[i]);
	}
	/* Again from the lists, where the links lie in them. */
	assert_ptr_equal(ppa_own_alloc(272), blocks[5]);
	assert_int_equal(blocks[5][0], 0);
	assert_int_equal(blocks[5][271], 0);
	ppa_own_free(blocks[5], 272);
	assert_true(ppa_own_offset(ppa_own_range - 1) >= PPA_OWN_RANGE_BYTES);
	assert_true(ppa_own_offset(ppa_own_range + PPA_OWN_RANGE_BYTES) >= PPA_OWN_RANGE_BYTES);
	assert_true(ppa_own_offset(NULL) >= PPA_OWN_RANGE_BYTES);
}

static void *churn(void *seed)
{
	unsigned char *live[LIVE] = {0};
	uint64_t random = (uintptr_t)seed * 2 + 1;

	for (int i = 0; i < ROUNDS; i++) {
		unsigned k = (unsigned)((random = random * 6364136223846793005U + 1442695040888963407U) >> 61);

		if (live[k]) {
			for (size_t j = 0; j < 300; j++)
				if (live[k][j] != (unsigned char)(uintptr_t)seed)
					return "somebody else's bytes";
			ppa_own_free(live[k], 300);
		}
		live[k] = ppa_own_alloc(300);
		if (!live[k])
			return "refused";
		memset(live[k], (int)(uintptr_t)seed, 300);
	}
	for (int k = 0; k < LIVE; k++)
		if (live[k])
			ppa_own_free(live[k], 300);
	return NULL;
}

static void serves_many_threads(void **state)
{
	pthread_t t[THREADS];
	void *complaint;

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, churn, (void *)(i + 1)), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], &complaint);
		assert_null(complaint);
	}
}

static void child_uses_nothing_of_its_parents(void **state)
{
	char *of_parent = ppa_own_alloc(500), *freed = ppa_own_alloc(500), *p;

	(void)state;
	ppa_own_free(freed, 500);
	ppa_own_reset();
	p = ppa_own_alloc(500);
	assert_true(p > of_parent && p > freed);
}

static void refuses_what_does_not_fit(void **state)
{
	unsigned n = 0;

	(void)state;
	assert_null(ppa_own_alloc(16385));
	assert_null(ppa_own_alloc(SIZE_MAX));
	while (ppa_own_alloc(16384))
		n++;
	assert_true(n > 0 && n < PPA_OWN_RANGE_BYTES / 16384);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lies_apart_and_is_zeroed),
		cmocka_unit_test(serves_many_threads),
		cmocka_unit_test(child_uses_nothing_of_its_parents),
		cmocka_unit_test(refuses_what_does_not_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
