/* SPDX-License-Identifier: Apache-2.0
 *
 * DEFLATE (RFC 1951) that stops between two blocks and goes on from there another day.
 *
 * zlib's reader, which we link, can do that too, at half the speed; and inflating is most of what a compressed debug file
 * costs. What is inflated lands in an image of the whole section, where it belongs: so history is what lies before it, and
 * to go on somewhere the last PPA_INFLATE_HISTORY bytes before that place must be there. */
#ifndef PPA_UNWIND_NAME_INFLATE_H
#define PPA_UNWIND_NAME_INFLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/name/elf_file.h"

enum { PPA_INFLATE_HISTORY = 32 << 10 };

/* Between two blocks. */
struct ppa_inflate_place {
	uint64_t bit;  /* of the stream, from its first byte on */
	uint64_t byte; /* of the image */
};

/* Inflate blocks from *place on, until at least `until` bytes of the image are there or the stream ends; *place is where that
 * was. The stream is what src has from at to end. Nothing is written at or beyond image + limit, and nothing read before image.
 * *is_last: the stream ended. 0, -EIO when the stream makes no sense, ends early, has more than limit, or src fails; -ENOMEM.
 * On error the image has rubbish from *place on, and *place stays. Context: server. */
int ppa_inflate(const struct ppa_elf_source *src, uint64_t at, uint64_t end, struct ppa_inflate_place *place,
		uint8_t *image, uint64_t until, uint64_t limit, bool *is_last) PPA_CTX_SERVER;

#endif
