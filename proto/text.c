/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot -> lines -> sink. A record is a line of numbers and raw return addresses, then one comment line for each
 * frame. pprof's reader subtracts 1 from every address, so 1 is added to every one here.
 *
 * The heap's numbers are those of the samples: the reader multiplies objects and bytes by 1 / (1 - exp(-mean size /
 * rate)) again. Our samples were weighted one by one, so there need be no whole number of samples that gives the same
 * result; what rounding takes from a record is carried over to the next one of about the same mean size, and the totals
 * agree.
 *
 * Names are for people, and stand in comments: beyond some megabytes of text they are left out, because a text is held
 * in the target's memory as a whole.
 *
 * Records are sorted by what matters (bytes in use, delay, count), largest first. */
#include "proto/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "agent/snapshot/snapshot.h"
#include "proto/order.h"
#include "proto/sink.h"
#include "proto/sound.h"
#include "proto/threads.h"

enum { LINE_MAX = 256, CERTAIN = 40, FRAMES_MAX_BYTES = 8 << 20 };

#define SMALL 0.5

/* Values of the four heap types. */
enum { ALLOC_OBJECTS, ALLOC_BYTES, INUSE_OBJECTS, INUSE_BYTES };

static void PPA_PRINTF(2, 3) put(struct ppa_sink *out, const char *fmt, ...)
{
	char line[LINE_MAX];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n > 0)
		ppa_sink_write(out, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

static void put_text(struct ppa_sink *out, const char *text)
{
	ppa_sink_write(out, text, strlen(text));
}

/* A name of a file or function, which may hold anything but must not end the line. */
static void put_name(struct ppa_sink *out, const char *name)
{
	while (name && *name) {
		size_t n = 0;

		while ((unsigned char)name[n] >= ' ')
			n++;
		ppa_sink_write(out, name, n);
		name += n;
		if (!*name)
			break;
		ppa_sink_write(out, "?", 1);
		name++;
	}
}

/* In quotes, as JSON has it; what is no text is left as it is. */
static void put_quoted(struct ppa_sink *out, const char *text)
{
	put_text(out, "\"");
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < ' ')
			put(out, "\\u%04x", c);
		else if (c == '"' || c == '\\')
			put(out, "\\%c", c);
		else
			ppa_sink_write(out, text, 1);
	}
	put_text(out, "\"");
}

static int64_t sort_key(const struct ppa_snapshot *s, const struct ppa_snap_sample *sample)
{
	switch (s->form) {
	case PPA_FORM_HEAP:
		return sample->values[INUSE_BYTES];
	case PPA_FORM_CONTENTION:
		return sample->values[1];
	default:
		return sample->values[0];
	}
}

/* ---- heap numbers ---- */

/* 1 - exp(-x) for x >= 0. By its series for a small part of x, and 1 - exp(-2y) = m (2 - m) with m = 1 - exp(-y). */
static double sampled_share(double x)
{
	double m = 0, term = 1;
	int doublings = 0;

	if (x > CERTAIN)
		return 1;
	while (x > SMALL) {
		x /= 2;
		doublings++;
	}
	for (int n = 1; n <= 12; n++) {
		term *= -x / n;
		m -= term;
	}
	while (doublings--)
		m *= 2 - m;
	return m;
}

/* Objects and bytes as they are written, and what their reader makes of them. */
struct pair {
	int64_t objects, bytes;
};

static int64_t rounded(double v)
{
	return (int64_t)(v < 0 ? v - 0.5 : v + 0.5);
}

/* Bytes that earlier records should have had, by the binary logarithm of the mean size. */
struct carry {
	double bytes[64];
};

/* What the reader makes of a number: it cuts off what is behind the point. */
static double read_back(int64_t raw, double share)
{
	return (double)(int64_t)((double)raw / share);
}

/* Objects are rounded numbers, so their mean size is not exact; a whole number that it may be is what it is. */
static double mean_size(int64_t objects, int64_t bytes)
{
	double mean = (double)bytes / (double)objects, whole = (double)rounded(mean);
	double rounding = 0.5 / (double)objects;

	return whole >= mean * (1 - rounding) && whole <= mean * (1 + rounding) ? whole : mean;
}

static struct pair unscale(int64_t objects, int64_t bytes, int64_t rate, struct carry *carries)
{
	struct pair raw = {objects, bytes};
	double mean, share, *carry;

	if (rate <= 1 || objects <= 0 || bytes < 0)
		return raw;
	mean = mean_size(objects, bytes);
	/* Blocks of no size: the reader has no use for their bytes, and cannot scale them. */
	if (mean <= 0)
		return raw;
	share = sampled_share(mean / (double)rate);
	carry = &carries->bytes[63 - __builtin_clzll((uint64_t)mean | 1)];
	raw.objects = rounded(((double)bytes + *carry) * share / mean);
	if (raw.objects < 0)
		raw.objects = 0;
	raw.bytes = rounded((double)raw.objects * mean);
	/* Rounding here and cutting there treat objects and bytes differently: be between the two. */
	*carry += ((double)bytes - read_back(raw.bytes, share)) / 2 +
		  mean * ((double)objects - read_back(raw.objects, share)) / 2;
	return raw;
}

