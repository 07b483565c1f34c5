/* SPDX-License-Identifier: Apache-2.0 */
// link: proto/gotrace.c proto/perfetto.c @trace proto/sink.c proto/strtab.c proto/utf8.c proto/sound.c test/fakes/traceworld.c test/fakes/vheap.c
/* Promise: memory that runs out, wherever, is -ENOMEM, no leak and no crash, in both formats; the same input gives the
 * same bytes.
 * Promise: a file has about as many events as allowed at most, and the longest waits are in it.
 * Promise: a window without a length is refused, and nothing is written.
 * What is in the files is read by Go's own reader and by protoc in test/e2e. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/gotrace.h"
#include "proto/perfetto.h"
#include "proto/sink.h"
#include "test/fakes/traceworld.h"
#include "test/fakes/vheap.h"

static int go_plainly(const struct ppa_trace_input *in, struct ppa_sink *out)
{
	return ppa_gotrace_encode(in, NULL, out);
}

static int (*const formats[])(const struct ppa_trace_input *, struct ppa_sink *) = {go_plainly, ppa_perfetto_encode};

static void no_memory_is_an_error_everywhere(void **state)
{
	const struct traceworld_options opt = {.seed = 3, .threads = 3, .records_a_thread = 20, .nonsense_percent = 5};
	struct traceworld *world = traceworld_new(&opt);

	(void)state;
	for (size_t i = 0; i < PPA_ARRAY_LEN(formats); i++) {
		int err = -ENOMEM;

		for (long budget = 0; err; budget++) {
			struct ppa_sink out;

			assert_true(budget < 10000);
			ppa_sink_init(&out);
			fake_vheap_budget = budget;
			err = formats[i](traceworld_input(world), &out);
			fake_vheap_budget = -1;
			assert_true(err == 0 || err == -ENOMEM);
			assert_int_equal(err, out.err);
			ppa_sink_free(&out);
			assert_int_equal(fake_vheap_live, 0);
		}
	}
	traceworld_free(world);
}

static void equal_input_equal_bytes(void **state)
{
	const struct traceworld_options opt = {.seed = 4, .threads = 10, .records_a_thread = 40};
	struct traceworld *world = traceworld_new(&opt);

	(void)state;
	for (size_t i = 0; i < PPA_ARRAY_LEN(formats); i++) {
		struct ppa_sink a, b;

		ppa_sink_init(&a);
		ppa_sink_init(&b);
		assert_int_equal(formats[i](traceworld_input(world), &a), 0);
		assert_int_equal(formats[i](traceworld_input(world), &b), 0);
		assert_int_equal(a.len, b.len);
		assert_memory_equal(a.bytes, b.bytes, a.len);
		ppa_sink_free(&a);
		ppa_sink_free(&b);
	}
	traceworld_free(world);
}

static void the_longest_waits_stay(void **state)
{
	enum { N = 30000, T0 = 1000000000 };
	static struct ppa_trace_record records[N];
	struct ppa_trace_piece piece = {records, N};
	struct ppa_trace_thread thread = {.tid = 7, .pieces = &piece, .npieces = 1};
	struct ppa_trace_input in = {.start_ns = T0, .program = "", .threads = &thread, .nthreads = 1};
	struct ppa_sink all, some;
	uint64_t now = T0 + 100;

	(void)state;
	/* 1 in 10 is of 10,000 to 13,000 ns, the others shorter than 100. */
	for (unsigned i = 0; i < N; i++) {
		records[i] = (struct ppa_trace_record){.at_ns = now, .kind = PPA_TRACE_MUTEX};
		now += i % 10 ? 10 + i % 90 : 10000 + i / 10;
		records[i].wait.end_ns = now;
		now += 10;
	}
	in.stop_ns = now + 1000;
	ppa_sink_init(&all);
	ppa_sink_init(&some);
	assert_int_equal(ppa_gotrace_encode(&in, NULL, &all), 0);
	assert_int_equal(ppa_gotrace_encode(&in, &(struct ppa_gotrace_options){.max_events = N / 10 * 3 + 100}, &some),
			 0);
	/* 9 of 10 waits are gone, and a line says so. */
	assert_true(some.len < all.len / 8 && some.len > all.len / 12);
	assert_non_null(memmem(some.bytes, some.len, "27000 waits shorter than ", 25));
	assert_null(memmem(all.bytes, all.len, "shorter than", 12));
	ppa_sink_free(&all);
	ppa_sink_free(&some);
}

static void what_was_lost_is_said(void **state)
{
	struct ppa_trace_thread thread = {.tid = 7, .lost = 30};
	struct ppa_trace_input in = {
		.start_ns = 1000, .stop_ns = 1000000, .program = "", .threads = &thread, .nthreads = 1, .lost = 12};

	(void)state;
	for (size_t i = 0; i < PPA_ARRAY_LEN(formats); i++) {
		struct ppa_sink out;

		ppa_sink_init(&out);
		assert_int_equal(formats[i](&in, &out), 0);
		assert_non_null(memmem(out.bytes, out.len, "42 records lost", 15));
		ppa_sink_free(&out);
	}
}

static void who_leaves_no_sign_is_not_shown_running(void **state)
{
	struct ppa_trace_record sample = {.at_ns = 500000, .kind = PPA_TRACE_SAMPLE};
	struct ppa_trace_piece piece = {&sample, 1};
	struct ppa_trace_thread thread = {.tid = 7, .pieces = &piece, .npieces = 1};
	struct ppa_trace_input in = {
		.start_ns = 1000, .stop_ns = 1000000, .program = "", .threads = &thread, .nthreads = 1};

	(void)state;
	for (thread.npieces = 0; thread.npieces <= 1; thread.npieces++) {
		struct ppa_sink out;

		ppa_sink_init(&out);
		assert_int_equal(ppa_gotrace_encode(&in, NULL, &out), 0);
		assert_int_equal(!memmem(out.bytes, out.len, "not seen running", 16), thread.npieces);
		ppa_sink_free(&out);
	}
}

static void no_window_no_file(void **state)
{
	struct ppa_trace_input in = {.start_ns = 1000, .stop_ns = 1000, .program = ""};

	(void)state;
	for (size_t i = 0; i < PPA_ARRAY_LEN(formats); i++) {
		struct ppa_sink out;

		ppa_sink_init(&out);
		assert_int_equal(formats[i](&in, &out), -EINVAL);
		assert_int_equal(out.len, 0);
		ppa_sink_free(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_memory_is_an_error_everywhere),
		cmocka_unit_test(equal_input_equal_bytes),
		cmocka_unit_test(the_longest_waits_stay),
		cmocka_unit_test(what_was_lost_is_said),
		cmocka_unit_test(who_leaves_no_sign_is_not_shown_running),
		cmocka_unit_test(no_window_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
