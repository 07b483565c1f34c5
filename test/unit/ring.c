// link: agent/base/ring.c agent/base/sys.c -lpthread
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: kept + refused == offered, whatever the writers do at the same time; what is kept arrives whole and, from
 * one writer, in order. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "agent/base/ring.h"

enum { WRITERS = 4, RECORDS = 50000, RING_BYTES = 64 << 10, BODY_MAX = 40 };

static struct ppa_ring ring;
static _Atomic int writing = WRITERS;
static _Atomic uint64_t refused;

static void *writer(void *arg)
{
	uint64_t me = (uintptr_t)arg, body[BODY_MAX];

	for (uint64_t i = 0; i < RECORDS; i++) {
		uint64_t n = (i * 7 + me) % BODY_MAX, head[3] = {me, i, n};
		struct ppa_ring_part a = {head, 3}, b = {body, n};

		for (uint64_t k = 0; k < n; k++)
			body[k] = me ^ i ^ k;
		if (!ppa_ring_push(&ring, &a, &b))
			atomic_fetch_add(&refused, 1);
	}
	atomic_fetch_sub(&writing, 1);
	return NULL;
}

static void many_writers_one_reader(void **state)
{
	uint64_t out[3 + BODY_MAX], kept = 0, next[WRITERS] = {0};
	pthread_t threads[WRITERS];

	(void)state;
	assert_int_equal(ppa_ring_init(&ring, RING_BYTES), 0);
	for (uintptr_t i = 0; i < WRITERS; i++)
		pthread_create(&threads[i], NULL, writer, (void *)i);
	for (;;) {
		int last = atomic_load(&writing) == 0;
		size_t n;

		while ((n = ppa_ring_pop(&ring, out, 3 + BODY_MAX))) {
			assert_int_equal(n, 3 + out[2]);
			assert_true(out[0] < WRITERS && out[1] >= next[out[0]]);
			next[out[0]] = out[1] + 1;
			for (uint64_t k = 0; k < out[2]; k++)
				assert_int_equal(out[3 + k], out[0] ^ out[1] ^ k);
			kept++;
		}
		if (last)
			break;
	}
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(kept + atomic_load(&refused), (uint64_t)WRITERS * RECORDS);
	assert_true(kept > 0);
}

static void full_ring_refuses_and_recovers(void **state)
{
	struct ppa_ring r = {0};
	uint64_t word = 7, out[4];
	struct ppa_ring_part a = {&word, 1}, none = {NULL, 0};
	size_t n = 0;

	(void)state;
	assert_int_equal(ppa_ring_init(&r, RING_BYTES), 0);
	while (ppa_ring_push(&r, &a, &none))
		n++;
	assert_int_equal(n, RING_BYTES / 16);
	assert_true(ppa_ring_is_filling(&r));
	assert_int_equal(ppa_ring_pop(&r, out, 4), 1);
	assert_true(ppa_ring_push(&r, &a, &none));
	assert_false(ppa_ring_push(&r, &a, &none));
	ppa_ring_reset(&r);
	assert_int_equal(ppa_ring_pop(&r, out, 4), 0);
	assert_true(ppa_ring_push(&r, &a, &none));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_writers_one_reader),
		cmocka_unit_test(full_ring_refuses_and_recovers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
