/* SPDX-License-Identifier: Apache-2.0 */
// link: http/query.c
/* Promise: a query means to us what it means to Go: the first value of a key wins, a pair with ';' or a bad escape does
 * not exist, an empty value is an absent one, and a number is a number only as a whole. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "http/query.h"

static void gets(const char *query, const char *want)
{
	char buf[32];
	int n = ppa_query_get(query, "seconds", buf, sizeof(buf));

	if (n < 0)
		fail_msg("\"%s\": absent", query);
	assert_int_equal(n, strlen(want));
	assert_string_equal(buf, want);
}

static void misses(const char *query)
{
	char buf[32];

	if (ppa_query_get(query, "seconds", buf, sizeof(buf)) != -ENOENT)
		fail_msg("\"%s\": present", query ? query : "(none)");
}

static void values_are_found_and_decoded(void **state)
{
	(void)state;
	gets("seconds=5", "5");
	gets("a=b&seconds=5&c", "5");
	gets("&&seconds=5&", "5");
	gets("seconds=1+2%2b3%3D", "1 2+3=");
	gets("%73econds=5", "5");
	gets("seconds==", "=");
	gets("seconds=a=b", "a=b");
	gets("xseconds=1&seconds=2&secondsx=3", "2");
}

static void the_first_value_wins(void **state)
{
	(void)state;
	gets("seconds=1&seconds=2", "1");
	misses("seconds=&seconds=2");
	misses("seconds&seconds=2");
}

static void broken_pairs_do_not_exist(void **state)
{
	(void)state;
	misses("debug=1;seconds=1");
	misses("seconds=1;");
	misses("seconds=%");
	misses("seconds=%2");
	misses("seconds=%2&x");
	misses("seconds=%zz");
	misses("seconds=%2g");
	misses("seconds%=1");
	gets("seconds=%zz&seconds=1;&seconds=3", "3");
	gets("x=%zz&seconds=3&y=;", "3");
}

static void absent_is_absent(void **state)
{
	char buf[4];

	(void)state;
	misses(NULL);
	misses("");
	misses("seconds=");
	misses("seconds");
	misses("Seconds=1");
	misses("second=1");
	misses("seconds%00=1");
	assert_int_equal(ppa_query_get("=5", "", buf, sizeof(buf)), 1);
}

static void what_does_not_fit_is_not_cut(void **state)
{
	char buf[4];

	(void)state;
	assert_int_equal(ppa_query_get("a=123", "a", buf, sizeof(buf)), 3);
	assert_int_equal(ppa_query_get("a=1234", "a", buf, sizeof(buf)), -E2BIG);
}

static void integers_follow_go(void **state)
{
	static const struct {
		const char *text;
		int err;
		int64_t value;
	} cases[] = {
		{"0", 0, 0},
		{"30", 0, 30},
		{"+30", 0, 30},
		{"-30", 0, -30},
		{"007", 0, 7},
		{"9223372036854775807", 0, INT64_MAX},
		{"-9223372036854775808", 0, INT64_MIN},
		{"9223372036854775808", -ERANGE, 0},
		{"-9223372036854775809", -ERANGE, 0},
		{"18446744073709551616", -ERANGE, 0},
		{"99999999999999999999999999999999", -ERANGE, 0},
		{"99999999999999999999999999999999x", -EINVAL, 0},
		{"", -EINVAL, 0},
		{"+", -EINVAL, 0},
		{"-", -EINVAL, 0},
		{"--1", -EINVAL, 0},
		{"+-1", -EINVAL, 0},
		{"1.5", -EINVAL, 0},
		{"1e3", -EINVAL, 0},
		{"0x10", -EINVAL, 0},
		{"1_000", -EINVAL, 0},
		{" 1", -EINVAL, 0},
		{"1 ", -EINVAL, 0},
		{"abc", -EINVAL, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int64_t value = 4711;
		int err = ppa_query_parse_int(cases[i].text, &value);

		if (err != cases[i].err || value != (err ? 4711 : cases[i].value))
			fail_msg("\"%s\": %d, %lld", cases[i].text, err, (long long)value);
	}
}

static void integers_in_queries(void **state)
{
	char query[128];
	int64_t value = 0;

	(void)state;
	assert_int_equal(ppa_query_get_int("hz=%31%30", "hz", &value), 0);
	assert_int_equal(value, 10);
	/* A plus in a query is a blank, and a blank is no digit. */
	assert_int_equal(ppa_query_get_int("hz=+10", "hz", &value), -EINVAL);
	assert_int_equal(ppa_query_get_int("hz=%2B10", "hz", &value), 0);
	assert_int_equal(ppa_query_get_int("hz=5%00", "hz", &value), -EINVAL);
	assert_int_equal(ppa_query_get_int("hz=", "hz", &value), -ENOENT);
	snprintf(query, sizeof(query), "hz=%0100d", 7);
	assert_int_equal(ppa_query_get_int(query, "hz", &value), -EINVAL);
}

static void seconds_follow_go(void **state)
{
	static const struct {
		const char *text;
		int err;
		int64_t ns;
	} cases[] = {
		{"1", 0, 1000000000},
		{"0.2", 0, 200000000},
		{".5", 0, 500000000},
		{"5.", 0, 5000000000},
		{"%2B1.5", 0, 1500000000},
		{"-1.5", 0, -1500000000},
		{"0", 0, 0},
		{"1e3", 0, 1000000000000},
		{"25E-1", 0, 2500000000},
		{"1e%2B1", 0, 10000000000},
		{"1e-99999999999999999999", 0, 0},
		{"0e99999999999999999999", 0, 0},
		{"0.0000000001", 0, 0},
		{"0.3333333333333333333333333333333333333", 0, 333333333},
		{"9223372036.854775807", 0, INT64_MAX},
		{"9223372036.854775808", -ERANGE, 0},
		{"9e18", -ERANGE, 0},
		{"1e400", -ERANGE, 0},
		{"99999999999999999999999999", -ERANGE, 0},
		{"abc", -EINVAL, 0},
		{".", -EINVAL, 0},
		{"e5", -EINVAL, 0},
		{"1e", -EINVAL, 0},
		{"1e5x", -EINVAL, 0},
		{"1.5.2", -EINVAL, 0},
		{"1s", -EINVAL, 0},
		{"1%00", -EINVAL, 0},
		{"", -ENOENT, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char query[128];
		int64_t ns = 4711;
		int err;

		snprintf(query, sizeof(query), "seconds=%s", cases[i].text);
		err = ppa_query_get_seconds(query, "seconds", &ns);
		if (err != cases[i].err || ns != (err ? 4711 : cases[i].ns))
			fail_msg("\"%s\": %d, %lld", cases[i].text, err, (long long)ns);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_found_and_decoded), cmocka_unit_test(the_first_value_wins),
		cmocka_unit_test(broken_pairs_do_not_exist),	cmocka_unit_test(absent_is_absent),
		cmocka_unit_test(what_does_not_fit_is_not_cut), cmocka_unit_test(integers_follow_go),
		cmocka_unit_test(integers_in_queries),		cmocka_unit_test(seconds_follow_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
