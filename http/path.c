/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding comes before cleaning, as in Go, so that an escaped ".." is a ".." too. Nothing here names a file: the
 * result is only ever compared with the table of routes or sent back in a redirect. */
#include "http/path.h"

#include <errno.h>
#include <string.h>

#include "http/query.h"

bool ppa_path_decode(char *path)
{
	char *to = path;

	for (const char *from = path; *from; from++) {
		if (*from == '%') {
			int byte = ppa_query_hex_byte(from + 1);

			if (byte <= 0)
				return false;
			*to++ = (char)byte;
			from += 2;
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
	return true;
}

/* Drop the last "/segment" of start..end; the new end. */
static char *parent_of(char *start, char *end)
{
	while (end > start && *--end != '/')
		;
	return end;
}

bool ppa_path_clean(char *path)
{
	const char *from = path;
	char *to = path;
	bool is_changed = false;

	if (*path != '/')
		return false;
	while (*from) {
		size_t len = strcspn(from + 1, "/");
		bool is_last = from[1 + len] == '\0';

		if (len == 0 && is_last)
			break;
		if (len == 0 || (len == 1 && from[1] == '.')) {
			is_changed = true;
		} else if (len == 2 && from[1] == '.' && from[2] == '.') {
			to = parent_of(path, to);
			is_changed = true;
		} else {
			memmove(to, from, len + 1);
			to += len + 1;
		}
		from += len + 1;
	}
	if (to == path || *from == '/')
		*to++ = '/';
	*to = '\0';
	return is_changed;
}

static bool is_plain(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("-._~/", c));
}

int ppa_path_escape(const char *path, const char *query, char *buf, size_t cap)
{
	static const char hex[] = "0123456789ABCDEF";
	size_t n = 0;

	for (; *path; path++) {
		unsigned char c = (unsigned char)*path;

		if (n + 4 >= cap)
			return -E2BIG;
		if (is_plain(c)) {
			buf[n++] = (char)c;
		} else {
			buf[n++] = '%';
			buf[n++] = hex[c >> 4];
			buf[n++] = hex[c & 15];
		}
	}
	if (query && n + 1 < cap)
		buf[n++] = '?';
	for (; query && *query; query++) {
		if (n + 1 >= cap)
			return -E2BIG;
		if ((unsigned char)*query > ' ' && *query != 0x7f)
			buf[n++] = *query;
	}
	buf[n] = '\0';
	return (int)n;
}
