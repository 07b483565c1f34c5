/* SPDX-License-Identifier: Apache-2.0 */
// link: proto/pprof.c proto/sound.c proto/gzip.c proto/sink.c proto/strtab.c proto/utf8.c test/fakes/vheap.c @nanopb @zlib
/* Promise: every field of a snapshot arrives where profile.proto has it (protoc reads it back and
 * test/golden/ says what it must see).
 * Promise: ids count from 1 in order, string 0 is "", stacks are leaf first; unset is not sent.
 * Promise: a snapshot that points outside itself, or memory that runs out, is an error, not a
 * crash or a leak. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <cmocka.h>

#include "agent/snapshot/snapshot.h"
#include "proto/pprof.h"
#include "proto/sink.h"
#include "test/fakes/vheap.h"

/* One of everything. */
static const struct ppa_mapping mappings[] = {
	{0x400000, 0x402000, 0x1000, "/usr/bin/prog", "0123abcd", true, true, true, true},
	{0x7f0000001000, 0x7f0000009000, 0, "/usr/lib/libm.so.6", "", true, false, false, false},
};
static const struct ppa_function functions[] = {
	{"ns::spin<int>", "_ZN2ns4spinIiEEvv", "/src/spin.cc", 12},
	{"main", "main", "/src/main.c", 3},
	{"sin", "sin", "", 0},
	{"caf\xe9 \xe2\x82\xac", "", "", 0}, /* Latin-1, then a proper euro sign */
};
static const struct ppa_line lines[] = {{0, 15}, {1, 7}, {2, 0}, {3, 0}};
static const struct ppa_location locations[] = {
	{0x400123, 0, 0, 2, 0x400100}, /* spin, inlined into main */
	{0x7f0000002000, 1, 2, 1, 0},
	{UINT64_MAX, PPA_SNAPSHOT_NO_MAPPING, 3, 1, 0},
};
static const uint32_t stack_locs[] = {1, 0, 2, 0};
static const struct ppa_label labels[] = {
	{"worker", "burner", 0, NULL}, {"bytes", NULL, 64, NULL}, {"wait", NULL, -5, "nanoseconds"},
	{"", "no key", 0, NULL},       {NULL, NULL, 9, NULL},
};
static const struct ppa_snap_sample samples[] = {
	{0, 2, 0, 1, {3, 30000000, 0, INT64_MAX}},
	{2, 2, 1, 4, {1, 10000000, -1, INT64_MIN}},
	{0, 0, 0, 0, {7, 0, 0, 0}},
};
static const char *const comments[] = {"lost 2 samples", "cpu 1 ms"};

static struct ppa_snapshot one_of_everything(void)
{
	return (struct ppa_snapshot){
		.name = "heap",
		.sample_types = {{"alloc_objects", "count"},
				 {"alloc_space", "bytes"},
				 {"inuse_objects", "count"},
				 {"inuse_space", "bytes"}},
		.nsample_types = 4,
		.default_sample_type = "alloc_space",
		.period_type = {"space", "bytes"},
		.period = 524288,
		.time_ns = 1700000000123456789,
		.duration_ns = 1000000000,
		.mappings = mappings,
		.nmappings = 2,
		.functions = functions,
		.nfunctions = 4,
		.lines = lines,
		.nlines = 4,
		.locations = locations,
		.nlocations = 3,
		.stack_locs = stack_locs,
		.nstack_locs = 4,
		.labels = labels,
		.nlabels = 5,
		.samples = samples,
		.nsamples = 3,
		.comments = comments,
		.ncomments = 2,
	};
}

/* A CPU profile as it leaves an idle process: no default type, no comment, no samples. */
static struct ppa_snapshot idle_cpu(void)
{
	return (struct ppa_snapshot){
		.name = "profile",
		.sample_types = {{"samples", "count"}, {"cpu", "nanoseconds"}},
		.nsample_types = 2,
		.period_type = {"cpu", "nanoseconds"},
		.period = 10000000,
		.time_ns = 1,
		.duration_ns = 5,
		.mappings = mappings,
		.nmappings = 1,
	};
}

