/* SPDX-License-Identifier: Apache-2.0
 *
 * See jit_words.h. */
#include "unwind/jit/jit_words.h"

#include <stdbool.h>
#include <string.h>

#include "unwind/jit/jitdump.h"

struct slice {
	const char *at;
	size_t len;
};

static bool begins(struct slice s, const char *with)
{
	size_t n = strlen(with);

	return s.len >= n && memcmp(s.at, with, n) == 0;
}

static struct slice without(struct slice s, size_t n)
{
	return (struct slice){s.at + n, s.len - n};
}

/* Takes ":123" off the end. */
static bool take_number(struct slice *s, int64_t *out)
{
	size_t n = s->len;
	int64_t x = 0, unit = 1;

	while (n && s->at[n - 1] >= '0' && s->at[n - 1] <= '9' && s->len - n < 9) {
		x += (s->at[--n] - '0') * unit;
		unit *= 10;
	}
	if (n == s->len || !n || s->at[n - 1] != ':')
		return false;
	s->len = n - 1;
	*out = x;
	return true;
}

/* Where the first of some texts occurs in s, or its length. */
static size_t find_any(struct slice s, const char *const *texts)
{
	for (size_t i = 0; i < s.len; i++)
		for (const char *const *t = texts; *t; t++)
			if (begins(without(s, i), *t))
				return i;
	return s.len;
}

static size_t find_last(struct slice s, char c)
{
	for (size_t i = s.len; i-- > 0;)
		if (s.at[i] == c)
			return i;
	return s.len;
}

/* "JS:*get size /srv/a b.js:1:2": functions' names may have blanks, so may files'. */
static bool read_v8(struct slice s, struct slice *name, struct slice *file, int64_t *line)
{
	static const char *const kinds[] = {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:", NULL};
	static const char *const places[] = {" /", " file:", " node:", " http:", " https:", NULL};
	int64_t column;
	size_t i = 0, blank;

	while (kinds[i] && !begins(s, kinds[i]))
		i++;
	if (!kinds[i])
		return false;
	s = without(s, strlen(kinds[i]));
	if (!take_number(&s, &column) || !take_number(&s, line))
		return false;
	if (s.len && strchr("~^+*=", s.at[0]))
		s = without(s, 1);
	if (s.len && s.at[0] == '\'')
		s = without(s, 1);
	blank = find_any(s, places);
	if (blank == s.len)
		blank = find_last(s, ' ');
	if (blank == s.len)
		return false;
	*name = (struct slice){s.at, blank};
	*file = without(s, blank + 1);
	return true;
}

/* "py::Handler.get:/srv/app.py", "py::f:<frozen os>", "py::f:mod.py". The name keeps its beginning: there may be a C function of
 * the same name. */
static bool read_python(struct slice s, struct slice *name, struct slice *file)
{
	static const char *const places[] = {":/", ":<", NULL};
	enum { PREFIX = 4 };
	size_t colon;

	if (!begins(s, "py::"))
		return false;
	colon = PREFIX + find_any(without(s, PREFIX), places);
	if (colon == s.len)
		colon = PREFIX + find_last(without(s, PREFIX), ':');
	if (colon == s.len || colon == PREFIX)
		return false;
	*name = (struct slice){s.at, colon};
	*file = without(s, colon + 1);
	return true;
}

/* "double shop.Cart.total(int, java.util.List)", as HotSpot itself writes it. */
static bool read_java(struct slice s, struct slice *name)
{
	const char *open = memchr(s.at, '(', s.len);
	size_t blank;

	if (!open || s.at[s.len - 1] != ')')
		return false;
	s.len = (size_t)(open - s.at);
	blank = find_last(s, ' ');
	if (blank == s.len || !memchr(s.at + blank, '.', s.len - blank))
		return false;
	*name = without(s, blank + 1);
	return name->len > 0;
}

/* What jitdump.c put behind the name. */
static bool take_note(struct slice *s, struct slice *file, int64_t *line)
{
	const char *sep = memchr(s->at, PPA_JITDUMP_SEPARATOR, s->len), *second;
	size_t len = sep ? (size_t)(sep - s->at) : s->len;
	struct slice rest = without(*s, len);

	s->len = len;
	if (!sep)
		return false;
	rest = without(rest, 1);
	second = memchr(rest.at, PPA_JITDUMP_SEPARATOR, rest.len);
	if (!second)
		return false;
	*file = (struct slice){rest.at, (size_t)(second - rest.at)};
	*line = 0;
	for (const char *p = second + 1; p < rest.at + rest.len && *p >= '0' && *p <= '9'; p++)
		*line = *line * 10 + (*p - '0');
	return true;
}

struct room {
	char *at;
	size_t left;
};

static const char *keep(struct room *r, struct slice s)
{
	char *text = r->at;

	if (!r->left)
		return "";
	if (s.len >= r->left)
		s.len = r->left - 1;
	memcpy(text, s.at, s.len);
	text[s.len] = '\0';
	r->at += s.len + 1;
	r->left -= s.len + 1;
	return text;
}

void ppa_jit_words(const char *text, char *buf, size_t cap, struct ppa_jit_words *out)
{
	static const char anonymous[] = "(anonymous)";
	struct slice s = {text, strlen(text)}, name, file = {"", 0}, noted;
	struct room room = {buf, cap};
	int64_t noted_line = 0;
	bool has_note = take_note(&s, &noted, &noted_line);

	name = s;
	out->line = 0;
	if (!read_v8(s, &name, &file, &out->line) && !read_python(s, &name, &file)) {
		out->line = 0;
		read_java(s, &name);
		if (has_note) {
			file = noted;
			out->line = noted_line;
		}
	}
	if (!name.len && s.len)
		name = (struct slice){anonymous, sizeof(anonymous) - 1};
	out->symbol = keep(&room, s);
	out->name = keep(&room, name);
	out->file = keep(&room, file);
}
