// link: proto/threads.c proto/sound.c proto/sink.c test/fakes/vheap.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: debug=2 of goroutine looks as Go's does, one block a thread, whatever names hold; and a snapshot that
 * contradicts itself is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/sink.h"
#include "proto/threads.h"
#include "test/fakes/profile.h"
#include "test/fakes/vheap.h"

static const struct ppa_mapping mappings[] = {
	FAKE_PROGRAM,
};
static const struct ppa_function functions[] = {
	FAKE_FUNCTIONS("ns::outer<int>", "/src/prog.cc"),
	{"std::thread::_M_start_thread", "", "", 0},
	{"[running]", "", "", 0},
};
static const struct ppa_line lines[] = {FAKE_LINES, {3, 0}, {4, 0}};
static const struct ppa_location locations[] = {
	FAKE_IN_PROGRAM,
	{0x400205, 0, 2, 1, 0x400200},
	{0x400301, 0, 3, 1, 0x400300},
	{0x10, PPA_SNAPSHOT_NO_MAPPING, 4, 1, 0},
};
static const uint32_t stack_locs[] = {0, 1, 2, 1, 3};
static const struct ppa_label labels[] = {
	{"tid", NULL, 22, NULL},	{"state", "sleep", 0, NULL},
	{"minutes", NULL, 3, NULL},	{"name", "wor\"k\x01 \xc3", 0, NULL},
	{"created_by", NULL, 17, NULL}, {"tid", NULL, 23, NULL},
	{"state", "running", 0, NULL},	{"minutes", NULL, 0, NULL},
	{"name", "", 0, NULL},
};
static const char *const comments[] = {"pprofagent: one"};

static const struct ppa_snap_sample samples[] = {
	{0, 2, 0, 4, {1}},
	{2, 2, 4, 1, {0}},
	{4, 1, 5, 4, {1}},
};

static struct ppa_snapshot snapshot(void)
{
	return (struct ppa_snapshot){
		.name = "goroutine",
		.form = PPA_FORM_THREADS,
		.nsample_types = 1,
		FAKE_TABLES,
		.labels = labels,
		.nlabels = PPA_ARRAY_LEN(labels),
		.samples = samples,
		.nsamples = PPA_ARRAY_LEN(samples),
		.comments = comments,
		.ncomments = PPA_ARRAY_LEN(comments),
	};
}

static void blocks_look_as_go_prints_them(void **state)
{
	static const char expected[] = "goroutine 22 [sleep, 3 minutes, \"wor\\x22k\\x01 \\xc3\"]:\n"
				       "inner(...)\n"
				       "\t/src/prog.c:5\n"
				       "ns::outer<int>(...)\n"
				       "\t/src/prog.cc:12 +0x23\n"
				       "main(...)\n"
				       "\t/usr/bin/prog +0x5\n"
				       "created by main in goroutine 17\n"
				       "\t/usr/bin/prog +0x5\n"
				       "\n"
				       "goroutine 23 [running]:\n"
				       "[running](...)\n"
				       "\t?\n"
				       "\n"
				       "# pprofagent: one\n";
	struct ppa_snapshot s = snapshot();
	struct ppa_sink out;

	(void)state;
	ppa_sink_init(&out);
	assert_int_equal(ppa_threads_encode(&s, &out), 0);
	assert_int_equal(out.len, sizeof(expected) - 1);
	assert_memory_equal(out.bytes, expected, sizeof(expected) - 1);
	ppa_sink_free(&out);
}

/* So many that the text moves in memory while what it repeats stands in it. */
static void what_is_repeated_looks_as_the_first_time(void **state)
{
	enum { TIMES = 2000 };
	static struct ppa_snap_sample many[2 * TIMES];
	struct ppa_snapshot s = snapshot();
	struct ppa_sink out;
	size_t block;

	(void)state;
	for (size_t i = 0; i < PPA_ARRAY_LEN(many); i++)
		many[i] = samples[i % 2];
	s.samples = many;
	s.nsamples = PPA_ARRAY_LEN(many);
	s.ncomments = 0;
	ppa_sink_init(&out);
	assert_int_equal(ppa_threads_encode(&s, &out), 0);
	assert_int_equal(out.len % TIMES, 0);
	block = out.len / TIMES;
	assert_memory_equal(out.bytes + block - 2, "\n\n", 2);
	for (size_t i = 1; i < TIMES; i++)
		assert_memory_equal(out.bytes + i * block, out.bytes, block);
	ppa_sink_free(&out);
}

static void a_snapshot_that_contradicts_itself_is_refused(void **state)
{
	struct ppa_snapshot s = snapshot();
	struct ppa_sink out;

	(void)state;
	s.nlocations = 2;
	ppa_sink_init(&out);
	assert_int_equal(ppa_threads_encode(&s, &out), -EINVAL);
	assert_int_equal(out.len, 0);
	ppa_sink_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_look_as_go_prints_them),
		cmocka_unit_test(what_is_repeated_looks_as_the_first_time),
		cmocka_unit_test(a_snapshot_that_contradicts_itself_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