struct heap_line {
	struct pair inuse, alloc;
};

struct writer {
	const struct ppa_snapshot *s;
	struct ppa_sink *out;
	struct carry inuse_carry, alloc_carry;
	bool is_gperftools; /* else Go's dialect */
};

static struct heap_line heap_line(struct writer *w, const struct ppa_snap_sample *sample)
{
	const int64_t *v = sample->values;

	return (struct heap_line){
		unscale(v[INUSE_OBJECTS], v[INUSE_BYTES], w->s->period, &w->inuse_carry),
		unscale(v[ALLOC_OBJECTS], v[ALLOC_BYTES], w->s->period, &w->alloc_carry),
	};
}

/* ---- lines ---- */

static void put_frame(struct writer *w, const struct ppa_location *l)
{
	const struct ppa_snapshot *s = w->s;

	for (uint32_t i = 0; i < l->nlines; i++) {
		const struct ppa_line *line = &s->lines[l->first_line + i];
		const struct ppa_function *f = &s->functions[line->function];

		put(w->out, "#\t0x%" PRIx64 "\t", l->address);
		put_name(w->out, f->name);
		if (l->entry && i + 1 == l->nlines)
			put(w->out, "+0x%" PRIx64, l->address - l->entry);
		put_text(w->out, "\t");
		if (f->filename && *f->filename) {
			put_name(w->out, f->filename);
			put(w->out, ":%" PRId64, line->line);
		} else if (l->mapping != PPA_SNAPSHOT_NO_MAPPING) {
			put_name(w->out, s->mappings[l->mapping].filename);
		}
		put_text(w->out, "\n");
	}
}

static const char *key_of(const struct ppa_label *l)
{
	return l->key ? l->key : "";
}

/* By key, as Go has them; there are few. */
static void put_labels(struct writer *w, const struct ppa_snap_sample *sample)
{
	const struct ppa_label *labels = w->s->labels + sample->first_label, *last = NULL, *l;

	put_text(w->out, "# labels: {");
	for (uint32_t n = 0; n < sample->nlabels; n++, last = l) {
		l = NULL;
		for (uint32_t i = 0; i < sample->nlabels; i++)
			if ((!last || strcmp(key_of(&labels[i]), key_of(last)) > 0) &&
			    (!l || strcmp(key_of(&labels[i]), key_of(l)) < 0))
				l = &labels[i];
		if (!l)
			break;
		put_text(w->out, n ? ", " : "");
		put_quoted(w->out, key_of(l));
		put_text(w->out, ":");
		if (l->str)
			put_quoted(w->out, l->str);
		else
			put(w->out, "%" PRId64, l->num);
	}
	put_text(w->out, "}\n");
}

static void put_stack(struct writer *w, const struct ppa_snap_sample *sample)
{
	const struct ppa_snapshot *s = w->s;
	const uint32_t *loc = s->stack_locs + sample->first_loc;

	put_text(w->out, " @");
	for (uint32_t i = 0; i < sample->nlocs; i++)
		put(w->out, " 0x%" PRIx64, s->locations[loc[i]].address + 1);
	put_text(w->out, "\n");
	if (w->is_gperftools)
		return;
	if (sample->nlabels && s->form == PPA_FORM_COUNT)
		put_labels(w, sample);
	for (uint32_t i = 0; i < sample->nlocs && w->out->len < FRAMES_MAX_BYTES; i++)
		put_frame(w, &s->locations[loc[i]]);
	if (w->out->len < FRAMES_MAX_BYTES)
		put_text(w->out, "\n");
}

static void put_heap_numbers(struct ppa_sink *out, const struct heap_line *l)
{
	put(out, "%" PRId64 ": %" PRId64 " [%" PRId64 ": %" PRId64 "]", l->inuse.objects, l->inuse.bytes,
	    l->alloc.objects, l->alloc.bytes);
}

/* What grew is in use, and was all allocated. */
static void put_growth_numbers(struct ppa_sink *out, int64_t objects, int64_t bytes)
{
	const struct heap_line l = {{objects, bytes}, {objects, bytes}};

	put_heap_numbers(out, &l);
}

static void put_record(struct writer *w, const struct ppa_snap_sample *sample)
{
	struct heap_line l;

	switch (w->s->form) {
	case PPA_FORM_HEAP:
		l = heap_line(w, sample);
		put_heap_numbers(w->out, &l);
		break;
	case PPA_FORM_CONTENTION:
		/* An estimate may be rounded to no contention at all, by which google-pprof divides. */
		put(w->out, "%" PRId64 " %" PRId64, sample->values[1],
		    w->is_gperftools && sample->values[0] == 0 ? 1 : sample->values[0]);
		break;
	default:
		if (w->is_gperftools)
			put_growth_numbers(w->out, sample->values[0], sample->values[1]);
		else
			put(w->out, "%" PRId64, sample->values[0]);
	}
	put_stack(w, sample);
}

