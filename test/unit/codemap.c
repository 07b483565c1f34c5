/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/jit/codemap.c test/fakes/vheap.c
/* Promise: an address has the name that was given to it last; what the newer one has overwritten is gone.
 * Promise: names cost their bytes once, whatever moves about.
 * Promise: full, or without memory, it knows less and never anything wrong; nothing leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "test/fakes/vheap.h"
#include "unwind/jit/codemap.h"

static void add(struct ppa_codemap *m, uint64_t start, uint64_t size, const char *name)
{
	assert_int_equal(ppa_codemap_add(m, start, size, name, strlen(name)), 0);
}

static const char *at(const struct ppa_codemap *m, uint64_t address)
{
	uint64_t start;
	const char *name = ppa_codemap_find(m, address, &start);

	return name ? name : "";
}

static void newer_words_overwrite_older_ones(void **state)
{
	struct ppa_codemap m = {.max_bytes = 1 << 20};
	uint64_t start;

	(void)state;
	add(&m, 100, 50, "a");
	add(&m, 200, 50, "b");
	assert_int_equal(ppa_codemap_settle(&m), 0);
	assert_string_equal(at(&m, 99), "");
	assert_string_equal(at(&m, 100), "a");
	assert_string_equal(at(&m, 149), "a");
	assert_string_equal(at(&m, 150), "");
	assert_string_equal(at(&m, 249), "b");
	add(&m, 120, 10, "inner"); /* both sides keep their name */
	add(&m, 190, 20, "on top");
	add(&m, 300, 0, "no size");
	add(&m, UINT64_MAX - 5, 10, "beyond the end");
	assert_int_equal(ppa_codemap_settle(&m), 0);
	assert_string_equal(at(&m, 119), "a");
	assert_string_equal(at(&m, 120), "inner");
	assert_string_equal(at(&m, 130), "a");
	assert_string_equal(at(&m, 205), "on top");
	assert_string_equal(at(&m, 220), "b");
	assert_string_equal(at(&m, 300), "");
	assert_string_equal(at(&m, UINT64_MAX - 4), "");
	assert_non_null(ppa_codemap_find(&m, 125, &start));
	assert_int_equal(start, 120);
	add(&m, 0, 1000, "");
	assert_int_equal(ppa_codemap_settle(&m), 0);
	assert_string_equal(at(&m, 125), "");
	ppa_codemap_clear(&m);
	assert_int_equal(fake_vheap_live, 0);
}

static void code_takes_its_name_along(void **state)
{
	struct ppa_codemap m = {.max_bytes = 1 << 20};

	(void)state;
	add(&m, 100, 50, "f");
	assert_int_equal(ppa_codemap_move(&m, 100, 500, 50), 0); /* still in the batch */
	assert_int_equal(ppa_codemap_settle(&m), 0);
	assert_string_equal(at(&m, 120), "");
	assert_string_equal(at(&m, 520), "f");
	assert_int_equal(ppa_codemap_move(&m, 500, 520, 50), 0);   /* settled, and over itself */
	assert_int_equal(ppa_codemap_move(&m, 9000, 9100, 50), 0); /* nobody's */
	assert_int_equal(ppa_codemap_settle(&m), 0);
	assert_string_equal(at(&m, 510), "");
	assert_string_equal(at(&m, 569), "f");
	assert_string_equal(at(&m, 9110), "");
	ppa_codemap_clear(&m);
}

/* The same by painting bytes. */
enum { SPACE = 4096 };
static uint16_t owner[SPACE]; /* which word painted it last; 0: none */

