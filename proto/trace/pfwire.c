/* SPDX-License-Identifier: Apache-2.0
 *
 * A message's length stands before it and is known after it: it gets four bytes, as Perfetto's own writers do it, and a
 * varint of full length. Everything has a bound: the longest packet is a stack of 128 numbers. */
#include "proto/trace/pfwire.h"

#include <errno.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "proto/sink.h"
#include "proto/trace/varint.h"
#include "proto/utf8.h"

enum {
	PACKET_BYTES = 16384,
	TEXT_BYTES = 1024,
	LENGTH_BYTES = 4,
	SEQUENCE = 1,
	FLAG_STATE_CLEARED = 1,
	FLAG_NEEDS_STATE = 2,
	/* wire types */
	VARINT = 0,
	FIXED64 = 1,
	BYTES = 2,
	/* fields */
	TRACE_PACKET = 1,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE_ID = 10,
	PACKET_INTERNED_DATA = 12,
	PACKET_SEQUENCE_FLAGS = 13,
	INTERNED_FUNCTION_NAMES = 5,
	INTERNED_FRAMES = 6,
	INTERNED_CALLSTACKS = 7,
	INTERNED_BUILD_IDS = 16,
	INTERNED_MAPPING_PATHS = 17,
	INTERNED_SOURCE_PATHS = 18,
	INTERNED_MAPPINGS = 19,
	STRING_IID = 1,
	STRING_STR = 2,
	MAPPING_IID = 1,
	MAPPING_BUILD_ID = 2,
	MAPPING_START = 4,
	MAPPING_END = 5,
	MAPPING_PATH_STRING_IDS = 7,
	MAPPING_EXACT_OFFSET = 8,
	FRAME_IID = 1,
	FRAME_FUNCTION_NAME_ID = 2,
	FRAME_MAPPING_ID = 3,
	FRAME_REL_PC = 4,
	FRAME_SOURCE_PATH_IID = 5,
	FRAME_LINE_NUMBER = 6,
	CALLSTACK_IID = 1,
	CALLSTACK_FRAME_IDS = 2,
};

int ppa_pfwire_init(struct ppa_pfwire *w, const struct ppa_trace_input *in, struct ppa_sink *out)
{
	memset(w, 0, sizeof(*w));
	w->out = out;
	w->in = in;
	w->flags = FLAG_STATE_CLEARED | FLAG_NEEDS_STATE;
	ppa_strtab_init(&w->functions);
	ppa_strtab_init(&w->paths);
	ppa_strtab_init(&w->words);
	w->bytes = ppa_vheap_malloc(PACKET_BYTES);
	if (!w->bytes || w->functions.err || w->paths.err || w->words.err)
		w->err = -ENOMEM;
	return w->err;
}

static void put(struct ppa_pfwire *w, uint64_t v)
{
	if (w->len + PPA_TRACE_VARINT_MAX <= PACKET_BYTES)
		w->len += ppa_trace_varint(w->bytes + w->len, v);
}

void ppa_pfwire_uint(struct ppa_pfwire *w, uint32_t field, uint64_t v)
{
	put(w, field << 3 | VARINT);
	put(w, v);
}

void ppa_pfwire_fixed64(struct ppa_pfwire *w, uint32_t field, uint64_t v)
{
	put(w, field << 3 | FIXED64);
	for (unsigned i = 0; i < 8 && w->len < PACKET_BYTES; i++)
		w->bytes[w->len++] = (uint8_t)(v >> 8 * i);
}

static void put_bytes(struct ppa_pfwire *w, uint32_t field, const void *bytes, size_t len)
{
	put(w, field << 3 | BYTES);
	put(w, len);
	if (len <= PACKET_BYTES - w->len) {
		memcpy(w->bytes + w->len, bytes, len);
		w->len += len;
	}
}

void ppa_pfwire_text(struct ppa_pfwire *w, uint32_t field, const char *text)
{
	char clean[TEXT_BYTES];

	put_bytes(w, field, clean, ppa_utf8_clean(clean, sizeof(clean), text, strlen(text)));
}

size_t ppa_pfwire_begin(struct ppa_pfwire *w, uint32_t field)
{
	put(w, field << 3 | BYTES);
	w->len += LENGTH_BYTES;
	return w->len;
}

void ppa_pfwire_end(struct ppa_pfwire *w, size_t mark)
{
	size_t len = w->len - mark;

	for (unsigned i = 0; i < LENGTH_BYTES; i++)
		w->bytes[mark - LENGTH_BYTES + i] = (uint8_t)(len >> 7 * i & 0x7f) | (i < LENGTH_BYTES - 1 ? 0x80 : 0);
}

