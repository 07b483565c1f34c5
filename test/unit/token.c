/* SPDX-License-Identifier: Apache-2.0 */
// link: http/token.c http/access.c http/net.c
/* Promise: the token admits, nothing else does; a file that cannot be used admits nobody and is told in one line, and what
 * is in the file counts at once.
 * Promise: a wrong token costs the same instructions whatever of it is right.
 * Promise: what a page of another origin is behind is told apart. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/base/log.h"
#include "http/access.h"
#include "http/token.h"

static int lines;
static char last[600], path[64];

void ppa_log(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(last, sizeof(last), fmt, ap);
	va_end(ap);
	lines++;
}

static void put(const char *text, mode_t mode)
{
	char fresh[80];
	FILE *f;

	/* As a rotation does it: another file in its place. */
	snprintf(fresh, sizeof(fresh), "%s.new", path);
	f = fopen(fresh, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(chmod(fresh, mode), 0);
	assert_int_equal(rename(fresh, path), 0);
}

static void offers_are_read(void **unused)
{
	static const struct {
		const char *header, *offered;
	} cases[] = {
		{"Bearer s3cret", "s3cret"},
		{"bEARER   s3cret  ", "s3cret"},
		{"Basic dXNlcjpzM2NyZXQ=", "s3cret"}, /* user:s3cret */
		{"basic OnMzY3JldA==", "s3cret"},     /* :s3cret */
		{"Basic dTphOmI=", "a:b"},	      /* u:a:b */
		{"Basic dTphOmI", "a:b"},
		{"Basic dXNlcg==", ""}, /* user */
		{"Basic dXNlcjpzM2NyZXQ=!", ""},
		{"Basic ***", ""},
		{"Basic", ""},
		{"Basic ", ""},
		{"Bearer", ""},
		{"Bearer ", ""},
		{"Bearers3cret", ""},
		{"Digest s3cret", ""},
		{"s3cret", ""},
		{"", ""},
	};
	char buf[PPA_TOKEN_MAX];

	(void)unused;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t n = ppa_token_offered(cases[i].header, buf);

		if (n != strlen(cases[i].offered) || memcmp(buf, cases[i].offered, n))
			fail_msg("%s: %.*s", cases[i].header, (int)n, buf);
	}
}

static void offers_of_any_length_fit(void **unused)
{
	char header[4 * PPA_TOKEN_MAX], buf[PPA_TOKEN_MAX];

	(void)unused;
	for (size_t n = 0; n < 3 * PPA_TOKEN_MAX; n++) {
		snprintf(header, sizeof(header), "Bearer %.*s", (int)n, "");
		memset(header + 7, 'x', n);
		header[7 + n] = '\0';
		assert_int_equal(ppa_token_offered(header, buf), n <= PPA_TOKEN_MAX ? n : 0);
		memcpy(header, "Basic OjpB", 10); /* "::A", then c71c71... */
		if (n > 3)
			assert_true(ppa_token_offered(header, buf) <= PPA_TOKEN_MAX);
	}
}

static void files_hold_one_word(void **unused)
{
	const char *token, *why;
	char text[PPA_TOKEN_MAX + 4];

	(void)unused;
	assert_int_equal(ppa_token_parse("\n s3cret \r\n", 11, &token, &why), 6);
	assert_memory_equal(token, "s3cret", 6);
	assert_int_equal(ppa_token_parse("", 0, &token, &why), 0);
	assert_int_equal(ppa_token_parse(" \n", 2, &token, &why), 0);
	assert_string_equal(why, "is empty");
	assert_int_equal(ppa_token_parse("a b", 3, &token, &why), 0);
	assert_int_equal(ppa_token_parse("a\0b", 3, &token, &why), 0);
	assert_int_equal(ppa_token_parse("\xc3\xa4", 2, &token, &why), 0);
	memset(text, 'x', sizeof(text));
	assert_int_equal(ppa_token_parse(text, PPA_TOKEN_MAX, &token, &why), PPA_TOKEN_MAX);
	assert_int_equal(ppa_token_parse(text, PPA_TOKEN_MAX + 1, &token, &why), 0);
}

static void the_file_decides(void **unused)
{
	static const struct {
		const char *text;
		mode_t mode;
		const char *why;
	} bad[] = {
		{"", 0600, "is empty"},
		{"one two", 0600, "one word"},
		{"s3cret", 0644, "open to everybody"},
		{"s3cret", 0602, "open to everybody"},
		{"s3cret", 0620, "open to everybody"},
	};

	(void)unused;
	put("s3cret\n", 0600);
	lines = 0;
	ppa_token_set_file(path);
	assert_int_equal(lines, 0);
	assert_true(ppa_token_admits("Bearer s3cret"));
	assert_false(ppa_token_admits("Bearer s3cret2"));
	assert_false(ppa_token_admits("Bearer s3cre"));
	assert_false(ppa_token_admits("Bearer "));
	assert_false(ppa_token_admits(NULL));
	put("rotated", 0640);
	assert_false(ppa_token_admits("Bearer s3cret"));
	assert_true(ppa_token_admits("Basic dTpyb3RhdGVk"));
	assert_int_equal(lines, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		put(bad[i].text, bad[i].mode);
		lines = 0;
		for (int k = 0; k < 3; k++) {
			assert_false(ppa_token_admits("Bearer s3cret"));
			assert_false(ppa_token_admits(NULL));
		}
		assert_int_equal(lines, 1);
		if (!strstr(last, bad[i].why) || !strstr(last, path))
			fail_msg("%s: %s", bad[i].why, last);
		put("s3cret", 0600);
		assert_true(ppa_token_admits("Bearer s3cret"));
		assert_int_equal(lines, 2);
	}
	assert_int_equal(unlink(path), 0);
	assert_false(ppa_token_admits("Bearer s3cret"));
	assert_non_null(strstr(last, "does not exist"));
	/* What blocks whoever opens it, and what is no file. */
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_false(ppa_token_admits("Bearer s3cret"));
	assert_int_equal(unlink(path), 0);
}

