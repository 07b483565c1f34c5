/* SPDX-License-Identifier: Apache-2.0 */
// link: proto/gzip.c proto/sink.c test/fakes/vheap.c @zlib
/* Promise: what comes out of gunzip is what went in, whatever the sizes of the writes.
 * Promise: the same content gives the same file, without a time or a name in it.
 * Promise: a refused allocation, zlib's included, is an error, never a leak; what the sink held
 * before stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <cmocka.h>

#include "proto/gzip.h"
#include "proto/sink.h"
#include "test/fakes/vheap.h"

enum { BYTES = 300000 };
static uint8_t content[BYTES];

/* Noise and runs in turn, so that zlib has both stored and compressed blocks to write. */
static void fill(void)
{
	uint32_t x = 12345;

	for (size_t i = 0; i < BYTES; i++) {
		x = x * 1664525 + 1013904223;
		content[i] = i / 40000 % 2 ? (uint8_t)(i / 100) : (uint8_t)(x >> 24);
	}
}

/* Write content in pieces of 1, step, 1, step, … bytes. */
static int compress_in_steps(struct ppa_sink *out, size_t total, size_t step)
{
	struct ppa_gzip *g = ppa_gzip_open(out);
	size_t at = 0;

	if (!g)
		return -12;
	for (int odd = 0; at < total; odd = !odd) {
		size_t n = odd ? step : 1;

		if (n > total - at)
			n = total - at;
		ppa_gzip_write(g, content + at, n);
		at += n;
	}
	return ppa_gzip_close(g);
}

static void assert_holds_content(const uint8_t *file, size_t len, size_t total)
{
	uint8_t *got = malloc(total + 1);
	z_stream z = {.zalloc = Z_NULL};

	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	z.next_in = (Bytef *)(uintptr_t)file;
	z.avail_in = (uInt)len;
	z.next_out = got;
	z.avail_out = (uInt)total + 1;
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.avail_in, 0);
	assert_int_equal(z.total_out, total);
	assert_memory_equal(got, content, total);
	inflateEnd(&z);
	free(got);
}

static void any_write_sizes_give_the_content_back(void **state)
{
	static const size_t totals[] = {0, 1, 16383, 16384, 16385, 32768, BYTES};
	static const size_t steps[] = {1, 7, 4096, 16383, 16384, 16385, 100000};

	(void)state;
	for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
		for (size_t j = 0; j < sizeof(steps) / sizeof(steps[0]); j++) {
			struct ppa_sink out;

			ppa_sink_init(&out);
			assert_int_equal(compress_in_steps(&out, totals[i], steps[j]), 0);
			assert_holds_content(out.bytes, out.len, totals[i]);
			ppa_sink_free(&out);
		}
	}
	assert_int_equal(fake_vheap_live, 0);
}

static void the_file_depends_on_the_content_only(void **state)
{
	struct ppa_sink a, b;

	(void)state;
	ppa_sink_init(&a);
	ppa_sink_init(&b);
	assert_int_equal(compress_in_steps(&a, BYTES, 3), 0);
	assert_int_equal(compress_in_steps(&b, BYTES, 50000), 0);
	assert_int_equal(a.len, b.len);
	assert_memory_equal(a.bytes, b.bytes, a.len);
	/* Magic, deflate, no flags (so no name), time 0. */
	assert_memory_equal(a.bytes, "\x1f\x8b\x08\0\0\0\0\0", 8);
	ppa_sink_free(&a);
	ppa_sink_free(&b);
}

static void a_file_is_appended_to_the_sink(void **state)
{
	struct ppa_sink out;

	(void)state;
	ppa_sink_init(&out);
	ppa_sink_write(&out, "head", 4);
	assert_int_equal(compress_in_steps(&out, 1000, 10), 0);
	assert_memory_equal(out.bytes, "head", 4);
	assert_holds_content(out.bytes + 4, out.len - 4, 1000);
	ppa_sink_free(&out);
}

static void every_refused_allocation_is_an_error_and_no_leak(void **state)
{
	long budget = 0;
	int err;

	(void)state;
	do {
		struct ppa_sink out;

		ppa_sink_init(&out);
		fake_vheap_budget = -1;
		ppa_sink_write(&out, "head", 4);
		fake_vheap_budget = budget++;
		err = compress_in_steps(&out, BYTES, 1000);
		assert_true(err == 0 || err == -12);
		assert_memory_equal(out.bytes, "head", 4);
		ppa_sink_free(&out);
		assert_int_equal(fake_vheap_live, 0);
	} while (err);
	fake_vheap_budget = -1;
	assert_true(budget > 8); /* the writer, zlib's five, the sink's doublings */
}

static void a_sink_with_an_error_takes_no_more(void **state)
{
	struct ppa_sink out;

	(void)state;
	ppa_sink_init(&out);
	ppa_sink_write(&out, content, 100);
	fake_vheap_budget = 0;
	ppa_sink_write(&out, content, BYTES);
	fake_vheap_budget = -1;
	assert_int_equal(out.err, -12);
	ppa_sink_write(&out, content, 1);
	assert_int_equal(out.len, 100);
	ppa_sink_free(&out);
	assert_null(out.bytes);
	assert_int_equal(out.err, 0);
}

static void a_length_that_overflows_is_refused(void **state)
{
	struct ppa_sink out;

	(void)state;
	ppa_sink_init(&out);
	ppa_sink_write(&out, content, 10);
	ppa_sink_write(&out, content, SIZE_MAX - 5);
	assert_int_equal(out.err, -12);
	assert_int_equal(out.len, 10);
	ppa_sink_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_write_sizes_give_the_content_back),
		cmocka_unit_test(the_file_depends_on_the_content_only),
		cmocka_unit_test(a_file_is_appended_to_the_sink),
		cmocka_unit_test(every_refused_allocation_is_an_error_and_no_leak),
		cmocka_unit_test(a_sink_with_an_error_takes_no_more),
		cmocka_unit_test(a_length_that_overflows_is_refused),
	};

	fill();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
