/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/name/inflate.c unwind/name/inflated.c unwind/name/elf_file.c agent/base/sys.c test/fakes/vheap.c @zlib
/* Promise: a compressed section reads as what was compressed, whatever zlib made of it, wherever one reads first, and also after its
 * image was given back; then only what is around the place is inflated again.
 * Promise: streams that are cut, damaged, too long or too short are refused, files that change meanwhile and memory that runs out
 * cost what was asked for, and nothing is read or written outside. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "test/fakes/vheap.h"
#include "unwind/name/inflated.h"

enum { BYTES = 3 << 20, BEFORE = 100, READS = 50, NEAR = 40000 };

static uint8_t text[BYTES];
static uint64_t state = 1;
static size_t nfetched, cut_at;

static uint32_t chance(uint32_t n)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(state >> 33) % n;
}

/* Like debug information: pieces of what came before, near and far, and new bytes of few kinds. */
static void make_text(void)
{
	for (size_t at = 0; at < BYTES;) {
		size_t far = chance(4) ? 1 + chance(300) : 1 + chance(70000), len = 3 + chance(chance(50) ? 20 : 600);

		if (chance(3) && far <= at) {
			for (; len && at < BYTES; len--, at++)
				text[at] = text[at - far];
		} else {
			text[at] = (uint8_t)(chance(2) ? chance(16) : chance(256));
			at++;
		}
	}
}

/* What is compressed, behind some other bytes of the file; *len is that of the file. */
static uint8_t *packed(const uint8_t *bytes, size_t n, int level, int strategy, int memory, size_t *len)
{
	size_t cap = BEFORE + n + n / 8 + 1000;
	uint8_t *file = malloc(cap);
	z_stream z;

	memset(file, 0xee, BEFORE);
	memset(&z, 0, sizeof(z));
	assert_int_equal(deflateInit2(&z, level, Z_DEFLATED, 15, memory, strategy), Z_OK);
	z.next_in = (uint8_t *)bytes;
	z.avail_in = (uInt)n;
	z.next_out = file + BEFORE;
	z.avail_out = (uInt)(cap - BEFORE);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	*len = BEFORE + z.total_out;
	deflateEnd(&z);
	return file;
}

static int read_counting(const struct ppa_elf_source *s, void *dst, size_t len, uint64_t offset)
{
	if (cut_at && offset + len > cut_at)
		return -EIO;
	memcpy(dst, s->bytes + offset, len);
	nfetched += len;
	return 0;
}

static struct ppa_elf_source source_of(const uint8_t *file, size_t len)
{
	struct ppa_elf_source s;

	ppa_elf_source_bytes(&s, file, len);
	s.read = read_counting;
	return s;
}

static void have(struct ppa_inflated *z, const struct ppa_elf_source *s, uint64_t at)
{
	uint64_t from, to;
	const uint8_t *image = ppa_inflated_have(z, s, at, &from, &to);

	assert_non_null(image);
	assert_true(from <= at && at < to && to <= z->size);
	to = to - at < NEAR ? to : at + NEAR;
	assert_memory_equal(image + at, text + at, to - at);
}

/* So that nothing is found where it was by accident. */
static void shed(struct ppa_inflated *z)
{
	memset(z->image, 0xee, z->size);
	ppa_inflated_shed(z);
}

static void reads_as_written(size_t n, int level, int strategy, int memory)
{
	size_t len;
	uint8_t *file = packed(text, n, level, strategy, memory, &len);
	struct ppa_elf_source s = source_of(file, len);
	struct ppa_inflated z = {.at = 0};

	for (unsigned round = 0; round < 3; round++) {
		assert_int_equal(ppa_inflated_open(&z, &s, BEFORE, len, n), 0);
		/* The first time near the middle, so that the second goes on from there. */
		for (unsigned i = 0; i < READS; i++)
			have(&z, &s, i ? chance((uint32_t)n) : n / 2);
		if (round == 1)
			for (uint64_t at = 0; at < n; at += NEAR)
				have(&z, &s, at);
		assert_null(ppa_inflated_have(&z, &s, n, &(uint64_t){0}, &(uint64_t){0}));
		assert_int_equal(z.err, 0);
		assert_true(ppa_inflated_place_bytes(&z) <= n / 8 + 8192);
		shed(&z);
		assert_int_equal(ppa_inflated_image_bytes(&z), 0);
	}
	ppa_inflated_free(&z);
	assert_int_equal(fake_vheap_live, 0);
	free(file);
}

