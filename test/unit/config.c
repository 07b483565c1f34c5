// link: agent/config.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: every setting has one place; a bad value is one line and the default; off is off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/log.h"
#include "agent/config.h"

static int lines;
static char last[600];

void ppa_log(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(last, sizeof(last), fmt, ap);
	va_end(ap);
	lines++;
}

void ppa_log_set_quiet(bool quiet)
{
	(void)quiet;
}

#define ENV(...) ((char *const[]){__VA_ARGS__, NULL})

static struct ppa_config read_env(char *const *env)
{
	struct ppa_config c;

	lines = 0;
	ppa_config_read(env, &c);
	return c;
}

static void off_is_recognised(void **state)
{
	(void)state;
	assert_true(ppa_config_is_off(ENV("HOME=/")));
	assert_true(ppa_config_is_off(ENV("PPROF_ADDR=")));
	assert_true(ppa_config_is_off(ENV("PPROF_ADDR=0")));
	assert_false(ppa_config_is_off(ENV("PPROF_ADDR=:0")));
	assert_true(ppa_config_is_off(ENV("PPROF_ADDR=:1", "PPROF_ADDR_VAR=X_ADDR")));
	assert_false(ppa_config_is_off(ENV("X_ADDR=:1", "PPROF_ADDR_VAR=X_ADDR")));
}

static void defaults_stand(void **state)
{
	struct ppa_config c = read_env(ENV("PPROF_ADDR=:6060"));

	(void)state;
	assert_string_equal(c.addr, ":6060");
	assert_int_equal(c.cpu_hz, 100);
	assert_false(c.quiet);
	assert_true(ppa_config_lists(c.skip, "dash"));
	assert_false(ppa_config_lists(c.skip, "das"));
	assert_false(ppa_config_lists(c.skip, "redis-server"));
	assert_int_equal(lines, 0);
}

static void another_variable_gives_the_address(void **state)
{
	struct ppa_config c = read_env(ENV("PPROF_ADDR=:1", "PPROF_ADDR_VAR=HCO_PPROF_ADDR", "HCO_PPROF_ADDR=:8085"));

	(void)state;
	assert_string_equal(c.addr, ":8085");
}

static void bad_numbers_are_one_line_and_the_default(void **state)
{
	static const char *const bad[] = {"0", "1001", "-5", "abc", "10x", " 10", "99999999999999999999", "1e2"};
	char env[64];

	(void)state;
	for (size_t i = 0; i < PPA_ARRAY_LEN(bad); i++) {
		struct ppa_config c;

		snprintf(env, sizeof(env), "PPROF_CPU_HZ=%s", bad[i]);
		c = read_env(ENV("PPROF_ADDR=:1", env));
		assert_int_equal(c.cpu_hz, 100);
		assert_int_equal(lines, 1);
		assert_non_null(strstr(last, "PPROF_CPU_HZ"));
	}
	assert_int_equal(read_env(ENV("PPROF_CPU_HZ=250")).cpu_hz, 250);
	assert_int_equal(lines, 0);
}

static void overlong_text_is_one_line_and_the_default(void **state)
{
	char env[PPA_CONFIG_TEXT_MAX + 64] = "PPROF_ADDR_FILE=";

	(void)state;
	memset(env + strlen(env), 'x', PPA_CONFIG_TEXT_MAX);
	assert_string_equal(read_env(ENV("PPROF_ADDR=:1", env)).addr_file, "");
	assert_int_equal(lines, 1);
}

static void every_row_is_described(void **state)
{
	char row[1024];
	unsigned n = 0;

	(void)state;
	while (ppa_config_describe(n, row, sizeof(row)) > 0) {
		assert_non_null(strstr(row, "PPROF_"));
		n++;
	}
	assert_true(n >= 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(off_is_recognised),
		cmocka_unit_test(defaults_stand),
		cmocka_unit_test(another_variable_gives_the_address),
		cmocka_unit_test(bad_numbers_are_one_line_and_the_default),
		cmocka_unit_test(overlong_text_is_one_line_and_the_default),
		cmocka_unit_test(every_row_is_described),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