static void it_agrees_with_paint(void **state)
{
	unsigned seed = 7;

	(void)state;
	for (int round = 0; round < 60; round++) {
		struct ppa_codemap m = {.max_bytes = 8 << 20};
		unsigned words = 1 + (unsigned)(rand_r(&seed) % 3000);

		memset(owner, 0, sizeof(owner));
		for (unsigned w = 1; w <= words; w++) {
			unsigned size = 1 + (unsigned)rand_r(&seed) % (round % 2 ? 16 : 300);
			unsigned start = (unsigned)rand_r(&seed) % (SPACE - size);
			char name[16];

			snprintf(name, sizeof(name), w % 7 ? "w%u" : "", w);
			add(&m, start, size, name);
			for (unsigned i = start; i < start + size; i++)
				owner[i] = w % 7 ? (uint16_t)w : 0;
			if (rand_r(&seed) % 100 == 0)
				assert_int_equal(ppa_codemap_settle(&m), 0);
		}
		assert_int_equal(ppa_codemap_settle(&m), 0);
		for (unsigned i = 0; i < SPACE; i++) {
			char name[16] = "";

			if (owner[i])
				snprintf(name, sizeof(name), "w%u", owner[i]);
			assert_string_equal(at(&m, i), name);
		}
		for (uint32_t i = 1; i < m.n; i++)
			assert_true(m.entries[i - 1].start + m.entries[i - 1].size <= m.entries[i].start);
		ppa_codemap_clear(&m);
	}
	assert_int_equal(fake_vheap_live, 0);
}

static void moving_code_costs_no_memory(void **state)
{
	struct ppa_codemap m = {.max_bytes = 64 << 20};
	uint64_t bytes;
	char name[64];

	(void)state;
	for (unsigned i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "a function with a name of some length %u", i % 1000);
		add(&m, 0x1000 + (i % 5000) * 64, 64, name);
		if (i == 10000)
			bytes = ppa_codemap_bytes(&m);
	}
	assert_int_equal(ppa_codemap_settle(&m), 0);
	assert_int_equal(ppa_codemap_bytes(&m), bytes);
	assert_int_equal(m.forgotten, 0);
	ppa_codemap_clear(&m);
}

static void full_it_begins_anew(void **state)
{
	struct ppa_codemap m = {.max_bytes = 512 << 10};
	char name[64];
	unsigned named = 0;

	(void)state;
	for (unsigned i = 0; i < 200000; i++) {
		snprintf(name, sizeof(name), "function %u", i);
		add(&m, 0x1000 + (uint64_t)i * 64, 64, name);
		assert_true(ppa_codemap_bytes(&m) <= 512 << 10);
	}
	assert_int_equal(ppa_codemap_settle(&m), 0);
	for (unsigned i = 0; i < 200000; i++) {
		const char *found = at(&m, 0x1000 + (uint64_t)i * 64);

		snprintf(name, sizeof(name), "function %u", i);
		assert_true(!*found || strcmp(found, name) == 0);
		named += *found != 0;
	}
	assert_int_equal(m.forgotten + named, 200000);
	assert_true(named > 0);
	m.max_bytes = 0;
	ppa_codemap_clear(&m);
	add(&m, 1, 1, "no room at all");
	assert_int_equal(ppa_codemap_settle(&m), 0);
	ppa_codemap_clear(&m);
	assert_int_equal(fake_vheap_live, 0);
}

static void every_allocation_may_fail(void **state)
{
	(void)state;
	for (long budget = 0; budget < 40; budget++) {
		struct ppa_codemap m = {.max_bytes = 8 << 20};
		char name[64];

		fake_vheap_budget = budget;
		for (unsigned i = 0; i < 5000; i++) {
			snprintf(name, sizeof(name), "function %u", i);
			ppa_codemap_add(&m, (uint64_t)i * 64, 64, name, strlen(name));
		}
		ppa_codemap_settle(&m);
		for (unsigned i = 0; i < 5000; i++) {
			const char *found = at(&m, (uint64_t)i * 64);

			snprintf(name, sizeof(name), "function %u", i);
			assert_true(!*found || strcmp(found, name) == 0);
		}
		fake_vheap_budget = -1;
		ppa_codemap_clear(&m);
	}
	assert_int_equal(fake_vheap_live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(newer_words_overwrite_older_ones),
		cmocka_unit_test(code_takes_its_name_along),
		cmocka_unit_test(it_agrees_with_paint),
		cmocka_unit_test(moving_code_costs_no_memory),
		cmocka_unit_test(full_it_begins_anew),
		cmocka_unit_test(every_allocation_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