static void whatever_zlib_writes(void **unused)
{
	static const size_t sizes[] = {1, 2, 100, 40000, (256 << 10) + 1, BYTES};

	(void)unused;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (int level = 0; level <= 9; level += 3)
			reads_as_written(sizes[i], level, Z_DEFAULT_STRATEGY, 8);
		reads_as_written(sizes[i], 6, Z_FIXED, 8);
		reads_as_written(sizes[i], 6, Z_HUFFMAN_ONLY, 8);
		reads_as_written(sizes[i], 6, Z_RLE, 9);
		reads_as_written(sizes[i], 9, Z_DEFAULT_STRATEGY, 1);
	}
}

static void around_the_place_only(void **unused)
{
	size_t len;
	uint8_t *file = packed(text, BYTES, 9, Z_DEFAULT_STRATEGY, 8, &len);
	struct ppa_elf_source s = source_of(file, len);
	struct ppa_inflated z = {.at = 0};

	(void)unused;
	/* From the beginning no further than asked for. */
	nfetched = 0;
	assert_int_equal(ppa_inflated_open(&z, &s, BEFORE, len, BYTES), 0);
	have(&z, &s, BYTES / 3);
	assert_in_range(nfetched, len / 4, len / 2 + len / 16);
	have(&z, &s, BYTES - 1);
	for (int i = 0; i < 20; i++) {
		shed(&z);
		nfetched = 0;
		have(&z, &s, chance(BYTES));
		/* A piece and a block are some 330 KiB of 3 MiB at most, and a bit is read ahead. */
		assert_in_range(nfetched, 1, len / 5);
	}
	/* What is there is not inflated again. */
	nfetched = 0;
	have(&z, &s, 0);
	have(&z, &s, 0);
	assert_in_range(nfetched, 1, len / 5);
	ppa_inflated_free(&z);
	free(file);
}

static void another_stream_is_another(void **unused)
{
	size_t len[2];
	uint8_t *a = packed(text, 600000, 6, Z_DEFAULT_STRATEGY, 8, &len[0]);
	uint8_t *b = packed(text, 600000, 1, Z_DEFAULT_STRATEGY, 8, &len[1]);
	struct ppa_elf_source s = source_of(a, len[0]), other = source_of(b, len[1]);
	struct ppa_inflated z = {.at = 0};

	(void)unused;
	assert_int_equal(ppa_inflated_open(&z, &s, BEFORE, len[0], 600000), 0);
	have(&z, &s, 599999);
	assert_int_equal(ppa_inflated_open(&z, &other, BEFORE, len[1], 600000), 0);
	assert_int_equal(ppa_inflated_place_bytes(&z), 0);
	have(&z, &other, 599999);
	/* The same file has become another while places were kept: refused, or rubbish, and never more than that. */
	shed(&z);
	ppa_inflated_have(&z, &s, 400000, &(uint64_t){0}, &(uint64_t){0});
	/* A file that is shorter by now is an error, until it is opened again. */
	ppa_inflated_free(&z);
	assert_int_equal(ppa_inflated_open(&z, &s, BEFORE, len[0], 600000), 0);
	cut_at = len[0] / 2;
	assert_null(ppa_inflated_have(&z, &s, 599999, &(uint64_t){0}, &(uint64_t){0}));
	assert_int_equal(z.err, -EIO);
	cut_at = 0;
	assert_null(ppa_inflated_have(&z, &s, 599999, &(uint64_t){0}, &(uint64_t){0}));
	assert_int_equal(ppa_inflated_open(&z, &s, BEFORE, len[0], 600000), 0);
	have(&z, &s, 599999);
	ppa_inflated_free(&z);
	assert_int_equal(fake_vheap_live, 0);
	free(a);
	free(b);
}

