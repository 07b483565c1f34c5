/* SPDX-License-Identifier: Apache-2.0
 *
 * A validator without tables: the lead byte gives the length and the bounds of the second byte, in
 * which overlong forms, surrogates and values above U+10FFFF all show; the bytes after that are
 * plain continuations. */
#include "proto/utf8.h"

#include <stdint.h>
#include <string.h>

/* Length of the character at p, of which left bytes exist, or 0. */
static size_t character(const uint8_t *p, size_t left)
{
	uint8_t low = 0x80, high = 0xbf;
	size_t n;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	if (left < n || p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

size_t ppa_utf8_span(const char *text, size_t len)
{
	const uint8_t *p = (const uint8_t *)text;
	size_t at = 0, n;

	while (at < len && (n = character(p + at, len - at)))
		at += n;
	return at;
}

size_t ppa_utf8_clean(char *to, size_t cap, const char *text, size_t len)
{
	size_t n = 0;

	while (len && n < cap) {
		size_t span = ppa_utf8_span(text, len < cap - n ? len : cap - n);

		memcpy(to + n, text, span);
		n += span;
		text += span;
		len -= span;
		/* All of it; the room is full; or what fits no more is a character. */
		if (!len || n >= cap || ppa_utf8_span(text, len < 4 ? len : 4))
			break;
		to[n++] = '?';
		text++;
		len--;
	}
	return n;
}
