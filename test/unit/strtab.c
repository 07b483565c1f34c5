/* SPDX-License-Identifier: Apache-2.0 */
// link: proto/strtab.c proto/utf8.c test/fakes/vheap.c
/* Promise: equal strings have one index, in order of first use, and "" is always 0.
 * Promise: a refused allocation is told once, loses no block and breaks no later call.
 * Promise: what is not UTF-8 is found to the byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "proto/strtab.h"
#include "proto/utf8.h"
#include "test/fakes/vheap.h"

enum { MANY = 5000 };
static char names[MANY][16];

static void empty_and_null_are_zero(void **state)
{
	struct ppa_strtab t;

	(void)state;
	ppa_strtab_init(&t);
	assert_int_equal(ppa_strtab_intern(&t, ""), 0);
	assert_int_equal(ppa_strtab_intern(&t, NULL), 0);
	assert_int_equal(t.n, 1);
	assert_string_equal(t.entries[0].text, "");
	assert_int_equal(t.entries[0].len, 0);
	ppa_strtab_free(&t);
}

static void indices_follow_first_use_through_growth(void **state)
{
	struct ppa_strtab t;
	char copy[16];

	(void)state;
	ppa_strtab_init(&t);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(ppa_strtab_intern(&t, names[i]), i + 1);
	for (uint32_t i = 0; i < MANY; i++) {
		strcpy(copy, names[i]); /* found by content, not by address */
		assert_int_equal(ppa_strtab_intern(&t, copy), i + 1);
		assert_ptr_equal(t.entries[i + 1].text, names[i]);
		assert_int_equal(t.entries[i + 1].len, strlen(names[i]));
	}
	assert_int_equal(t.n, MANY + 1);
	assert_int_equal(t.err, 0);
	ppa_strtab_free(&t);
}

static void prefixes_are_different_strings(void **state)
{
	struct ppa_strtab t;

	(void)state;
	ppa_strtab_init(&t);
	assert_int_equal(ppa_strtab_intern(&t, "main"), 1);
	assert_int_equal(ppa_strtab_intern(&t, "main.cold"), 2);
	assert_int_equal(ppa_strtab_intern(&t, "mai"), 3);
	assert_int_equal(ppa_strtab_intern(&t, "main"), 1);
	ppa_strtab_free(&t);
}

static void out_of_memory_is_sticky_and_leaks_nothing(void **state)
{
	long budget = 0;
	int err;

	(void)state;
	do {
		struct ppa_strtab t;

		fake_vheap_budget = budget++;
		ppa_strtab_init(&t);
		for (uint32_t i = 0; i < MANY; i++)
			ppa_strtab_intern(&t, names[i]);
		err = t.err;
		if (err) {
			fake_vheap_budget = -1;
			assert_int_equal(ppa_strtab_intern(&t, "later"), 0);
			assert_int_equal(err, -12);
		}
		ppa_strtab_free(&t);
		assert_int_equal(fake_vheap_live, 0);
	} while (err);
	fake_vheap_budget = -1;
	assert_true(budget > 10); /* entries and slots, five doublings: it did fail on the way */
}

static void utf8_span_ends_at_the_first_bad_byte(void **state)
{
	static const struct {
		const char *text;
		size_t span;
	} cases[] = {
		{"", 0},
		{"plain", 5},
		{"caf\xc3\xa9", 5},
		{"caf\xe9", 3},
		{"\xe2\x82\xac!", 4},
		{"\xf0\x9f\x94\xa5", 4},
		{"a\xc3", 1},		 /* cut */
		{"\xc0\x80", 0},	 /* overlong NUL */
		{"\xe0\x9f\xbf", 0},	 /* overlong */
		{"\xf0\x8f\xbf\xbf", 0}, /* overlong */
		{"\xed\xa0\x80", 0},	 /* surrogate */
		{"\xed\x9f\xbf", 3},	 /* the last one before them */
		{"\xf4\x90\x80\x80", 0}, /* above U+10FFFF */
		{"\xf4\x8f\xbf\xbf", 4}, /* U+10FFFF */
		{"ok\x80more", 2},	 /* a continuation alone */
		{"\xe2\x82x", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(ppa_utf8_span(cases[i].text, strlen(cases[i].text)), cases[i].span);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_and_null_are_zero),
		cmocka_unit_test(indices_follow_first_use_through_growth),
		cmocka_unit_test(prefixes_are_different_strings),
		cmocka_unit_test(out_of_memory_is_sticky_and_leaks_nothing),
		cmocka_unit_test(utf8_span_ends_at_the_first_bad_byte),
	};

	for (int i = 0; i < MANY; i++)
		snprintf(names[i], sizeof(names[i]), "fn_%d", i * 7919);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