static void odd_settings_admit_nobody(void **unused)
{
	static char huge[5000];
	const char *const odd[] = {"relative", "/", "/nonexistent/x", "/dev/null", " ", huge};

	(void)unused;
	memset(huge, '/', sizeof(huge) - 1);
	for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
		lines = 0;
		ppa_token_set_file(odd[i]);
		assert_int_equal(lines, 1);
		assert_false(ppa_token_admits(NULL));
		assert_false(ppa_token_admits("Bearer "));
		assert_false(ppa_token_admits("Bearer x"));
	}
	ppa_token_set_file("");
	assert_true(ppa_token_admits(NULL));
	assert_true(ppa_token_admits("Bearer whatever"));
}

/* Instructions of one comparison, counted one by one. */
static long steps_of(const char *given, const char *token)
{
	size_t given_len = strlen(given), token_len = strlen(token);
	long steps = 0;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		ppa_token_equals(given, given_len, token, token_len); /* resolves what is bound late */
		raise(SIGSTOP);
		ppa_token_equals(given, given_len, token, token_len);
		syscall(231 /* exit_group */, 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	while (WIFSTOPPED(status)) {
		if (ptrace(PTRACE_SINGLESTEP, pid, 0, 0)) {
			kill(pid, SIGKILL);
			steps = -1;
		}
		waitpid(pid, &status, 0);
		steps++;
	}
	return steps;
}

static void wrong_tokens_cost_the_same(void **unused)
{
	static const char token[] = "0123456789abcdefghijklmnopqrstuv";
	char given[sizeof(token)];
	long first = 0;

	(void)unused;
	/* The first right bytes right, the others wrong; all right at the end. */
	for (size_t right = 0; right < sizeof(token); right += right < 4 ? 1 : 4) {
		long n;

		memset(given, 'X', sizeof(given) - 1);
		given[sizeof(given) - 1] = '\0';
		memcpy(given, token, right);
		n = steps_of(given, token);
		if (n <= 0)
			skip(); /* ptrace is forbidden */
		assert_true(n > PPA_TOKEN_MAX);
		first = first ? first : n;
		if (n != first)
			fail_msg("%zu bytes right: %ld instructions, none right: %ld", right, n, first);
	}
	assert_int_equal(steps_of(token, token), first);
	print_message("[ %ld instructions whatever is right ]\n", first);
}

static void other_origins_are_told_apart(void **unused)
{
	static const struct {
		const char *site, *origin, *host;
		bool is_allowed;
	} cases[] = {
		{NULL, NULL, "localhost:6060", true},
		{NULL, NULL, NULL, true},
		{"none", NULL, "localhost", true},
		{"same-origin", NULL, "localhost", true},
		{"Same-Origin", "https://elsewhere.example", "localhost", true}, /* behind a proxy */
		{"same-site", NULL, "localhost", false},
		{"cross-site", NULL, "localhost", false},
		{"cross-site", "http://localhost", "localhost", false},
		{"", NULL, "localhost", false},
		{"nones", NULL, "localhost", false},
		{NULL, "http://localhost:6060", "localhost:6060", true},
		{NULL, "https://LOCALHOST:6060", "localhost:6060", true},
		{NULL, "http://localhost:3000", "localhost:6060", false},
		{NULL, "http://evil.example", "localhost:6060", false},
		{NULL, "http://localhost:6060.evil.example", "localhost:6060", false},
		{NULL, "http://localhost:60", "localhost:6060", false},
		{NULL, "null", "localhost:6060", false},
		{NULL, "", "", false},
		{NULL, "http://localhost", NULL, false},
		{NULL, "chrome-extension://abc", "localhost", false},
	};

	(void)unused;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (ppa_access_origin_is_allowed(cases[i].site, cases[i].origin, cases[i].host) != cases[i].is_allowed)
			fail_msg("case %zu", i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(offers_are_read),
		cmocka_unit_test(offers_of_any_length_fit),
		cmocka_unit_test(files_hold_one_word),
		cmocka_unit_test(the_file_decides),
		cmocka_unit_test(odd_settings_admit_nobody),
		cmocka_unit_test(wrong_tokens_cost_the_same),
		cmocka_unit_test(other_origins_are_told_apart),
	};

	snprintf(path, sizeof(path), "/tmp/ppa-token-%d", getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
