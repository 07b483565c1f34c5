// link: http/html.c http/process.c proto/sink.c proto/utf8.c test/fakes/vheap.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: no name of the target's becomes markup; values are told as people say them; the kernel's texts are read
 * whatever a program is called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "http/html.h"
#include "http/process.h"
#include "http/reply.h"

void ppa_reply_send(struct ppa_request *r, const struct ppa_reply *h, const void *body, size_t len)
{
	(void)r, (void)h, (void)body, (void)len;
}

void ppa_reply_error(struct ppa_request *r, int status, const char *line)
{
	(void)r, (void)status, (void)line;
}

static void names_stay_names(void **state)
{
	static const char name[] = "a<b>&\"c'\n\x7f\xff\xc3\xa4";
	struct ppa_sink page;

	(void)state;
	ppa_sink_init(&page);
	ppa_html_text(&page, name, sizeof(name) - 1);
	ppa_sink_write(&page, "", 1);
	assert_string_equal((const char *)page.bytes, "a&lt;b&gt;&amp;&quot;c&#39;???\xc3\xa4");
	ppa_sink_free(&page);
}

static void values(void **state)
{
	static const struct {
		int64_t v;
		const char *unit, *want;
	} all[] = {
		{0, "bytes", "0 B"},
		{1023, "bytes", "1023 B"},
		{1024, "bytes", "1.00 KiB"},
		{-1536, "bytes", "-1.50 KiB"},
		{40 << 20, "bytes", "40.0 MiB"},
		{INT64_C(500) << 30, "bytes", "500 GiB"},
		{INT64_MIN, "bytes", "-8388608 TiB"},
		{999, "nanoseconds", "999 ns"},
		{4560000, "nanoseconds", "4.56 ms"},
		{599000000000, "nanoseconds", "599 s"},
		{600000000000, "nanoseconds", "10.0 min"},
		{36000000000000, "nanoseconds", "10.0 h"},
		{0, "count", "0"},
		{999, "count", "999"},
		{-1234567, "count", "-1,234,567"},
		{INT64_MAX, "count", "9,223,372,036,854,775,807"},
	};
	char buf[PPA_HTML_VALUE_MAX];

	(void)state;
	for (size_t i = 0; i < PPA_ARRAY_LEN(all); i++)
		assert_string_equal(ppa_html_value(buf, all[i].v, all[i].unit), all[i].want);
}

static void assert_duration(uint64_t seconds, const char *want)
{
	struct ppa_sink page;

	ppa_sink_init(&page);
	ppa_html_add_duration(&page, seconds * 1000000000);
	ppa_sink_write(&page, "", 1);
	assert_string_equal((const char *)page.bytes, want);
	ppa_sink_free(&page);
}

static void durations(void **state)
{
	(void)state;
	assert_duration(0, "0 s");
	assert_duration(59, "59 s");
	assert_duration(60, "1 min");
	assert_duration(3599, "59 min 59 s");
	assert_duration(86400 * 3 + 3600 * 4 + 59, "3 d 4 h");
	assert_duration(3605, "1 h");
}

static void kernel_texts(void **state)
{
	static const char status[] = "Name:\tVmRSS: 7\nVmHWM:\t   2048 kB\nVmRSS:\t     1024 kB\nThreads:\t3\n";
	static const char stat[] = "4711 (a) 5 (b) S 1 2 3 4 5 6 7 8 9 10 140 150 160 170 20 0 2 0 12345 9\n";
	struct ppa_process p;

	(void)state;
	assert_int_equal(ppa_process_status_number(status, "VmRSS:"), 1024);
	assert_int_equal(ppa_process_status_number(status, "VmHWM:"), 2048);
	assert_int_equal(ppa_process_status_number(status, "VmSwap:"), 0);
	assert_int_equal(ppa_process_status_number("", "VmRSS:"), 0);
	assert_int_equal(ppa_process_stat_field(stat, 14), 140);
	assert_int_equal(ppa_process_stat_field(stat, 22), 12345);
	assert_int_equal(ppa_process_stat_field(stat, 60), 0);
	assert_int_equal(ppa_process_stat_field("", 22), 0);
	ppa_process_look(&p);
	assert_int_equal(p.pid, getpid());
	assert_string_equal(p.program, "html");
	assert_true(p.rss_bytes > 0 && p.rss_peak_bytes >= p.rss_bytes);
	assert_true(p.uptime_ns < UINT64_C(3600000000000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_stay_names),
		cmocka_unit_test(values),
		cmocka_unit_test(durations),
		cmocka_unit_test(kernel_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