void ppa_pfwire_packet(struct ppa_pfwire *w, uint64_t at_ns)
{
	w->len = 0;
	ppa_pfwire_begin(w, TRACE_PACKET);
	if (at_ns)
		ppa_pfwire_uint(w, PACKET_TIMESTAMP, at_ns);
	ppa_pfwire_uint(w, PACKET_SEQUENCE_ID, SEQUENCE);
	ppa_pfwire_uint(w, PACKET_SEQUENCE_FLAGS, w->flags);
	w->flags = FLAG_NEEDS_STATE;
}

void ppa_pfwire_packet_end(struct ppa_pfwire *w)
{
	ppa_pfwire_end(w, 1 + LENGTH_BYTES);
	ppa_sink_write(w->out, w->bytes, w->len);
}

/* -- what stacks are made of --------------------------------------------------------------------------------------- */

static void send_bytes(struct ppa_pfwire *w, uint32_t table, uint32_t iid, const void *bytes, size_t len)
{
	size_t data, item;

	ppa_pfwire_packet(w, 0);
	data = ppa_pfwire_begin(w, PACKET_INTERNED_DATA);
	item = ppa_pfwire_begin(w, table);
	ppa_pfwire_uint(w, STRING_IID, iid);
	put_bytes(w, STRING_STR, bytes, len);
	ppa_pfwire_end(w, item);
	ppa_pfwire_end(w, data);
	ppa_pfwire_packet_end(w);
}

static void send_text(struct ppa_pfwire *w, uint32_t table, uint32_t iid, const char *text)
{
	char clean[TEXT_BYTES];

	send_bytes(w, table, iid, clean, ppa_utf8_clean(clean, sizeof(clean), text, strlen(text)));
}

static uint32_t text_of(struct ppa_pfwire *w, struct ppa_strtab *known, uint32_t table, const char *text)
{
	uint32_t n = known->n, iid = ppa_strtab_intern(known, text);

	if (iid == n)
		send_text(w, table, iid, text);
	return iid;
}

uint32_t ppa_pfwire_word(struct ppa_pfwire *w, enum ppa_pf_words table, const char *text)
{
	uint32_t iid = ppa_strtab_intern(&w->words, text), *is_sent;

	if (!iid)
		return 0;
	is_sent = ppa_trace_table_at(&w->sent, (uint64_t)table << 32 | iid);
	if (!is_sent)
		w->err = -ENOMEM;
	if (is_sent && !*is_sent) {
		*is_sent = 1;
		send_text(w, table, iid, text);
	}
	return iid;
}

/* Hexadecimal digits to bytes. */
static size_t build_id_of(const char *hex, uint8_t *id, size_t cap)
{
	size_t n = 0;

	for (; n < cap && hex[0] && hex[1]; hex += 2, n++)
		id[n] = (uint8_t)(((hex[0] & 15) + (hex[0] > '9' ? 9 : 0)) << 4 |
				  ((hex[1] & 15) + (hex[1] > '9' ? 9 : 0)));
	return n;
}

/* The number of a mapping; PPA_SNAPSHOT_NO_MAPPING has one, too: Perfetto drops frames without. */
static uint32_t mapping_of(struct ppa_pfwire *w, uint32_t mapping)
{
	static const struct ppa_mapping nobodys = {.limit = UINT64_MAX, .filename = "[unknown]", .build_id = ""};
	const struct ppa_mapping *m =
		w->in->stacks && mapping < w->in->stacks->nmappings ? &w->in->stacks->mappings[mapping] : &nobodys;
	uint32_t *iid = ppa_trace_table_at(&w->mappings, mapping);
	uint8_t id[32];
	size_t data, item;

	if (!iid)
		w->err = -ENOMEM;
	if (!iid || *iid)
		return iid ? *iid : 0;
	*iid = (uint32_t)w->mappings.n;
	send_text(w, INTERNED_MAPPING_PATHS, *iid, m->filename ? m->filename : "");
	send_bytes(w, INTERNED_BUILD_IDS, *iid, id, build_id_of(m->build_id ? m->build_id : "", id, sizeof(id)));
	ppa_pfwire_packet(w, 0);
	data = ppa_pfwire_begin(w, PACKET_INTERNED_DATA);
	item = ppa_pfwire_begin(w, INTERNED_MAPPINGS);
	ppa_pfwire_uint(w, MAPPING_IID, *iid);
	ppa_pfwire_uint(w, MAPPING_BUILD_ID, *iid);
	ppa_pfwire_uint(w, MAPPING_START, m->start);
	ppa_pfwire_uint(w, MAPPING_END, m->limit);
	ppa_pfwire_uint(w, MAPPING_PATH_STRING_IDS, *iid);
	ppa_pfwire_uint(w, MAPPING_EXACT_OFFSET, m->offset);
	ppa_pfwire_end(w, item);
	ppa_pfwire_end(w, data);
	ppa_pfwire_packet_end(w);
	return *iid;
}

