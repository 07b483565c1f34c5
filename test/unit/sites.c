// link: agent/profile/sites.c agent/profile/marker.c agent/profile/unloads.c @walker -lpthread
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: one stack has one site, whoever asks for it at the same time; what tells two sites apart is the frames, the
 * label and the origin; without memory new stacks share [other stacks] and known ones go on being found. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/budget.h"
#include "agent/profile/marker.h"
#include "agent/profile/sites.h"

PPA_SITES(sites, 0);

static struct ppa_site *find(uintptr_t a, uintptr_t b, uint64_t origin, uint64_t label)
{
	uintptr_t pcs[] = {a, b};

	return ppa_sites_find(&sites, pcs, 2, origin, label);
}

static void what_tells_sites_apart(void **state)
{
	struct ppa_site *s;
	uintptr_t three[] = {1, 2, 3};

	(void)state;
	ppa_budget_set(64 << 20);
	assert_int_equal(ppa_sites_init(&sites), 0);
	assert_int_equal(ppa_sites_init(&sites), 0);
	s = find(1, 2, 0, 0);
	assert_ptr_equal(find(1, 2, 0, 0), s);
	assert_ptr_not_equal(find(1, 3, 0, 0), s);
	assert_ptr_not_equal(find(2, 1, 0, 0), s);
	assert_ptr_not_equal(find(1, 2, 1, 0), s);
	assert_ptr_not_equal(find(1, 2, 0, 1), s);
	assert_ptr_not_equal(ppa_sites_find(&sites, three, 3, 0, 0), s);
	assert_int_equal(s->npcs, 2);
	assert_int_equal(s->pcs[0], 1);
	assert_int_equal(s->pcs[1], 2);
	assert_int_equal(sites.count, 7); /* with [other stacks] */
}

enum { THREADS = 4, STACKS = 20000 };

static void *count_all(void *arg)
{
	uintptr_t seed = (uintptr_t)arg;

	for (uintptr_t i = 0; i < STACKS; i++) {
		uintptr_t k = (i * 7919 + seed * 31) % STACKS;

		ppa_site_add(find(1000 + k, k % 7, 0, 5), 0, 1);
	}
	return NULL;
}

static void sum(const struct ppa_site *s, void *arg)
{
	uint64_t *n = arg;

	if (s->label != 5)
		return;
	n[0]++;
	n[1] += s->counters[0];
	n[2] += s->counters[0] != THREADS;
}

static void racing_threads_share_sites(void **state)
{
	pthread_t t[THREADS];
	uint64_t n[3] = {0};

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, count_all, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	ppa_sites_each(&sites, sum, n);
	assert_int_equal(n[0], STACKS);
	assert_int_equal(n[1], (uint64_t)THREADS * STACKS);
	assert_int_equal(n[2], 0);
}

static void folded_without_memory(void **state)
{
	struct ppa_site *known = find(1000, 0, 0, 5), *s;
	uint64_t n = 0;

	(void)state;
	ppa_budget_set(1);
	do
		s = find(7777777 + n++, 0, 0, 0);
	while (s->pcs[0] != ppa_marker_address(PPA_MARKER_OTHER) && n < 100000);
	assert_true(n > 1 && n < 100000);
	assert_int_equal(s->npcs, 1);
	assert_ptr_equal(find(9999999, 0, 0, 0), s);
	assert_ptr_equal(find(1000, 0, 0, 5), known);
	assert_int_equal(sites.folded, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_tells_sites_apart),
		cmocka_unit_test(racing_threads_share_sites),
		cmocka_unit_test(folded_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
