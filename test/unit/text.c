// link: proto/text.c proto/order.c proto/threads.c proto/sound.c proto/sink.c test/fakes/vheap.c -lm
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: debug=1 looks as Go's does (test/golden/ says what it must see), and what pprof makes of the heap's numbers
 * is what the profile for pprof says. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/sink.h"
#include "proto/text.h"
#include "test/fakes/profile.h"
#include "test/fakes/vheap.h"

static const struct ppa_mapping mappings[] = {
	FAKE_PROGRAM,
	FAKE_LIBRARY,
};
static const struct ppa_function functions[] = {
	FAKE_FUNCTIONS("ns::outer<int>", "/src/prog.cc"),
	{"[other stacks]", "", "", 0},
};
static const struct ppa_line lines[] = {FAKE_LINES, {3, 0}};
static const struct ppa_location locations[] = {
	FAKE_IN_PROGRAM,
	FAKE_IN_LIBRARY,
	FAKE_IN_NO_FILE,
};
static const uint32_t stack_locs[] = {0, 1, 2, 1};
static const struct ppa_label labels[] = {
	{"age_seconds", NULL, 60, NULL}, {"backing", "file", 1, NULL}, {"bytes", NULL, 64, NULL}};

static struct ppa_snapshot base(enum ppa_form form, const char *name, uint32_t ntypes)
{
	return (struct ppa_snapshot){
		.name = name,
		.form = form,
		.nsample_types = ntypes,
		.period = 1,
		FAKE_TABLES,
		.labels = labels,
		.nlabels = PPA_ARRAY_LEN(labels),
	};
}

/* The text, to be freed. */
static char *text_of(const struct ppa_snapshot *s)
{
	struct ppa_sink out;
	char *text;

	ppa_sink_init(&out);
	assert_int_equal(ppa_text_encode(s, &out), 0);
	text = calloc(1, out.len + 1);
	assert_non_null(text);
	memcpy(text, out.bytes, out.len);
	ppa_sink_free(&out);
	assert_int_equal(fake_vheap_live, 0);
	return text;
}

static void assert_golden(const struct ppa_snapshot *s, const char *path)
{
	char *text = text_of(s), want[8192];
	FILE *f = fopen(path, "r");
	size_t n;

	if (!f)
		fail_msg("no %s; it should hold:\n%s", path, text);
	n = fread(want, 1, sizeof(want) - 1, f);
	want[n] = '\0';
	fclose(f);
	assert_string_equal(text, want);
	free(text);
}

static void heap_text(void **state)
{
	static const struct ppa_snap_sample samples[] = {
		{3, 1, 2, 1, {7, 448, 0, 0}}, /* all freed */
		{0, 2, 2, 1, {1000, 64000, 500, 32000}},
		{2, 1, 2, 1, {2, 4000000, 1, 2000000}},
	};
	struct ppa_snapshot s = base(PPA_FORM_HEAP, "heap", 4);

	(void)state;
	s.samples = samples;
	s.nsamples = PPA_ARRAY_LEN(samples);
	s.text_tail = "\n# runtime.MemStats\n# Alloc = 5\n";
	assert_golden(&s, "test/golden/text-heap.txt");
}

static void count_text(void **state)
{
	static const struct ppa_snap_sample samples[] = {{3, 1, 1, 1, {2, 4096, 0, 0}}, {0, 2, 0, 1, {5, 64, 0, 0}}};
	struct ppa_snapshot s = base(PPA_FORM_COUNT, "threadcreate", 2);

	(void)state;
	s.samples = samples;
	s.nsamples = PPA_ARRAY_LEN(samples);
	assert_golden(&s, "test/golden/text-count.txt");
}

static void contention_text(void **state)
{
	static const struct ppa_snap_sample samples[] = {{3, 1, 0, 0, {2, 4096, 0, 0}},
							 {0, 2, 0, 0, {5, 999999, 0, 0}}};
	struct ppa_snapshot s = base(PPA_FORM_CONTENTION, "block", 2);

	(void)state;
	s.samples = samples;
	s.nsamples = PPA_ARRAY_LEN(samples);
	assert_golden(&s, "test/golden/text-contention.txt");
	s.name = "mutex";
	s.nsamples = 0;
	assert_golden(&s, "test/golden/text-mutex-idle.txt");
}