/* ---- head and tail ---- */

/* The totals of the lines to come: the same additions in the same order. */
static void put_heap_head(struct writer *w, const struct ppa_order *order)
{
	struct heap_line sum = {{0, 0}, {0, 0}};

	for (size_t i = 0; i < w->s->nsamples; i++) {
		struct heap_line l = heap_line(w, &w->s->samples[order[i].index]);

		sum.inuse.objects += l.inuse.objects;
		sum.inuse.bytes += l.inuse.bytes;
		sum.alloc.objects += l.alloc.objects;
		sum.alloc.bytes += l.alloc.bytes;
	}
	w->inuse_carry = w->alloc_carry = (struct carry){{0}};
	/* Equal totals would make the reader take the profile for one without allocations. */
	if (sum.inuse.objects == sum.alloc.objects && sum.inuse.bytes == sum.alloc.bytes)
		sum.alloc.bytes++;
	put_text(w->out, "heap profile: ");
	put_heap_numbers(w->out, &sum);
	if (w->is_gperftools)
		put(w->out, " @ heap_v2/%" PRId64 "\n", w->s->period);
	else
		put(w->out, " @ heap/%" PRIu64 "\n", 2 * (uint64_t)w->s->period);
}

/* gperftools knows no profile but these three. */
static void put_gperftools_head(struct writer *w, const struct ppa_order *order)
{
	int64_t objects = 0, bytes = 0;

	if (w->s->form == PPA_FORM_HEAP) {
		put_heap_head(w, order);
		return;
	}
	if (w->s->form == PPA_FORM_CONTENTION) {
		put_text(w->out, "--- contention:\ncycles/second=1000000000\nsampling period=1\n");
		return;
	}
	for (size_t i = 0; i < w->s->nsamples; i++) {
		objects += w->s->samples[i].values[0];
		bytes += w->s->samples[i].values[1];
	}
	put_text(w->out, "heap profile: ");
	put_growth_numbers(w->out, objects, bytes);
	put_text(w->out, " @ growth\n");
}

static void put_head(struct writer *w, const struct ppa_order *order)
{
	int64_t total = 0;

	switch (w->s->form) {
	case PPA_FORM_HEAP:
		put_heap_head(w, order);
		return;
	case PPA_FORM_CONTENTION:
		put(w->out, "--- %s:\ncycles/second=1000000000\n",
		    w->s->name && strcmp(w->s->name, "mutex") == 0 ? "mutex" : "contention");
		return;
	default:
		for (size_t i = 0; i < w->s->nsamples; i++)
			total += w->s->samples[i].values[0];
		put_name(w->out, w->s->name);
		put(w->out, " profile: total %" PRId64 "\n", total);
	}
}

void ppa_text_put_map(const struct ppa_snapshot *s, struct ppa_sink *out)
{
	for (size_t i = 0; i < s->nmappings; i++) {
		const struct ppa_mapping *m = &s->mappings[i];

		put(out, "%08" PRIx64 "-%08" PRIx64 " r-xp %08" PRIx64 " 00:00 0 ", m->start, m->limit, m->offset);
		put_name(out, m->filename);
		put_text(out, "\n");
	}
}

static int encode(const struct ppa_snapshot *s, bool is_gperftools, struct ppa_sink *out)
{
	struct writer w = {.s = s, .out = out, .is_gperftools = is_gperftools};
	struct ppa_order *order, *sorted;

	if (s->form == PPA_FORM_NONE || !ppa_sound_check(s))
		return -EINVAL;
	if (s->form == PPA_FORM_THREADS)
		return ppa_threads_encode(s, out);
	order = ppa_vheap_malloc((2 * s->nsamples + 1) * sizeof(*order));
	if (!order)
		return out->err = -ENOMEM;
	for (size_t i = 0; i < s->nsamples; i++)
		order[i] = (struct ppa_order){sort_key(s, &s->samples[i]), (uint32_t)i};
	sorted = ppa_order_sort(order, order + s->nsamples, s->nsamples);
	if (is_gperftools)
		put_gperftools_head(&w, sorted);
	else
		put_head(&w, sorted);
	for (size_t i = 0; i < s->nsamples; i++)
		put_record(&w, &s->samples[sorted[i].index]);
	ppa_vheap_free(order);
	if (out->len >= FRAMES_MAX_BYTES)
		put_text(out, "\n# The names of further stacks are left out: too many to read.\n");
	if (s->text_tail && !is_gperftools)
		put_text(out, s->text_tail);
	put_text(out, is_gperftools ? "\nMAPPED_LIBRARIES:\n" : "\n--- Memory map: ---\n");
	ppa_text_put_map(s, out);
	return out->err;
}

int ppa_text_encode(const struct ppa_snapshot *s, struct ppa_sink *out)
{
	return encode(s, false, out);
}

int ppa_text_encode_gperftools(const struct ppa_snapshot *s, struct ppa_sink *out)
{
	return encode(s, true, out);
}
