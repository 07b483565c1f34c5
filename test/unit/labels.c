// link: agent/profile/labels.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: a thread pool is one label value, and a program that names threads without end has at most 32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/profile/labels.h"

static void check(const char *in, const char *want)
{
	char name[PPA_LABEL_BYTES] = {0}, out[PPA_LABEL_BYTES];

	memcpy(name, in, strnlen(in, sizeof(name) - 1));
	ppa_labels_collapse(name, out);
	assert_string_equal(out, want);
}

static void digits_collapse(void **state)
{
	(void)state;
	check("worker-17", "worker-#");
	check("io12:34x", "io#:#x");
	check("redis-server", "redis-server");
	check("", "");
	check("123456789012345", "#");
	check("tab\there", "tab?here");
}

static void names_without_a_terminator_are_read_to_their_end(void **state)
{
	char name[PPA_LABEL_BYTES], out[PPA_LABEL_BYTES];

	(void)state;
	memset(name, 'x', sizeof(name));
	ppa_labels_collapse(name, out);
	assert_int_equal(strlen(out), PPA_LABEL_BYTES - 1);
}

static void at_most_32_values(void **state)
{
	static struct ppa_labels l;
	char name[PPA_LABEL_BYTES];

	(void)state;
	for (int i = 0; i < 1000; i++) {
		memset(name, 0, sizeof(name));
		snprintf(name, sizeof(name), "%c%c%c", 'a' + i % 26, 'a' + i / 26 % 26, 'a' + i / 676);
		assert_true(ppa_labels_intern(&l, name) < PPA_LABELS_MAX);
		assert_true(l.n <= PPA_LABELS_MAX);
	}
	assert_string_equal(l.values[PPA_LABELS_MAX - 1], "other");
	memset(name, 0, sizeof(name));
	strcpy(name, "aaa");
	assert_int_equal(ppa_labels_intern(&l, name), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digits_collapse),
		cmocka_unit_test(names_without_a_terminator_are_read_to_their_end),
		cmocka_unit_test(at_most_32_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
