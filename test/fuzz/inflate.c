/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/name/inflate.c unwind/name/inflated.c unwind/name/elf_file.c agent/base/sys.c test/fakes/vheap.c @zlib
/* Promise: no bytes make the reader of compressed sections fault, leak or write beyond what it was given, in one go or from block to
 * block; what zlib inflates it inflates to the same bytes, also when it begins in the middle with nothing but the history there;
 * and what zlib takes for damaged before that it never takes for more.
 *
 * Input: how large the section claims to be (16 bits) and in what steps to go on (8 bits), then the stream, without zlib's head. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "test/fakes/vheap.h"
#include "unwind/name/inflate.h"
#include "unwind/name/inflated.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 3, MOST = 1 << 17 };

static void check(bool is_true)
{
	if (!is_true)
		abort();
}

/* What zlib makes of it: how many bytes, in out; *is_good: to the end. */
static size_t reference(const uint8_t *in, size_t n, uint8_t *out, bool *is_good)
{
	z_stream z;
	int status;

	memset(&z, 0, sizeof(z));
	check(inflateInit2(&z, -15) == Z_OK);
	z.next_in = (uint8_t *)in;
	z.avail_in = (uInt)n;
	z.next_out = out;
	z.avail_out = MOST;
	status = inflate(&z, Z_FINISH);
	*is_good = status == Z_STREAM_END;
	n = MOST - z.avail_out;
	inflateEnd(&z);
	return n;
}

/* From block to block, each time into an image that has nothing but the history. */
static void piecewise(const struct ppa_elf_source *s, const uint8_t *wanted, size_t n, uint64_t step)
{
	struct ppa_inflate_place place = {0, 0};
	bool is_last = false;

	while (!is_last) {
		uint64_t from = place.byte, history = from < PPA_INFLATE_HISTORY ? from : PPA_INFLATE_HISTORY;
		uint8_t *image = malloc(n + !n);

		memset(image, 0xee, n);
		memcpy(image + from - history, wanted + from - history, history);
		check(ppa_inflate(s, 0, s->size, &place, image, from + 1 + step, n, &is_last) == 0);
		check(place.byte <= n && memcmp(image + from, wanted + from, place.byte - from) == 0);
		free(image);
		if (place.byte == n)
			break;
	}
	check(place.byte == n);
}

/* As a section, with zlib's head. */
static void as_section(const uint8_t *data, size_t size, uint64_t claimed, uint64_t step)
{
	uint8_t *stream = malloc(size + 2);
	struct ppa_inflated z = {.at = 0};
	struct ppa_elf_source s;
	uint64_t from, to, sum = 0;

	stream[0] = 0x78;
	stream[1] = 0x9c;
	memcpy(stream + 2, data, size);
	ppa_elf_source_bytes(&s, stream, size + 2);
	for (int round = 0; round < 2; round++) {
		if (ppa_inflated_open(&z, &s, 0, size + 2, claimed))
			continue;
		for (uint64_t at = round ? claimed / 2 : 0; at < claimed; at = to + step * step * step / 64) {
			const uint8_t *image = ppa_inflated_have(&z, &s, at, &from, &to);

			if (!image)
				break;
			check(from <= at && at < to && to <= claimed);
			for (; from < to; from++)
				sum += image[from];
		}
		ppa_inflated_shed(&z);
	}
	check(sum != UINT64_MAX);
	ppa_inflated_free(&z);
	free(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t wanted[MOST];
	struct ppa_inflate_place place = {0, 0};
	struct ppa_elf_source s;
	bool is_good, is_last;
	uint8_t *stream, *image;
	uint64_t claimed, step;
	size_t n;

	if (size < HEAD)
		return 0;
	claimed = data[0] | (uint64_t)data[1] << 8;
	step = data[2];
	size -= HEAD;
	stream = memcpy(malloc(size + !size), data + HEAD, size);
	ppa_elf_source_bytes(&s, stream, size);
	n = reference(stream, size, wanted, &is_good);
	image = malloc(n + !n);
	if (is_good) {
		check(ppa_inflate(&s, 0, size, &place, image, UINT64_MAX, n, &is_last) == 0);
		check(is_last && place.byte == n && memcmp(image, wanted, n) == 0);
		piecewise(&s, wanted, n, step * step);
	} else if (ppa_inflate(&s, 0, size, &place, image, n, n, &is_last) == 0) {
		check(place.byte <= n && memcmp(image, wanted, place.byte) == 0);
	}
	as_section(stream, size, claimed, step);
	free(image);
	free(stream);
	check(!fake_vheap_live);
	return 0;
}