static void nothing_allocated(void **state)
{
	struct ppa_snapshot s = base(PPA_FORM_HEAP, "heap", 4);
	char *text = text_of(&s);

	(void)state;
	/* Equal totals in the head would make pprof read two columns. */
	assert_int_equal(strncmp(text, "heap profile: 0: 0 [0: 1] @ heap/2\n", 35), 0);
	free(text);
}

/* What pprof does to a pair of numbers (profile/legacy_profile.go, scaleHeapSample). */
static void rescale(int64_t *objects, int64_t *bytes, int64_t rate)
{
	double mean, scale;

	if (!*objects || !*bytes || rate <= 1)
		return;
	mean = (double)*bytes / (double)*objects;
	scale = 1 / (1 - exp(-mean / (double)rate));
	*objects = (int64_t)((double)*objects * scale);
	*bytes = (int64_t)((double)*bytes * scale);
}

/* The sums of a text's records after pprof's scaling. */
static void sums_of(const char *text, int64_t rate, int64_t sum[4])
{
	memset(sum, 0, 4 * sizeof(*sum));
	for (const char *line = strchr(text, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
		int64_t v[4];

		if (*line == '\n')
			continue; /* sscanf would go on to the next line */
		if (sscanf(line, "%" SCNd64 ": %" SCNd64 " [%" SCNd64 ": %" SCNd64 "] @", &v[2], &v[3], &v[0], &v[1]) !=
		    4)
			continue;
		assert_false(v[0] == 0 && v[1] != 0);
		assert_false(v[2] == 0 && v[3] != 0);
		rescale(&v[0], &v[1], rate);
		rescale(&v[2], &v[3], rate);
		for (int k = 0; k < 4; k++)
			sum[k] += v[k];
	}
}

/* A few samples of each size, weighted with its own size and not the class's, as the agent does it. */
static void totals_survive_the_reader(void **state)
{
	enum { N = 3000 };
	struct ppa_snap_sample *samples = calloc(N, sizeof(*samples));
	unsigned seed = 1;

	(void)state;
	/* At rates of a few bytes the reader's own rounding is more than 1 %. */
	for (int64_t rate = 1; rate <= 1 << 24; rate = rate == 1 ? 512 : 8 * rate) {
		struct ppa_snapshot s = base(PPA_FORM_HEAP, "heap", 4);
		int64_t want[4] = {0, 0, 0, 0}, got[4];
		char *text;

		for (int i = 0; i < N; i++) {
			double size = pow(2, (double)(rand_r(&seed) % 2200) / 100);
			double objects = (1 + rand_r(&seed) % 5) / (1 - exp(-(floor(size) + 1) / (double)rate));
			int64_t *v = samples[i].values;

			samples[i].nlocs = 1;
			v[0] = (int64_t)objects;
			v[1] = (int64_t)(objects * floor(size));
			v[2] = i % 2 ? v[0] : 0;
			v[3] = i % 2 ? v[1] : 0;
			for (int k = 0; k < 4; k++)
				want[k] += v[k];
		}
		s.samples = samples;
		s.nsamples = N;
		s.period = rate;
		text = text_of(&s);
		sums_of(text, rate, got);
		free(text);
		for (int k = 0; k < 4; k++)
			if (fabs((double)(got[k] - want[k])) > 0.01 * (double)want[k] + 10)
				fail_msg("rate %" PRId64 ", type %d: %" PRId64 ", should be %" PRId64, rate, k, got[k],
					 want[k]);
	}
	free(samples);
}

static void refused_memory_is_an_error(void **state)
{
	static const struct ppa_snap_sample samples[] = {{0, 2, 0, 1, {5, 64, 0, 0}}};
	struct ppa_snapshot s = base(PPA_FORM_COUNT, "mmap", 2);
	int err;

	(void)state;
	s.samples = samples;
	s.nsamples = 1;
	for (int budget = 0; budget < 10; budget++) {
		struct ppa_sink out;

		ppa_sink_init(&out);
		fake_vheap_budget = budget;
		err = ppa_text_encode(&s, &out);
		fake_vheap_budget = -1;
		assert_int_equal(err, out.err);
		ppa_sink_free(&out);
		assert_int_equal(fake_vheap_live, 0);
		if (!err)
			return;
	}
	fail_msg("never enough memory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heap_text),
		cmocka_unit_test(count_text),
		cmocka_unit_test(contention_text),
		cmocka_unit_test(nothing_allocated),
		cmocka_unit_test(totals_survive_the_reader),
		cmocka_unit_test(refused_memory_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
