/* SPDX-License-Identifier: Apache-2.0
 *
 * Of a thousand threads most wait in the same few places: what a location's lines look like is made once and copied from
 * then on. */
#include "proto/threads.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "agent/snapshot/snapshot.h"
#include "proto/sink.h"
#include "proto/sound.h"

enum { LINE_MAX = 160, OWN_LABELS = 4 };

/* What was written of a location the first time; len 0: nothing yet. */
struct written {
	size_t frames, frames_len;
	size_t place, place_len; /* as a creator */
};

struct printing {
	const struct ppa_snapshot *s;
	struct ppa_sink *out;
	struct written *written; /* of each location; NULL: no memory for it */
};

static void PPA_PRINTF(2, 3) put(const struct printing *p, const char *fmt, ...)
{
	char line[LINE_MAX];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n > 0)
		ppa_sink_write(p->out, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

static void put_text(const struct printing *p, const char *text)
{
	ppa_sink_write(p->out, text, strlen(text));
}

/* A name of a file or function, which may hold anything but must not end the line. */
static void put_name(const struct printing *p, const char *name)
{
	for (size_t n; *name; name += n) {
		for (n = 0; (unsigned char)name[n] >= ' ';)
			n++;
		ppa_sink_write(p->out, n ? name : "?", n ? n : 1);
		n += !n;
	}
}

/* In quotes, with what would not read well escaped. */
static void put_quoted(const struct printing *p, const char *text)
{
	put_text(p, "\"");
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < ' ' || c > '~' || c == '"' || c == '\\')
			put(p, "\\x%02x", c);
		else
			ppa_sink_write(p->out, text, 1);
	}
	put_text(p, "\"");
}

static const struct ppa_label *label(const struct printing *p, const struct ppa_snap_sample *sample, const char *key)
{
	for (uint32_t i = 0; i < sample->nlabels && i < OWN_LABELS; i++) {
		const struct ppa_label *l = &p->s->labels[sample->first_label + i];

		if (strcmp(l->key, key) == 0)
			return l;
	}
	return NULL;
}

static uint32_t location_index(const struct printing *p, const struct ppa_snap_sample *sample, uint32_t i)
{
	return p->s->stack_locs[sample->first_loc + i];
}

static const struct ppa_location *location(const struct printing *p, const struct ppa_snap_sample *sample, uint32_t i)
{
	return &p->s->locations[location_index(p, sample, i)];
}

static const struct ppa_function *function(const struct printing *p, const struct ppa_location *l, uint32_t line)
{
	return &p->s->functions[p->s->lines[l->first_line + line].function];
}

/* The second line of a frame: where its code is. */
static void put_place(const struct printing *p, const struct ppa_location *l, uint32_t line)
{
	const struct ppa_function *f = function(p, l, line);

	put_text(p, "\t");
	if (*f->filename) {
		put_name(p, f->filename);
		put(p, ":%" PRId64, p->s->lines[l->first_line + line].line);
	} else if (l->mapping != PPA_SNAPSHOT_NO_MAPPING) {
		put_name(p, p->s->mappings[l->mapping].filename);
	} else {
		put_text(p, "?");
	}
	if (l->entry && line + 1 == l->nlines)
		put(p, " +0x%" PRIx64, l->address - l->entry);
	put_text(p, "\n");
}

static void put_location(const struct printing *p, const struct ppa_location *l)
{
	for (uint32_t k = 0; k < l->nlines; k++) {
		put_name(p, function(p, l, k)->name);
		put_text(p, "(...)\n");
		put_place(p, l, k);
	}
}

static void put_frames(const struct printing *p, const struct ppa_snap_sample *sample)
{
	for (uint32_t i = 0; i < sample->nlocs; i++) {
		uint32_t at = location_index(p, sample, i);
		struct written *w = p->written ? &p->written[at] : NULL;
		size_t from = p->out->len;

		if (w && w->frames_len) {
			ppa_sink_repeat(p->out, w->frames, w->frames_len);
			continue;
		}
		put_location(p, &p->s->locations[at]);
		if (w)
			*w = (struct written){from, p->out->len - from, w->place, w->place_len};
	}
}

static void put_creators_place(const struct printing *p, uint32_t at)
{
	struct written *w = p->written ? &p->written[at] : NULL;
	size_t from = p->out->len;

	if (w && w->place_len) {
		ppa_sink_repeat(p->out, w->place, w->place_len);
		return;
	}
	put_place(p, &p->s->locations[at], 0);
	if (w)
		*w = (struct written){w->frames, w->frames_len, from, p->out->len - from};
}

/* std::thread and Rust's std stand between the creator and pthread_create, and say nothing. */
static bool is_cover(const char *name)
{
	return strncmp(name, "std::", 5) == 0 || strncmp(name, "<std::", 6) == 0 || strncmp(name, "<alloc::", 8) == 0 ||
	       strncmp(name, "__gthread", 9) == 0;
}

static void put_creator(const struct printing *p, const struct ppa_snap_sample *sample, int64_t tid)
{
	uint32_t i = 0;

	if (!sample->nlocs)
		return;
	while (i + 1 < sample->nlocs && is_cover(function(p, location(p, sample, i), 0)->name))
		i++;
	put_text(p, "created by ");
	put_name(p, function(p, location(p, sample, i), 0)->name);
	if (tid)
		put(p, " in goroutine %" PRId64, tid);
	put_text(p, "\n");
	put_creators_place(p, location_index(p, sample, i));
}

static void put_head(const struct printing *p, const struct ppa_snap_sample *sample)
{
	const struct ppa_label *tid = label(p, sample, "tid"), *state = label(p, sample, "state");
	const struct ppa_label *minutes = label(p, sample, "minutes"), *name = label(p, sample, "name");

	put(p, "goroutine %" PRId64 " [%s", tid ? tid->num : 0, state && state->str ? state->str : "?");
	if (minutes && minutes->num)
		put(p, ", %" PRId64 " minutes", minutes->num);
	if (name && name->str && *name->str) {
		put_text(p, ", ");
		put_quoted(p, name->str);
	}
	put_text(p, "]");
	for (uint32_t i = OWN_LABELS; i < sample->nlabels; i++) {
		const struct ppa_label *l = &p->s->labels[sample->first_label + i];

		put_text(p, i == OWN_LABELS ? " {" : ", ");
		put_quoted(p, l->key);
		put_text(p, ": ");
		put_quoted(p, l->str ? l->str : "");
	}
	put_text(p, sample->nlabels > OWN_LABELS ? "}:\n" : ":\n");
}

int ppa_threads_encode(const struct ppa_snapshot *s, struct ppa_sink *out)
{
	struct printing p = {s, out, NULL};

	if (!ppa_sound_check(s))
		return out->err = -EINVAL;
	p.written = ppa_vheap_calloc(s->nlocations + 1, sizeof(*p.written));
	for (size_t i = 0; i < s->nsamples; i++) {
		const struct ppa_snap_sample *sample = &s->samples[i];

		put_head(&p, sample);
		put_frames(&p, sample);
		if (i + 1 < s->nsamples && label(&p, sample + 1, "created_by")) {
			put_creator(&p, sample + 1, label(&p, sample + 1, "created_by")->num);
			i++;
		}
		put_text(&p, "\n");
	}
	for (size_t i = 0; i < s->ncomments; i++) {
		put_text(&p, "# ");
		put_text(&p, s->comments[i]);
		put_text(&p, "\n");
	}
	ppa_vheap_free(p.written);
	return out->err;
}
