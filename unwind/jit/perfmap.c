/* SPDX-License-Identifier: Apache-2.0
 *
 * See perfmap.h. Read in pieces that end with a line; a line longer than a piece is no line. */
#include "unwind/jit/perfmap.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "unwind/jit/codemap.h"

enum { PIECE = 64 << 10 };

static bool hex(const char **p, const char *end, uint64_t *out)
{
	const char *s = *p;
	uint64_t x = 0;

	if (end - s > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
		s += 2;
	*p = s;
	for (; s < end; s++) {
		unsigned c = (unsigned char)*s, digit;

		if (c >= '0' && c <= '9')
			digit = c - '0';
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			digit = (c | 32) - 'a' + 10;
		else
			break;
		if (x >> 60)
			return false;
		x = x << 4 | digit;
	}
	if (s == *p)
		return false;
	*p = s;
	*out = x;
	return true;
}

static bool blanks(const char **p, const char *end)
{
	const char *s = *p;

	while (s < end && (*s == ' ' || *s == '\t'))
		s++;
	if (s == *p)
		return false;
	*p = s;
	return true;
}

static int take_line(struct ppa_codemap *m, const char *p, const char *end)
{
	uint64_t start, size;

	if (end > p && end[-1] == '\r')
		end--;
	if (!hex(&p, end, &start) || !blanks(&p, end) || !hex(&p, end, &size) || !blanks(&p, end) || p == end)
		return 0;
	return ppa_codemap_add(m, start, size, p, (size_t)(end - p));
}

/* The whole lines of a piece; *used: up to behind the last one. */
static int take_lines(struct ppa_perfmap *p, struct ppa_codemap *m, const char *text, size_t len, size_t *used)
{
	const char *pos = text, *end = text + len, *stop;
	int err = 0;

	while (!err && pos < end && (stop = memchr(pos, '\n', (size_t)(end - pos))) != NULL) {
		if (!p->in_line)
			err = take_line(m, pos, stop);
		if (err)
			break;
		p->in_line = false;
		pos = stop + 1;
	}
	*used = (size_t)(pos - text);
	return err;
}

static int take_piece(struct ppa_perfmap *p, struct ppa_codemap *m, const char *text, size_t len)
{
	size_t used;
	int err = take_lines(p, m, text, len, &used);

	if (!used && !err && len == PIECE) {
		used = len;
		p->in_line = true;
	}
	p->at += used;
	return err;
}

int ppa_perfmap_read(struct ppa_perfmap *p, int fd, uint64_t size, struct ppa_codemap *m)
{
	char *piece;
	long n = PIECE;
	int err = 0;

	if (size <= p->at)
		return 0;
	if (size - p->at > PPA_PERFMAP_MAX_BYTES) {
		p->passed_over += size - PPA_PERFMAP_MAX_BYTES - p->at;
		p->at = size - PPA_PERFMAP_MAX_BYTES;
		p->in_line = true;
	}
	piece = ppa_vheap_malloc(PIECE);
	if (!piece)
		return -ENOMEM;
	while (p->at < size && n == PIECE && !err) {
		n = ppa_sys_pread(fd, piece, size - p->at < PIECE ? (size_t)(size - p->at) : PIECE, p->at);
		err = n > 0 ? take_piece(p, m, piece, (size_t)n) : (int)n;
	}
	ppa_vheap_free(piece);
	return err;
}
