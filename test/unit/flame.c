// link: proto/flame.c proto/hottest.c proto/json.c proto/order.c proto/stacks.c proto/tuples.c proto/strtab.c proto/sound.c proto/sink.c proto/utf8.c test/fakes/vheap.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: the data of the flame graph page is JSON that no name can leave, in which every value of the snapshot is, be
 * there ever so many stacks; the tables' sums are what a reader of stacks gets. Memory that runs out is an error and no
 * leak. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/flame.h"
#include "proto/hottest.h"
#include "proto/json.h"
#include "proto/sink.h"
#include "proto/stacks.h"
#include "test/fakes/profile.h"
#include "test/fakes/vheap.h"

static const struct ppa_mapping mappings[] = {
	FAKE_PROGRAM,
	FAKE_LIBRARY,
};
static const struct ppa_function functions[] = {
	FAKE_FUNCTIONS("ns::outer<int>", ""),
	{"</script>\"\\\x01\xff", "", "", 0},
};
static const struct ppa_line lines[] = {FAKE_LINES, {3, 0}};
static const struct ppa_location locations[] = {
	FAKE_IN_PROGRAM,
	FAKE_IN_LIBRARY,
	FAKE_IN_NO_FILE,
};
static const uint32_t stack_locs[] = {0, 1, 2, 1, 1, 1};
static const struct ppa_label labels[] = {{"thread", "w-#", 0, NULL}, {"bytes", NULL, -64, NULL}};

static struct ppa_snapshot snapshot(const struct ppa_snap_sample *samples, size_t n)
{
	return (struct ppa_snapshot){
		.name = "heap",
		.nsample_types = 2,
		.sample_types = {{"objects", "count"}, {"space", "bytes"}},
		FAKE_TABLES,
		.labels = labels,
		.nlabels = PPA_ARRAY_LEN(labels),
		.samples = samples,
		.nsamples = n,
	};
}

static const struct ppa_snap_sample samples[] = {
	{0, 2, 0, 2, {1, 10, 0, 0}}, /* inner < outer < main */
	{2, 2, 0, 0, {2, -20, 0, 0}},
	{0, 2, 0, 1, {4, 40, 0, 0}},
	{4, 2, 0, 0, {8, 5, 0, 0}}, /* main calls itself */
};

static int encode(const struct ppa_snapshot *s, struct ppa_sink *out)
{
	struct ppa_stacks st;
	int err = ppa_stacks_init(&st, s, PPA_FRAMES_BY_PLACE);

	if (!err)
		err = ppa_flame_encode(&st, 1, out);
	ppa_stacks_free(&st);
	return err;
}

static void golden(void **state)
{
	struct ppa_snapshot s = snapshot(samples, PPA_ARRAY_LEN(samples));
	struct ppa_sink out;

	(void)state;
	ppa_sink_init(&out);
	assert_int_equal(encode(&s, &out), 0);
	ppa_sink_write(&out, "", 1);
	/* Frames: 0 [no stack], 1 inner, 2 outer, 3 main, 4 the hostile one. Sorted: main outer inner, main main, main hostile. */
	assert_string_equal(
		(const char *)out.bytes,
		"{\"types\":[[\"objects\",\"count\"],[\"space\",\"bytes\"]],\"selected\":1,\"main\":\"prog\",\n"
		"\"stacks\":[0,3,3,2,1,2,2,0,1,1,10,1,0,4,40,1,1,3,1,0,8,5,1,1,4,1,0,2,-20],\n"
		"\"labels\":[[\"thread\",\"w-#\"],[\"bytes\",\"-64\"]],\n"
		"\"frames\":[1,0,0,2,3,4,5,3,0,6,7,0,8,0,0],\n"
		"\"strings\":[\"\",\"[no stack]\",\"inner\",\"prog\",\"/src/prog.c\",\"ns::outer\\u003cint\\u003e\","
		"\"main\",\"libshr.so\",\"\\u003c/"
		"script\\u003e\\u0022\\u005c\\u0001?\",\"thread\",\"w-#\",\"bytes\"]}\n");
	ppa_sink_free(&out);
	assert_int_equal(fake_vheap_live, 0);
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
		err = encode(&s, &out);
		ppa_sink_free(&out);
		assert_int_equal(fake_vheap_live, 0);
		assert_true(err == 0 || err == -ENOMEM);
		assert_true(budget < 100);
	} while (err);
	assert_true(budget > 5);
	fake_vheap_budget = -1;
}