static size_t gunzip(const struct ppa_sink *file, uint8_t *to, size_t cap)
{
	z_stream z = {.zalloc = Z_NULL};

	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	z.next_in = file->bytes;
	z.avail_in = (uInt)file->len;
	z.next_out = to;
	z.avail_out = (uInt)cap;
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	inflateEnd(&z);
	return z.total_out;
}

/* What protoc makes of the encoded snapshot, as text. */
static void decode(const struct ppa_snapshot *s, char *text, size_t cap)
{
	static uint8_t raw[1 << 16];
	char path[] = "/tmp/ppa-pprof-XXXXXX", command[256];
	int fd = mkstemp(path);
	struct ppa_sink out;
	size_t len;
	FILE *from;

	ppa_sink_init(&out);
	assert_int_equal(ppa_pprof_encode(s, &out), 0);
	len = gunzip(&out, raw, sizeof(raw));
	ppa_sink_free(&out);
	assert_int_equal(write(fd, raw, len), len);
	close(fd);
	snprintf(command, sizeof(command), "protoc --decode=ppa.wire.Profile proto/profile.proto <%s 2>&1", path);
	from = popen(command, "r");
	assert_non_null(from);
	len = fread(text, 1, cap - 1, from);
	text[len] = '\0';
	unlink(path);
	if (pclose(from) != 0)
		fail_msg("protoc: %s", text);
}

static void assert_golden(const struct ppa_snapshot *s, const char *path)
{
	static char got[1 << 16], want[1 << 16];
	FILE *f = fopen(path, "r");

	decode(s, got, sizeof(got));
	if (f) {
		want[fread(want, 1, sizeof(want) - 1, f)] = '\0';
		fclose(f);
	}
	if (!f || strcmp(got, want) != 0) {
		fputs(got, stderr);
		fail_msg("the above differs from %s", path);
	}
}

static void every_field_arrives(void **state)
{
	struct ppa_snapshot s = one_of_everything();

	(void)state;
	assert_golden(&s, "test/golden/pprof-everything.txt");
}

static void what_is_unset_is_not_sent(void **state)
{
	struct ppa_snapshot s = idle_cpu();

	(void)state;
	assert_golden(&s, "test/golden/pprof-idle-cpu.txt");
}

static void the_same_snapshot_gives_the_same_bytes(void **state)
{
	struct ppa_snapshot s = one_of_everything();
	struct ppa_sink a, b;

	(void)state;
	ppa_sink_init(&a);
	ppa_sink_init(&b);
	assert_int_equal(ppa_pprof_encode(&s, &a), 0);
	assert_int_equal(ppa_pprof_encode(&s, &b), 0);
	assert_int_equal(a.len, b.len);
	assert_memory_equal(a.bytes, b.bytes, a.len);
	ppa_sink_free(&a);
	ppa_sink_free(&b);
	assert_int_equal(fake_vheap_live, 0);
}

/* One index after the other is set one past the end. */
static void assert_refused(const struct ppa_snapshot *s)
{
	struct ppa_sink out;

	ppa_sink_init(&out);
	assert_int_equal(ppa_pprof_encode(s, &out), -22);
	assert_int_equal(out.len, 0);
	assert_int_equal(out.err, 0);
	ppa_sink_free(&out);
}

static void an_index_past_the_end_is_refused(void **state)
{
	struct ppa_snapshot s = one_of_everything();
	struct ppa_snap_sample far_stack = {3, 2, 0, 0, {0}}, far_label = {0, 0, 5, 1, {0}};
	struct ppa_snap_sample wraps = {4, UINT32_MAX, 0, 0, {0}};
	struct ppa_location far_line = {1, 0, 4, 1, 0}, far_mapping = {1, 2, 0, 1, 0};
	struct ppa_line far_function = {4, 0};
	uint32_t far_loc = 3;

	(void)state;
	s.nsamples = 1;
	s.samples = &far_stack;
	assert_refused(&s);
	s.samples = &far_label;
	assert_refused(&s);
	s.samples = &wraps;
	assert_refused(&s);
	s = one_of_everything();
	s.nsamples = 0;
	s.nlocations = 1;
	s.nstack_locs = 0;
	s.locations = &far_line;
	assert_refused(&s);
	s.locations = &far_mapping;
	assert_refused(&s);
	s = one_of_everything();
	s.nlocations = 0;
	s.nstack_locs = 0;
	s.nsamples = 0;
	s.nlines = 1;
	s.lines = &far_function;
	assert_refused(&s);
	s = one_of_everything();
	s.nsamples = 0;
	s.nstack_locs = 1;
	s.stack_locs = &far_loc;
	assert_refused(&s);
	s = one_of_everything();
	s.nsample_types = PPA_SNAPSHOT_MAX_VALUES + 1;
	assert_refused(&s);
	s.nsample_types = 0;
	assert_refused(&s);
}

