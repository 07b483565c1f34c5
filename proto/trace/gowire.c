/* SPDX-License-Identifier: Apache-2.0
 *
 * Ticks are nanoseconds of CLOCK_MONOTONIC. Limits from Go's reader: 64 KiB a batch, 1024 bytes a string; it refuses
 * files that exceed them. */
#include "proto/trace/gowire.h"

#include <errno.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "proto/sink.h"
#include "proto/trace/varint.h"
#include "proto/utf8.h"

enum {
	BATCH_BYTES = 65536,
	STRING_BYTES = 1024,
	GENERATION = 1,
	ROOT_ONLY = 1 << 31, /* in a place's root: the stack's last frame alone */
	/* Bytes outside of timed batches, which say what a table holds. */
	BATCH = 1,
	STACKS = 2,
	STACK = 3,
	STRINGS = 4,
	STRING = 5,
	SAMPLES = 6,
	SAMPLE = 7,
	FREQUENCY = 8,
	SYNC = 50,
	CLOCK_SNAPSHOT = 51,
	END_OF_GENERATION = 52,
	MOST_EVENT_BYTES = 1 + 5 * PPA_TRACE_VARINT_MAX,
	MOST_STACK_BYTES = 1 + (2 + 4 * PPA_TRACE_MAX_FRAMES) * PPA_TRACE_VARINT_MAX,
};

#define TICKS_A_SECOND UINT64_C(1000000000)

static void put(struct ppa_go_batch *b, uint64_t v)
{
	b->len += ppa_trace_varint(b->bytes + b->len, v);
}

static void flush(struct ppa_gowire *w, struct ppa_go_batch *b)
{
	uint8_t head[1 + 4 * PPA_TRACE_VARINT_MAX] = {BATCH};
	size_t n = 1;

	if (!b->len)
		return;
	n += ppa_trace_varint(head + n, GENERATION);
	n += ppa_trace_varint(head + n, b->m);
	n += ppa_trace_varint(head + n, b->begin);
	n += ppa_trace_varint(head + n, b->len);
	ppa_sink_write(w->out, head, n);
	ppa_sink_write(w->out, b->bytes, b->len);
	b->len = 0;
}

/* Room for so many bytes in a table's batch, which opens with what. */
static void table_room(struct ppa_gowire *w, struct ppa_go_batch *b, uint8_t what, size_t bytes)
{
	if (b->len + bytes > BATCH_BYTES)
		flush(w, b);
	if (!b->len)
		b->bytes[b->len++] = what;
}

int ppa_gowire_init(struct ppa_gowire *w, const struct ppa_trace_input *in, enum ppa_gotrace_version version,
		    struct ppa_sink *out)
{
	char head[16] = "go 1.00 trace";

	memset(w, 0, sizeof(*w));
	w->out = out;
	w->in = in;
	w->version = version;
	ppa_strtab_init(&w->strings);
	w->events.bytes = ppa_vheap_malloc(BATCH_BYTES);
	w->stacks.bytes = ppa_vheap_malloc(BATCH_BYTES);
	w->samples.bytes = ppa_vheap_malloc(BATCH_BYTES);
	if (!w->events.bytes || !w->stacks.bytes || !w->samples.bytes || w->strings.err)
		return w->err = -ENOMEM;
	w->stacks.m = w->samples.m = PPA_GO_NONE;
	w->stacks.begin = w->samples.begin = in->start_ns;
	head[5] = (char)('0' + version / 10);
	head[6] = (char)('0' + version % 10);
	ppa_sink_write(out, head, sizeof(head));
	return 0;
}

void ppa_gowire_thread(struct ppa_gowire *w, uint64_t m)
{
	flush(w, &w->events);
	w->events.m = m;
	w->events.last = 0;
}

void ppa_gowire_event(struct ppa_gowire *w, uint64_t at, enum ppa_go_event id, const uint64_t *args, size_t nargs)
{
	struct ppa_go_batch *b = &w->events;

	if (b->len + MOST_EVENT_BYTES > BATCH_BYTES)
		flush(w, b);
	at = at > b->last ? at : b->last;
	if (!b->len)
		b->begin = b->last = at;
	b->bytes[b->len++] = (uint8_t)id;
	put(b, at - b->last);
	for (size_t i = 0; i < nargs; i++)
		put(b, args[i]);
	b->last = at;
	w->nevents++;
}

