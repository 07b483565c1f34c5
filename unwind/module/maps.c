/* SPDX-License-Identifier: Apache-2.0
 *
 * start-end perms offset major:minor inode            path
 *
 * The path begins at the first byte after the blanks that follow the inode and goes to the end of the line; it may
 * itself contain blanks. The kernel writes a newline in it as \012, which stays as it is here: such a path only fails
 * to open. */
#include "unwind/module/maps.h"

#include <string.h>

static bool number(const char **p, const char *end, unsigned base, uint64_t *out)
{
	const char *s = *p;
	uint64_t x = 0;

	for (; s < end; s++) {
		unsigned digit;

		if (*s >= '0' && *s <= '9')
			digit = (unsigned)(*s - '0');
		else if (*s >= 'a' && *s <= 'f')
			digit = (unsigned)(*s - 'a') + 10;
		else
			break;
		if (digit >= base || x > (UINT64_MAX - digit) / base)
			return false;
		x = x * base + digit;
	}
	if (s == *p)
		return false;
	*p = s;
	*out = x;
	return true;
}

static bool letter(const char **p, const char *end, char c)
{
	if (*p >= end || **p != c)
		return false;
	++*p;
	return true;
}

static bool permissions(const char **p, const char *end, struct ppa_map *m)
{
	const char *s = *p;

	if (end - s < 4)
		return false;
	m->readable = s[0] == 'r';
	m->writable = s[1] == 'w';
	m->executable = s[2] == 'x';
	*p += 4;
	return (m->readable || s[0] == '-') && (m->writable || s[1] == '-') && (m->executable || s[2] == '-') &&
	       (s[3] == 'p' || s[3] == 's');
}

static void path(const char *p, const char *end, struct ppa_map *m)
{
	static const char suffix[] = " (deleted)";
	const size_t n = sizeof(suffix) - 1;

	while (p < end && *p == ' ')
		p++;
	m->path = p;
	m->path_len = (size_t)(end - p);
	m->deleted = m->path_len > n && !memcmp(end - n, suffix, n);
	if (m->deleted)
		m->path_len -= n;
}

static bool parse_line(const char *p, const char *end, struct ppa_map *m)
{
	uint64_t start, stop, major, minor;

	if (!number(&p, end, 16, &start) || !letter(&p, end, '-') || !number(&p, end, 16, &stop) ||
	    !letter(&p, end, ' ') || !permissions(&p, end, m) || !letter(&p, end, ' ') ||
	    !number(&p, end, 16, &m->offset) || !letter(&p, end, ' ') || !number(&p, end, 16, &major) ||
	    !letter(&p, end, ':') || !number(&p, end, 16, &minor) || !letter(&p, end, ' ') ||
	    !number(&p, end, 10, &m->ino))
		return false;
	if (start >= stop || major > UINT32_MAX || minor > UINT32_MAX || (p < end && *p != ' '))
		return false;
	m->start = start;
	m->end = stop;
	m->dev = ppa_maps_dev((uint32_t)major, (uint32_t)minor);
	path(p, end, m);
	return true;
}

bool ppa_maps_next(const char **pos, const char *end, struct ppa_map *out, size_t *skipped)
{
	while (*pos < end) {
		const char *line = *pos, *stop = memchr(line, '\n', (size_t)(end - line));

		if (!stop)
			stop = end;
		*pos = stop < end ? stop + 1 : end;
		if (parse_line(line, stop, out))
			return true;
		++*skipped;
	}
	return false;
}
