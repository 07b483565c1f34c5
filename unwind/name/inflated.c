/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces follow one another without gaps, and the last one is that which begins where inflating has ended so far. A piece's history
 * lies in the image before it, in a piece that has the same bytes there or will have them: so it is put back where it was.
 *
 * The image is as large as the section from the beginning, but pages that nobody wrote to cost nothing. */
#include "unwind/name/inflated.h"

#include <errno.h>
#include <string.h>

#include "agent/base/vheap.h"

enum { HEAD_BYTES = 2, METHOD_DEFLATE = 8, HAS_DICTIONARY = 0x20, MAX_RATIO = 1032 };

_Static_assert((int)PPA_INFLATED_PIECE >= (int)PPA_INFLATE_HISTORY, "history is in the piece before");

static uint64_t piece_bytes(const struct ppa_inflated *z)
{
	uint64_t bytes = z->size / PPA_INFLATED_PIECES;

	return bytes > PPA_INFLATED_PIECE ? bytes : PPA_INFLATED_PIECE;
}

static size_t history_bytes(const struct ppa_inflated_piece *p)
{
	return p->begin.byte < PPA_INFLATE_HISTORY ? (size_t)p->begin.byte : PPA_INFLATE_HISTORY;
}

static bool is_zlib(const uint8_t *head)
{
	return (head[0] & 15) == METHOD_DEFLATE && (head[0] >> 4) <= 7 && !(head[1] & HAS_DICTIONARY) &&
	       (head[0] << 8 | head[1]) % 31 == 0;
}

int ppa_inflated_open(struct ppa_inflated *z, const struct ppa_elf_source *src, uint64_t at, uint64_t end,
		      uint64_t size)
{
	uint8_t head[HEAD_BYTES];

	if (z->pieces && !z->err && z->at == at && z->end == end && z->size == size)
		return 0;
	ppa_inflated_free(z);
	if (at > end || end - at < HEAD_BYTES || ppa_elf_read(src, head, sizeof(head), at) || !is_zlib(head))
		return -EIO;
	if (size / MAX_RATIO > end - at)
		return -EFBIG;
	z->at = at;
	z->end = end;
	z->size = size;
	return 0;
}

/* Pieces are at least as large as piece_bytes, so there is one more than fit into the image at most, and a last place. */
static int begin(struct ppa_inflated *z)
{
	if (!z->pieces) {
		z->pieces = ppa_vheap_calloc(PPA_INFLATED_PIECES + 2, sizeof(*z->pieces));
		if (!z->pieces)
			return -ENOMEM;
		z->pieces[0].begin.bit = z->pieces[0].here.bit = 8 * HEAD_BYTES;
		z->npieces = 1;
	}
	if (!z->image)
		z->image = ppa_vheap_malloc((size_t)z->size + !z->size);
	return z->image ? 0 : -ENOMEM;
}

/* The number of the piece that has the byte: the last one that does not begin behind it. */
static size_t piece_of(const struct ppa_inflated *z, uint64_t at)
{
	size_t low = 0, high = z->npieces;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (z->pieces[middle].begin.byte <= at)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static bool is_whole(const struct ppa_inflated *z, size_t i)
{
	return i + 1 < z->npieces && z->pieces[i].here.byte == z->pieces[i + 1].begin.byte;
}

static void put_history_back(struct ppa_inflated *z, size_t i)
{
	const struct ppa_inflated_piece *p = &z->pieces[i];
	size_t bytes = history_bytes(p);

	if (p->history && p->here.byte == p->begin.byte && !is_whole(z, i - 1))
		memcpy(z->image + (p->begin.byte - bytes), p->history, bytes);
}

/* Inflate a piece that was inflated before, as far as `at`: it must end where it did. */
static int inflate_again(struct ppa_inflated *z, const struct ppa_elf_source *src, size_t i, uint64_t at)
{
	struct ppa_inflated_piece *p = &z->pieces[i];
	bool is_last;

	put_history_back(z, i);
	return ppa_inflate(src, z->at, z->end, &p->here, z->image, at + 1, p[1].begin.byte, &is_last);
}

/* Inflate one piece more. */
static int inflate_on(struct ppa_inflated *z, const struct ppa_elf_source *src)
{
	struct ppa_inflated_piece *p = &z->pieces[z->npieces - 1], *next = p + 1;
	struct ppa_inflate_place place = p->begin;
	uint64_t bytes = piece_bytes(z), left = z->size - place.byte;
	uint8_t *history = NULL;
	bool is_last;
	int err;

	put_history_back(z, z->npieces - 1);
	err = ppa_inflate(src, z->at, z->end, &place, z->image, place.byte + (left < bytes ? left : bytes), z->size,
			  &is_last);
	if (!err && is_last && place.byte < z->size)
		err = -EIO;
	*next = (struct ppa_inflated_piece){.begin = place, .here = place};
	if (!err && place.byte < z->size) {
		history = ppa_vheap_malloc(history_bytes(next));
		err = history ? 0 : -ENOMEM;
	}
	if (err)
		return err;
	if (history)
		memcpy(history, z->image + (place.byte - history_bytes(next)), history_bytes(next));
	next->history = history;
	p->here = place;
	z->npieces++;
	return 0;
}

const uint8_t *ppa_inflated_have(struct ppa_inflated *z, const struct ppa_elf_source *src, uint64_t at, uint64_t *from,
				 uint64_t *to)
{
	size_t i, first, last;
	int err;

	if (at >= z->size)
		return NULL;
	err = begin(z);
	while (!err && !z->err && z->pieces[z->npieces - 1].begin.byte <= at)
		z->err = inflate_on(z, src);
	if (err) {
		z->err = err;
		return NULL;
	}
	i = piece_of(z, at);
	if (!z->err && z->pieces[i].here.byte <= at)
		z->err = inflate_again(z, src, i, at);
	if (z->pieces[i].here.byte <= at)
		return NULL;
	for (first = i; first && is_whole(z, first - 1); first--)
		;
	for (last = i; is_whole(z, last) && z->pieces[last + 1].here.byte > z->pieces[last + 1].begin.byte; last++)
		;
	*from = z->pieces[first].begin.byte;
	*to = z->pieces[last].here.byte;
	return z->image;
}

uint64_t ppa_inflated_image_bytes(const struct ppa_inflated *z)
{
	return z->image ? z->size : 0;
}

uint64_t ppa_inflated_place_bytes(const struct ppa_inflated *z)
{
	uint64_t bytes = z->pieces ? (PPA_INFLATED_PIECES + 2) * sizeof(*z->pieces) : 0;

	for (size_t i = 0; z->pieces && i < z->npieces; i++)
		bytes += z->pieces[i].history ? history_bytes(&z->pieces[i]) : 0;
	return bytes;
}

void ppa_inflated_shed(struct ppa_inflated *z)
{
	ppa_vheap_free(z->image);
	z->image = NULL;
	for (size_t i = 0; z->pieces && i < z->npieces; i++)
		z->pieces[i].here = z->pieces[i].begin;
}

void ppa_inflated_free(struct ppa_inflated *z)
{
	ppa_inflated_shed(z);
	for (size_t i = 0; z->pieces && i < z->npieces; i++)
		ppa_vheap_free(z->pieces[i].history);
	ppa_vheap_free(z->pieces);
	memset(z, 0, sizeof(*z));
}