static void every_refused_allocation_is_an_error_and_no_leak(void **state)
{
	struct ppa_snapshot s = one_of_everything();
	long budget = 0;
	int err;

	(void)state;
	do {
		struct ppa_sink out;

		ppa_sink_init(&out);
		fake_vheap_budget = budget++;
		err = ppa_pprof_encode(&s, &out);
		assert_true(err == 0 || err == -12);
		assert_int_equal(out.err, err);
		ppa_sink_free(&out);
		assert_int_equal(fake_vheap_live, 0);
	} while (err);
	fake_vheap_budget = -1;
	assert_true(budget > 8);
}

static void an_error_in_the_sink_stays(void **state)
{
	struct ppa_snapshot s = idle_cpu();
	struct ppa_sink out;

	(void)state;
	ppa_sink_init(&out);
	out.err = -12;
	assert_int_equal(ppa_pprof_encode(&s, &out), -12);
	assert_int_equal(out.len, 0);
	ppa_sink_free(&out);
}

/* Far more than any buffer on the way holds: ten thousand stacks of 200 frames and as many names.
 */
static void a_large_profile_is_whole(void **state)
{
	enum { N = 10000, DEPTH = 200 };
	struct ppa_snapshot s = idle_cpu();
	struct ppa_function *f = calloc(N, sizeof(*f));
	struct ppa_line *l = calloc(N, sizeof(*l));
	struct ppa_location *loc = calloc(N, sizeof(*loc));
	struct ppa_snap_sample *sample = calloc(N, sizeof(*sample));
	uint32_t *stack = calloc((size_t)N * DEPTH, sizeof(*stack));
	char(*name)[16] = calloc(N, sizeof(*name));
	uint8_t *raw = malloc(1 << 24);
	struct ppa_sink out;
	size_t len;

	(void)state;
	for (uint32_t i = 0; i < N; i++) {
		snprintf(name[i], sizeof(name[i]), "name_%u", i);
		f[i] = (struct ppa_function){name[i], name[i], "", 0};
		l[i] = (struct ppa_line){i, 0};
		loc[i] = (struct ppa_location){0x400000 + i, 0, i, 1, 0};
		sample[i] = (struct ppa_snap_sample){i * DEPTH, DEPTH, 0, 0, {1, 10000000}};
		for (uint32_t j = 0; j < DEPTH; j++)
			stack[i * DEPTH + j] = (i * 31 + j * 17) % N;
	}
	s.functions = f, s.nfunctions = N, s.lines = l, s.nlines = N, s.locations = loc;
	s.nlocations = N, s.stack_locs = stack, s.nstack_locs = (size_t)N * DEPTH;
	s.samples = sample, s.nsamples = N;
	ppa_sink_init(&out);
	assert_int_equal(ppa_pprof_encode(&s, &out), 0);
	len = gunzip(&out, raw, 1 << 24);
	assert_true(len > (size_t)N * DEPTH);
	assert_memory_equal(raw + len - strlen("name_9999"), "name_9999", strlen("name_9999"));
	ppa_sink_free(&out);
	assert_int_equal(fake_vheap_live, 0);
	free(f), free(l), free(loc), free(sample), free(stack), free(name), free(raw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_arrives),
		cmocka_unit_test(what_is_unset_is_not_sent),
		cmocka_unit_test(the_same_snapshot_gives_the_same_bytes),
		cmocka_unit_test(an_index_past_the_end_is_refused),
		cmocka_unit_test(every_refused_allocation_is_an_error_and_no_leak),
		cmocka_unit_test(an_error_in_the_sink_stays),
		cmocka_unit_test(a_large_profile_is_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