static int64_t next_number(char **p)
{
	int64_t v = strtoll(*p, p, 10);

	assert_true(**p == ',' || **p == ']');
	++*p;
	return v;
}

/* More stacks than a page should have: the heaviest are told, the others added up, and nothing is lost. */
static void too_many_stacks(void **state)
{
	enum { N = PPA_FLAME_STACKS_MAX + 1000 };
	struct ppa_snap_sample *many = calloc(N, sizeof(*many));
	struct ppa_snapshot s = snapshot(many, N);
	int64_t sum = 0, want = 0, nentries = 0, small = 0;
	struct ppa_sink out;
	char *p;

	(void)state;
	for (uint32_t i = 0; i < N; i++) {
		many[i] = (struct ppa_snap_sample){i % 2 * 2, 2, 0, 0, {1, i, 0, 0}};
		want += i;
	}
	ppa_sink_init(&out);
	assert_int_equal(encode(&s, &out), 0);
	ppa_sink_write(&out, "", 1);
	assert_non_null(strstr((char *)out.bytes, "[smaller stacks]"));
	p = strstr((char *)out.bytes, "\"stacks\":[") + strlen("\"stacks\":[");
	while (p[-1] != ']') {
		next_number(&p);
		for (int64_t more = next_number(&p); more > 0; more--)
			next_number(&p);
		for (int64_t n = next_number(&p); n > 0; n--, nentries++) {
			assert_int_equal(next_number(&p), 0);
			next_number(&p);
			sum += small = next_number(&p);
		}
	}
	assert_int_equal(sum, want);
	assert_int_equal(nentries, PPA_FLAME_STACKS_MAX + 1);
	assert_int_equal(small, 999 * 1000 / 2); /* the last entry: 0 to 999 */
	ppa_sink_free(&out);
	free(many);
}

static void tables(void **state)
{
	struct ppa_snapshot s = snapshot(samples, PPA_ARRAY_LEN(samples));
	struct ppa_hot hot[8];
	struct ppa_stacks st;

	(void)state;
	assert_int_equal(ppa_stacks_init(&st, &s, PPA_FRAMES_BY_PLACE), 0);
	assert_int_equal(ppa_hottest_functions(&st, 1, hot, 8), 4);
	assert_int_equal(hot[0].index, 1); /* inner */
	assert_int_equal(hot[0].self, 50);
	assert_int_equal(hot[0].total, 50);
	assert_int_equal(hot[1].self, -20); /* the largest amount, not the largest value */
	assert_int_equal(hot[2].index, 3);  /* main: recursion counts once */
	assert_int_equal(hot[2].self, 5);
	assert_int_equal(hot[2].total, 35);
	assert_int_equal(hot[3].index, 2); /* outer is never a leaf */
	assert_int_equal(hot[3].self, 0);
	assert_int_equal(hot[3].total, 50);
	assert_int_equal(ppa_hottest_functions(&st, 1, hot, 2), 2);
	assert_int_equal(ppa_hottest_stacks(&st, 1, hot, 8), 3);
	assert_int_equal(hot[0].total, 50); /* two samples of one stack */
	assert_true(ppa_stacks_are_equal(&st, hot[0].index, 0));
	assert_int_equal(hot[2].total, 5);
	fake_vheap_budget = 1;
	assert_int_equal(ppa_hottest_functions(&st, 1, hot, 8), -ENOMEM);
	fake_vheap_budget = 0;
	assert_int_equal(ppa_hottest_stacks(&st, 1, hot, 8), -ENOMEM);
	fake_vheap_budget = -1;
	ppa_stacks_free(&st);
	assert_int_equal(fake_vheap_live, 0);
}

static void numbers(void **state)
{
	static const int64_t all[] = {0, 7, -1, INT64_MAX, INT64_MIN};
	struct ppa_sink out;

	(void)state;
	ppa_sink_init(&out);
	for (size_t i = 0; i < PPA_ARRAY_LEN(all); i++) {
		ppa_json_number(&out, all[i]);
		ppa_sink_write(&out, " ", 1);
	}
	ppa_sink_write(&out, "", 1);
	assert_string_equal((const char *)out.bytes, "0 7 -1 9223372036854775807 -9223372036854775808 ");
	ppa_sink_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden), cmocka_unit_test(without_memory), cmocka_unit_test(too_many_stacks),
		cmocka_unit_test(tables), cmocka_unit_test(numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
