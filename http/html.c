/* SPDX-License-Identifier: Apache-2.0 */
#include "http/html.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "http/reply.h"
#include "proto/utf8.h"

void ppa_html_add(struct ppa_sink *page, const char *html)
{
	ppa_sink_write(page, html, strlen(html));
}

static const char *entity_of(char c)
{
	switch (c) {
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '&':
		return "&amp;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	}
	return (unsigned char)c < ' ' || c == 0x7f ? "?" : NULL;
}

void ppa_html_text(struct ppa_sink *page, const char *text, size_t len)
{
	while (len) {
		size_t valid = ppa_utf8_span(text, len), n = 0;

		while (n < valid && !entity_of(text[n]))
			n++;
		ppa_sink_write(page, text, n);
		if (n == len)
			return;
		ppa_html_add(page, n < valid ? entity_of(text[n]) : "?");
		text += n + 1;
		len -= n + 1;
	}
}

struct scale {
	const char *name;
	double size; /* in the unit */
	double from; /* the least value that is told so */
};

static const struct scale bytes[] = {{"TiB", 0x1p40, 0x1p40},
				     {"GiB", 0x1p30, 0x1p30},
				     {"MiB", 0x1p20, 0x1p20},
				     {"KiB", 0x1p10, 0x1p10},
				     {"B", 1, 0}};
static const struct scale nanoseconds[] = {{"h", 3600e9, 36000e9}, {"min", 60e9, 600e9}, {"s", 1e9, 1e9},
					   {"ms", 1e6, 1e6},	   {"us", 1e3, 1e3},	 {"ns", 1, 0}};

static void grouped(char *buf, size_t cap, uint64_t v)
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, v);
	size_t len = 0;

	for (int i = 0; i < n && len + 2 < cap; i++) {
		if (i && (n - i) % 3 == 0)
			buf[len++] = ',';
		buf[len++] = digits[i];
	}
	buf[len] = '\0';
}

const char *ppa_html_value(char buf[PPA_HTML_VALUE_MAX], int64_t v, const char *unit)
{
	const struct scale *s = !strcmp(unit, "bytes") ? bytes : !strcmp(unit, "nanoseconds") ? nanoseconds : NULL;
	uint64_t amount = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	double shown = (double)amount;

	if (!s) {
		buf[0] = '-';
		grouped(buf + (v < 0), PPA_HTML_VALUE_MAX - 1, amount);
		return buf;
	}
	while (shown < s->from)
		s++;
	shown /= s->size;
	snprintf(buf, PPA_HTML_VALUE_MAX, "%s%.*f %s", v < 0 ? "-" : "",
		 s->size == 1 || shown >= 100 ? 0
		 : shown >= 10		      ? 1
					      : 2,
		 shown, s->name);
	return buf;
}

void ppa_html_add_value(struct ppa_sink *page, int64_t v, const char *unit)
{
	char text[PPA_HTML_VALUE_MAX];

	ppa_html_add(page, ppa_html_value(text, v, unit));
}

void ppa_html_add_duration(struct ppa_sink *page, uint64_t ns)
{
	static const struct {
		const char *name;
		unsigned seconds;
	} units[] = {{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}};
	uint64_t left = ns / 1000000000;
	char text[48];
	size_t i = 0;

	while (i + 1 < PPA_ARRAY_LEN(units) && left < units[i].seconds)
		i++;
	snprintf(text, sizeof(text), "%" PRIu64 " %s", left / units[i].seconds, units[i].name);
	ppa_html_add(page, text);
	left %= units[i].seconds;
	if (++i < PPA_ARRAY_LEN(units) && left >= units[i].seconds) {
		snprintf(text, sizeof(text), " %" PRIu64 " %s", left / units[i].seconds, units[i].name);
		ppa_html_add(page, text);
	}
}

void ppa_html_reply(struct ppa_request *r, struct ppa_sink *page, const char *policy)
{
	struct ppa_reply h = {.status = 200, .type = PPA_TYPE_HTML, .policy = policy};

	if (page->err)
		ppa_reply_error(r, 500, "out of memory");
	else
		ppa_reply_send(r, &h, page->bytes, page->len);
	ppa_sink_free(page);
}
