// link: proto/folded.c proto/stacks.c proto/tuples.c proto/strtab.c proto/sound.c proto/sink.c proto/utf8.c test/fakes/vheap.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: collapsed stacks are what flamegraph.pl and its like read: root first, inlined functions by themselves, one
 * line a stack, the last word its value; no name can break a line or a frame, and nothing is lost in the sum. Memory that
 * runs out is an error and no leak. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/folded.h"
#include "proto/sink.h"
#include "proto/stacks.h"
#include "test/fakes/profile.h"
#include "test/fakes/vheap.h"

static const struct ppa_mapping mappings[] = {
	FAKE_PROGRAM,
	FAKE_LIBRARY,
};
static const struct ppa_function functions[] = {
	FAKE_FUNCTIONS("ns::outer<int, long>", "/src/prog.cc"),
	{"a;b\nc\x7f%\xff\xc3\xa4", "", "", 0},
	{"main", "main", "/other.c", 0}, /* the same to a reader of names */
};
static const struct ppa_line lines[] = {FAKE_LINES, {3, 0}, {4, 0}};
static const struct ppa_location locations[] = {
	FAKE_IN_PROGRAM,	FAKE_IN_LIBRARY,
	FAKE_IN_NO_FILE,	{0x7f0000002004, 1, 2, 1, 0x7f0000001ff0}, /* main elsewhere */
	{0x400200, 0, 4, 1, 0},
};
/* inner<outer<main | hostile<main | inner<outer<main again, at another address */
static const uint32_t stack_locs[] = {0, 1, 2, 4, 0, 3};

static struct ppa_snapshot snapshot(const struct ppa_snap_sample *samples, size_t n)
{
	return (struct ppa_snapshot){
		.name = "heap",
		.nsample_types = 2,
		FAKE_TABLES,
		.samples = samples,
		.nsamples = n,
	};
}

static void assert_folded(const struct ppa_snapshot *s, uint32_t type, const char *want)
{
	struct ppa_sink out;

	ppa_sink_init(&out);
	assert_int_equal(ppa_folded_encode(s, type, &out), 0);
	ppa_sink_write(&out, "", 1);
	assert_string_equal((const char *)out.bytes, want);
	ppa_sink_free(&out);
	assert_int_equal(fake_vheap_live, 0);
}

static const struct ppa_snap_sample samples[] = {
	{0, 2, 0, 0, {1, 10, 0, 0}},	    {2, 2, 0, 0, {2, -20, 0, 0}},
	{4, 2, 0, 0, {4, 40, 0, 0}},					 /* looks like the first */
	{1, 1, 0, 0, {8, INT64_MAX, 0, 0}}, {0, 0, 0, 0, {16, 0, 0, 0}}, /* without a stack */
};

static void golden(void **state)
{
	struct ppa_snapshot s = snapshot(samples, PPA_ARRAY_LEN(samples));

	(void)state;
	assert_folded(&s, 0,
		      "[no stack] 16\n"
		      "main 8\n"
		      "main;ns::outer<int, long>;inner 5\n"
		      "main;a%3Bb%0Ac%7F%?\xc3\xa4 2\n");
	assert_folded(&s, 1,
		      "main 9223372036854775807\n"
		      "main;ns::outer<int, long>;inner 50\n"
		      "main;a%3Bb%0Ac%7F%?\xc3\xa4 -20\n");
}

static void nothing(void **state)
{
	struct ppa_snapshot s = snapshot(NULL, 0);

	(void)state;
	assert_folded(&s, 0, "");
}

/* By place, the two functions called main are two. */
static void places_are_told_apart(void **state)
{
	struct ppa_snapshot s = snapshot(samples, PPA_ARRAY_LEN(samples));
	struct ppa_stacks st;

	(void)state;
	assert_int_equal(ppa_stacks_init(&st, &s, PPA_FRAMES_BY_PLACE), 0);
	assert_int_equal(st.frames.n, 6); /* [no stack], inner, outer, main, hostile, main */
	assert_true(ppa_stacks_are_equal(&st, 0, 2));
	ppa_stacks_free(&st);
	assert_int_equal(ppa_stacks_init(&st, &s, PPA_FRAMES_BY_NAME), 0);
	assert_int_equal(st.frames.n, 5);
	ppa_stacks_free(&st);
}

static void refuses_what_leads_nowhere(void **state)
{
	struct ppa_snap_sample bad = {5, 2, 0, 0, {1, 1, 0, 0}};
	struct ppa_snapshot s = snapshot(&bad, 1);
	struct ppa_sink out;

	(void)state;
	ppa_sink_init(&out);
	assert_int_equal(ppa_folded_encode(&s, 0, &out), -EINVAL);
	s = snapshot(samples, 1);
	assert_int_equal(ppa_folded_encode(&s, 2, &out), -EINVAL);
	assert_int_equal(out.len, 0);
	ppa_sink_free(&out);
}

static void without_memory(void **state)
{
	struct ppa_snapshot s = snapshot(samples, PPA_ARRAY_LEN(samples));
	struct ppa_sink out;
	int err, budget = 0;

	(void)state;
	do {
		ppa_sink_init(&out);
		fake_vheap_budget = budget++;
		err = ppa_folded_encode(&s, 0, &out);
		assert_int_equal(out.err, err);
		ppa_sink_free(&out);
		assert_int_equal(fake_vheap_live, 0);
		assert_true(err == 0 || err == -ENOMEM);
		assert_true(budget < 100);
	} while (err);
	assert_true(budget > 5);
	fake_vheap_budget = -1;
}

/* A thousand stacks from a generator: every one of them is found again, with its sum, whatever the order. */
static void many_stacks_add_up(void **state)
{
	enum { N = 1000, DEPTH = 7 };
	static struct ppa_snap_sample many[N];
	static uint32_t locs[N * DEPTH];
	struct ppa_snapshot s = snapshot(many, N);
	uint64_t seed = 1, sum = 0, total = 0;
	struct ppa_sink out;

	(void)state;
	for (uint32_t i = 0; i < N; i++) {
		many[i] = (struct ppa_snap_sample){i * DEPTH, (uint32_t)(seed >> 33) % DEPTH, 0, 0, {i, 0, 0, 0}};
		sum += i;
		for (int k = 0; k < DEPTH; k++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			locs[i * DEPTH + (uint32_t)k] = (uint32_t)(seed >> 33) % PPA_ARRAY_LEN(locations);
		}
	}
	s.stack_locs = locs;
	s.nstack_locs = PPA_ARRAY_LEN(locs);
	ppa_sink_init(&out);
	assert_int_equal(ppa_folded_encode(&s, 0, &out), 0);
	ppa_sink_write(&out, "", 1);
	for (char *line = strtok((char *)out.bytes, "\n"); line; line = strtok(NULL, "\n"))
		total += strtoull(strrchr(line, ' ') + 1, NULL, 10);
	assert_int_equal(total, sum);
	ppa_sink_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden),
		cmocka_unit_test(nothing),
		cmocka_unit_test(places_are_told_apart),
		cmocka_unit_test(refuses_what_leads_nowhere),
		cmocka_unit_test(without_memory),
		cmocka_unit_test(many_stacks_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