/* The last byte, of a file that ends in the middle of nowhere (for sanitizers). */
static int last_of(const uint8_t *file, size_t len, size_t size)
{
	uint8_t *copy = memcpy(malloc(len), file, len);
	struct ppa_elf_source s = source_of(copy, len);
	struct ppa_inflated z = {.at = 0};
	uint64_t from, to;
	int err = ppa_inflated_open(&z, &s, BEFORE, len, size);

	if (!err && !ppa_inflated_have(&z, &s, size - 1, &from, &to)) {
		assert_int_not_equal(z.err, 0);
		err = z.err;
	}
	ppa_inflated_free(&z);
	assert_int_equal(fake_vheap_live, 0);
	free(copy);
	return err;
}

static void what_is_damaged_is_refused(void **unused)
{
	enum { SIZE = 40000, ENDLESS = 600000 };
	static uint8_t zeros[ENDLESS];
	size_t len, n;
	uint8_t *file = packed(text, SIZE, 6, Z_DEFAULT_STRATEGY, 8, &len);

	(void)unused;
	assert_int_equal(last_of(file, len, SIZE), 0);
	assert_int_equal(last_of(file, len, SIZE + 1), -EIO);
	assert_int_equal(last_of(file, len, SIZE - 1), -EIO);
	assert_int_equal(last_of(file, len, len * 2000), -EFBIG);
	/* Its checksum of four bytes is not looked at. */
	for (n = BEFORE; n < len - 4; n += 1 + chance(20))
		assert_int_not_equal(last_of(file, n, SIZE), 0);
	for (int i = 0; i < 3000; i++) {
		size_t at = BEFORE + chance((uint32_t)(i % 2 ? 300 : len - BEFORE));
		uint8_t was = file[at];

		file[at] ^= (uint8_t)(1u << chance(8));
		last_of(file, len, SIZE);
		file[at] = was;
	}
	free(file);
	/* Noise, which is mostly no stream; and zeros, which are one that never ends a match. */
	for (int i = 0; i < 3000; i++) {
		uint8_t noise[BEFORE + 200] = {0};

		for (n = BEFORE; n < sizeof(noise); n++)
			noise[n] = (uint8_t)chance(256);
		noise[BEFORE] = 0x78;
		noise[BEFORE + 1] = 0x9c;
		last_of(noise, BEFORE + 2 + chance(199), 1 + chance(100000));
	}
	file = packed(zeros, ENDLESS, 9, Z_DEFAULT_STRATEGY, 9, &len);
	assert_int_equal(last_of(file, len, ENDLESS), 0);
	free(file);
}

static void memory_may_run_out(void **unused)
{
	size_t len;
	uint8_t *file = packed(text, BYTES, 6, Z_DEFAULT_STRATEGY, 8, &len);
	struct ppa_elf_source s = source_of(file, len);
	struct ppa_inflated z = {.at = 0};
	uint64_t from, to;
	long n = 0;

	(void)unused;
	do {
		fake_vheap_budget = n++;
		assert_int_equal(ppa_inflated_open(&z, &s, BEFORE, len, BYTES), 0);
		if (!ppa_inflated_have(&z, &s, BYTES - 1, &from, &to))
			assert_int_equal(z.err, -ENOMEM);
		fake_vheap_budget = -1;
	} while (z.err);
	assert_in_range(n, 5, 100);
	ppa_inflated_free(&z);
	assert_int_equal(fake_vheap_live, 0);
	free(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whatever_zlib_writes),	     cmocka_unit_test(around_the_place_only),
		cmocka_unit_test(another_stream_is_another), cmocka_unit_test(what_is_damaged_is_refused),
		cmocka_unit_test(memory_may_run_out),
	};

	make_text();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
