/* SPDX-License-Identifier: Apache-2.0
 *
 * A compressed section that is read here and there: of its image as much is inflated as somebody asks for, from the beginning,
 * since a compressed stream has no other way; but on that way places are noted at which it can be entered later, with the history
 * that is needed there. So whoever comes when the image is gone inflates a few hundred KiB around what he reads, not all of it. */
#ifndef PPA_UNWIND_NAME_INFLATED_H
#define PPA_UNWIND_NAME_INFLATED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/name/elf_file.h"
#include "unwind/name/inflate.h"

enum {
	/* From one place to the next, at least; more where a section would have more than so many of them. */
	PPA_INFLATED_PIECE = 256 << 10,
	PPA_INFLATED_PIECES = 64,
};

struct ppa_inflated_piece {
	struct ppa_inflate_place begin;
	uint8_t *history;	       /* of its begin; NULL for the first */
	struct ppa_inflate_place here; /* up to where it is inflated */
};

/* Zero is none. In the private heap. One thread at a time. */
struct ppa_inflated {
	uint64_t at, end; /* the stream, in the file */
	uint64_t size;	  /* of the image */
	uint8_t *image;	  /* NULL: nothing of it is here */
	struct ppa_inflated_piece *pieces;
	size_t npieces;
	int err; /* -EIO, -ENOMEM: it failed, and what is not here yet cannot be had until it is opened again */
};

/* It is the zlib stream that src has from at to end, and size bytes when inflated. What z knows of the same stream stays, anything
 * else goes, also after an error. 0, -EFBIG: it cannot become that large, -EIO: it is no such stream. Context: server. */
int ppa_inflated_open(struct ppa_inflated *z, const struct ppa_elf_source *src, uint64_t at, uint64_t end,
		      uint64_t size) PPA_CTX_SERVER;

/* Have byte `at` of the image, and with it all from *from up to *to that is at hand without more work: the image, or NULL when it
 * cannot be had (z->err says why, or at is beyond its end). It stays where it is until ppa_inflated_shed. Context: server. */
const uint8_t *ppa_inflated_have(struct ppa_inflated *z, const struct ppa_elf_source *src, uint64_t at, uint64_t *from,
				 uint64_t *to) PPA_CTX_SERVER;

/* Bytes that the image takes, or may take; those of the places. Context: server. */
uint64_t ppa_inflated_image_bytes(const struct ppa_inflated *z) PPA_CTX_SERVER;
uint64_t ppa_inflated_place_bytes(const struct ppa_inflated *z) PPA_CTX_SERVER;

/* Give back the image, or everything. Context: server. */
void ppa_inflated_shed(struct ppa_inflated *z) PPA_CTX_SERVER;
void ppa_inflated_free(struct ppa_inflated *z) PPA_CTX_SERVER;

#endif