void ppa_gowire_sample(struct ppa_gowire *w, uint64_t at, uint64_t m, uint64_t p, uint64_t g, uint64_t stack)
{
	const uint64_t fields[] = {at, m, p, g, stack};

	table_room(w, &w->samples, SAMPLES, MOST_EVENT_BYTES);
	w->samples.bytes[w->samples.len++] = SAMPLE;
	for (size_t i = 0; i < PPA_ARRAY_LEN(fields); i++)
		put(&w->samples, fields[i]);
	w->nevents++;
}

uint64_t ppa_gowire_string(struct ppa_gowire *w, const char *text)
{
	return ppa_strtab_intern(&w->strings, text);
}

static uint64_t intern(struct ppa_gowire *w, uint32_t stack, uint32_t root)
{
	uint32_t base = root & ~(uint32_t)ROOT_ONLY, *id;
	size_t n;

	id = ppa_trace_table_at(&w->known, (uint64_t)stack << 32 | root);
	if (!id)
		w->err = -ENOMEM;
	if (!id || *id)
		return id ? *id : 0;
	n = root == base ? ppa_trace_frames(w->in, stack, base, w->frames)
			 : ppa_trace_frames_root(w->in, stack, base, w->frames);
	if (!n)
		return 0;
	if (stack == PPA_TRACE_STACK_AGENT && w->agent)
		w->frames[0].function = w->agent;
	*id = ++w->nstacks;
	table_room(w, &w->stacks, STACKS, MOST_STACK_BYTES);
	w->stacks.bytes[w->stacks.len++] = STACK;
	put(&w->stacks, *id);
	put(&w->stacks, n);
	for (size_t i = 0; i < n; i++) {
		put(&w->stacks, w->frames[i].pc);
		put(&w->stacks, ppa_gowire_string(w, w->frames[i].function));
		put(&w->stacks, ppa_gowire_string(w, w->frames[i].file));
		put(&w->stacks, w->frames[i].line);
	}
	return *id;
}

uint64_t ppa_gowire_stack(struct ppa_gowire *w, uint32_t stack, uint32_t root)
{
	return stack ? intern(w, stack, root & ~(uint32_t)ROOT_ONLY) : 0;
}

uint64_t ppa_gowire_root(struct ppa_gowire *w, uint32_t stack, uint32_t root)
{
	return intern(w, stack, root | ROOT_ONLY);
}

static void put_strings(struct ppa_gowire *w)
{
	struct ppa_go_batch *b = &w->stacks; /* flushed; not needed any more */
	char text[STRING_BYTES];

	for (uint32_t i = 1; i < w->strings.n; i++) {
		size_t n = ppa_utf8_clean(text, sizeof(text), w->strings.entries[i].text, w->strings.entries[i].len);

		table_room(w, b, STRINGS, 1 + 2 * PPA_TRACE_VARINT_MAX + STRING_BYTES);
		b->bytes[b->len++] = STRING;
		put(b, i);
		put(b, n);
		memcpy(b->bytes + b->len, text, n);
		b->len += n;
	}
	flush(w, b);
}

static void put_clock(struct ppa_gowire *w)
{
	struct ppa_go_batch *b = &w->stacks;
	int64_t utc = w->in->start_utc_ns > 0 ? w->in->start_utc_ns : 0;

	if (w->version >= PPA_GOTRACE_25)
		b->bytes[b->len++] = SYNC;
	b->bytes[b->len++] = FREQUENCY;
	put(b, TICKS_A_SECOND);
	if (w->version >= PPA_GOTRACE_25) {
		b->bytes[b->len++] = CLOCK_SNAPSHOT;
		put(b, 0);
		put(b, w->in->start_ns);
		put(b, (uint64_t)utc / TICKS_A_SECOND);
		put(b, (uint64_t)utc % TICKS_A_SECOND);
	}
	flush(w, b);
}

int ppa_gowire_finish(struct ppa_gowire *w)
{
	const uint8_t end = END_OF_GENERATION;

	flush(w, &w->events);
	flush(w, &w->samples);
	flush(w, &w->stacks);
	put_strings(w);
	put_clock(w);
	if (w->version >= PPA_GOTRACE_26)
		ppa_sink_write(w->out, &end, 1);
	if (w->strings.err && !w->out->err)
		w->out->err = w->strings.err;
	if (w->err && !w->out->err)
		w->out->err = w->err;
	return w->out->err;
}

void ppa_gowire_free(struct ppa_gowire *w)
{
	ppa_vheap_free(w->events.bytes);
	ppa_vheap_free(w->stacks.bytes);
	ppa_vheap_free(w->samples.bytes);
	ppa_trace_table_free(&w->known);
	ppa_strtab_free(&w->strings);
}