static uint32_t frame_of(struct ppa_pfwire *w, const struct ppa_trace_frame *f)
{
	uint32_t *iid = ppa_trace_table_at(&w->frames, f->pc), mapping, function, path;
	const struct ppa_mapping *m =
		w->in->stacks && f->mapping < w->in->stacks->nmappings ? &w->in->stacks->mappings[f->mapping] : NULL;
	size_t data, item;

	if (!iid)
		w->err = -ENOMEM;
	if (!iid || *iid)
		return iid ? *iid : 0;
	*iid = ++w->nframes;
	mapping = mapping_of(w, f->mapping);
	function = text_of(w, &w->functions, INTERNED_FUNCTION_NAMES, f->function);
	path = text_of(w, &w->paths, INTERNED_SOURCE_PATHS, f->file);
	ppa_pfwire_packet(w, 0);
	data = ppa_pfwire_begin(w, PACKET_INTERNED_DATA);
	item = ppa_pfwire_begin(w, INTERNED_FRAMES);
	ppa_pfwire_uint(w, FRAME_IID, w->nframes);
	ppa_pfwire_uint(w, FRAME_FUNCTION_NAME_ID, function);
	ppa_pfwire_uint(w, FRAME_MAPPING_ID, mapping);
	ppa_pfwire_uint(w, FRAME_REL_PC, m ? f->pc - m->start + m->offset : f->pc);
	ppa_pfwire_uint(w, FRAME_SOURCE_PATH_IID, path);
	ppa_pfwire_uint(w, FRAME_LINE_NUMBER, f->line & UINT32_MAX);
	ppa_pfwire_end(w, item);
	ppa_pfwire_end(w, data);
	ppa_pfwire_packet_end(w);
	return w->nframes;
}

uint32_t ppa_pfwire_stack(struct ppa_pfwire *w, uint32_t stack, uint32_t root)
{
	uint32_t *iid = ppa_trace_table_at(&w->stacks, (uint64_t)stack << 32 | root);
	size_t n, data, item;

	if (!iid)
		w->err = -ENOMEM;
	if (!iid || *iid)
		return iid ? *iid : 0;
	n = ppa_trace_frames(w->in, stack, root, w->scratch);
	if (!n)
		return 0;
	*iid = ++w->nstacks;
	for (size_t i = 0; i < n; i++)
		w->frame_ids[i] = frame_of(w, &w->scratch[i]);
	ppa_pfwire_packet(w, 0);
	data = ppa_pfwire_begin(w, PACKET_INTERNED_DATA);
	item = ppa_pfwire_begin(w, INTERNED_CALLSTACKS);
	ppa_pfwire_uint(w, CALLSTACK_IID, w->nstacks);
	for (size_t i = n; i > 0; i--) /* outermost first */
		ppa_pfwire_uint(w, CALLSTACK_FRAME_IDS, w->frame_ids[i - 1]);
	ppa_pfwire_end(w, item);
	ppa_pfwire_end(w, data);
	ppa_pfwire_packet_end(w);
	return w->nstacks;
}

int ppa_pfwire_finish(struct ppa_pfwire *w)
{
	int err = w->err ? w->err : w->words.err ? w->words.err : w->functions.err ? w->functions.err : w->paths.err;

	if (err && !w->out->err)
		w->out->err = err;
	return w->out->err;
}

void ppa_pfwire_free(struct ppa_pfwire *w)
{
	ppa_vheap_free(w->bytes);
	ppa_strtab_free(&w->functions);
	ppa_strtab_free(&w->paths);
	ppa_strtab_free(&w->words);
	ppa_trace_table_free(&w->sent);
	ppa_trace_table_free(&w->mappings);
	ppa_trace_table_free(&w->frames);
	ppa_trace_table_free(&w->stacks);
}
