/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot -> nanopb (field by field) -> gzip -> sink. The top message is written by hand, one
 * repeated field after the other, and so are samples; the other messages inside it are nanopb's
 * structs, so that this file says which value goes where and little about wire types. Strings get
 * their index when a message first names them; the table itself goes last.
 *
 * Nothing of the size of the profile is held: nanopb asks every message twice, once for its length
 * and once for its bytes, and what it wants the first time is cheap here. The callbacks below
 * therefore run twice and must answer the same both times; interning does.
 *
 * A snapshot whose indices point outside its own arrays is refused as a whole: a collector's bug
 * may cost a request, never the target. Rejected: generating structs for the whole profile (as much
 * memory again as the snapshot), and sending the string table in field order (it would need a pass
 * over everything before). */
#include "proto/pprof.h"

#include <errno.h>
#include <pb_encode.h>

#include "agent/snapshot/snapshot.h"
#include "proto/gzip.h"
#include "proto/profile.pb.h"
#include "proto/sink.h"
#include "proto/sound.h"
#include "proto/strtab.h"
#include "proto/utf8.h"

struct encoder {
	const struct ppa_snapshot *s;
	struct ppa_strtab strings;
	pb_ostream_t out; /* its state is the gzip writer */
};

/* What a callback is told: the encoder and the message's own record. */
struct part {
	struct encoder *e;
	const void *record;
};

static bool to_gzip(pb_ostream_t *out, const pb_byte_t *bytes, size_t len)
{
	return ppa_gzip_write(out->state, bytes, len);
}

static uint32_t intern(struct encoder *e, const char *text)
{
	return ppa_strtab_intern(&e->strings, text);
}

/* One element of a repeated message field. */
static bool put_message(pb_ostream_t *out, uint32_t tag, const pb_msgdesc_t *desc, const void *msg)
{
	return pb_encode_tag(out, PB_WT_STRING, tag) && pb_encode_submessage(out, desc, msg);
}

/* proto3: a zero is not sent. */
static bool put_number(pb_ostream_t *out, uint32_t tag, int64_t v)
{
	return v == 0 || (pb_encode_tag(out, PB_WT_VARINT, tag) && pb_encode_varint(out, (uint64_t)v));
}

/* Samples are most of a profile, and nanopb, which walks a description of the message twice, costs as much for them as
 * compressing does. They are written by hand: lengths first, then the bytes, gathered here before the gzip writer sees
 * them. */
struct gathered {
	struct ppa_gzip *to;
	size_t n;
	uint8_t buf[1024];
};

enum { VARINT_MAX_BYTES = 10 };

static bool flush(struct gathered *g)
{
	bool ok = ppa_gzip_write(g->to, g->buf, g->n);

	g->n = 0;
	return ok;
}

static size_t varint_bytes(uint64_t v)
{
	return (70u - (unsigned)__builtin_clzll(v | 1)) / 7;
}

/* Errors are the gzip writer's, which remembers them. */
static void put_varint(struct gathered *g, uint64_t v)
{
	if (g->n > sizeof(g->buf) - VARINT_MAX_BYTES)
		flush(g);
	for (; v > 0x7f; v >>= 7)
		g->buf[g->n++] = (uint8_t)(v | 0x80);
	g->buf[g->n++] = (uint8_t)v;
}

static uint64_t key_of(uint32_t tag, pb_wire_type_t type)
{
	return (uint64_t)tag << 3 | type;
}

/* A field of bytes: what it takes in all, and its head. Tags here are below 16: one byte. */
static size_t field_bytes(size_t len)
{
	return 1 + varint_bytes(len) + len;
}

static void put_field_head(struct gathered *g, uint32_t tag, size_t len)
{
	put_varint(g, key_of(tag, PB_WT_STRING));
	put_varint(g, len);
}

/* A label's fields: numbers that are sent unless they are 0. */
struct label_fields {
	uint64_t key, str, num, num_unit;
};

static struct label_fields fields_of(struct encoder *e, const struct ppa_label *l)
{
	struct label_fields f = {.key = intern(e, l->key)};

	if (!f.key)
		return f;
	if (l->str)
		f.str = intern(e, l->str);
	else
		f = (struct label_fields){f.key, 0, (uint64_t)l->num, intern(e, l->num_unit)};
	return f;
}

static size_t number_bytes(uint64_t v)
{
	return v ? 1 + varint_bytes(v) : 0;
}

static size_t label_bytes(const struct label_fields *f)
{
	return number_bytes(f->key) + number_bytes(f->str) + number_bytes(f->num) + number_bytes(f->num_unit);
}

static void put_nonzero(struct gathered *g, uint32_t tag, uint64_t v)
{
	if (!v)
		return;
	put_varint(g, key_of(tag, PB_WT_VARINT));
	put_varint(g, v);
}

/* A label without a key has no meaning to any reader and is left out. With g NULL, only the bytes are counted. */
static size_t put_labels(struct encoder *e, const struct ppa_snap_sample *sample, struct gathered *g)
{
	size_t total = 0;

	for (uint32_t i = 0; i < sample->nlabels; i++) {
		struct label_fields f = fields_of(e, &e->s->labels[sample->first_label + i]);
		size_t len = label_bytes(&f);

		if (!f.key)
			continue;
		total += field_bytes(len);
		if (!g)
			continue;
		put_field_head(g, ppa_wire_Sample_label_tag, len);
		put_nonzero(g, ppa_wire_Label_key_tag, f.key);
		put_nonzero(g, ppa_wire_Label_str_tag, f.str);
		put_nonzero(g, ppa_wire_Label_num_tag, f.num);
		put_nonzero(g, ppa_wire_Label_num_unit_tag, f.num_unit);
	}
	return total;
}

static void put_sample(struct encoder *e, const struct ppa_snap_sample *sample, struct gathered *g)
{
	const uint32_t *loc = e->s->stack_locs + sample->first_loc;
	uint32_t nvalues = e->s->nsample_types;
	size_t ids = 0, values = 0;

	for (uint32_t i = 0; i < sample->nlocs; i++)
		ids += varint_bytes(loc[i] + UINT64_C(1));
	for (uint32_t i = 0; i < nvalues; i++)
		values += varint_bytes((uint64_t)sample->values[i]);
	put_field_head(g, ppa_wire_Profile_sample_tag,
		       (ids ? field_bytes(ids) : 0) + field_bytes(values) + put_labels(e, sample, NULL));
	if (ids)
		put_field_head(g, ppa_wire_Sample_location_id_tag, ids);
	for (uint32_t i = 0; i < sample->nlocs; i++)
		put_varint(g, loc[i] + UINT64_C(1));
	put_field_head(g, ppa_wire_Sample_value_tag, values);
	for (uint32_t i = 0; i < nvalues; i++)
		put_varint(g, (uint64_t)sample->values[i]);
	put_labels(e, sample, g);
}

static bool put_samples(struct encoder *e)
{
	struct gathered g;

	g.to = e->out.state;
	g.n = 0;
	for (size_t i = 0; i < e->s->nsamples; i++)
		put_sample(e, &e->s->samples[i], &g);
	return flush(&g);
}

static bool put_lines(pb_ostream_t *out, const pb_field_t *field, void *const *arg)
{
	const struct part *p = *arg;
	const struct ppa_location *loc = p->record;

	for (uint32_t i = 0; i < loc->nlines; i++) {
		const struct ppa_line *l = &p->e->s->lines[loc->first_line + i];
		ppa_wire_Line msg = {.function_id = l->function + UINT64_C(1), .line = l->line};

		if (!put_message(out, field->tag, ppa_wire_Line_fields, &msg))
			return false;
	}
	return true;
}

static bool put_value_type(struct encoder *e, uint32_t tag, const struct ppa_value_type *v)
{
	ppa_wire_ValueType msg = {.type = intern(e, v->type), .unit = intern(e, v->unit)};

	return put_message(&e->out, tag, ppa_wire_ValueType_fields, &msg);
}

static bool put_mappings(struct encoder *e)
{
	for (size_t i = 0; i < e->s->nmappings; i++) {
		const struct ppa_mapping *m = &e->s->mappings[i];
		ppa_wire_Mapping msg = {
			.id = i + 1,
			.memory_start = m->start,
			.memory_limit = m->limit,
			.file_offset = m->offset,
			.filename = intern(e, m->filename),
			.build_id = intern(e, m->build_id),
			.has_functions = m->has_functions,
			.has_filenames = m->has_filenames,
			.has_line_numbers = m->has_line_numbers,
			.has_inline_frames = m->has_inline_frames,
		};

		if (!put_message(&e->out, ppa_wire_Profile_mapping_tag, ppa_wire_Mapping_fields, &msg))
			return false;
	}
	return true;
}

static bool put_locations(struct encoder *e)
{
	struct part p = {.e = e};

	for (size_t i = 0; i < e->s->nlocations; i++) {
		const struct ppa_location *l = &e->s->locations[i];
		ppa_wire_Location msg = {
			.id = i + 1,
			.mapping_id = l->mapping == PPA_SNAPSHOT_NO_MAPPING ? 0 : l->mapping + UINT64_C(1),
			.address = l->address,
			.line = {.funcs.encode = put_lines, .arg = &p},
		};

		p.record = l;
		if (!put_message(&e->out, ppa_wire_Profile_location_tag, ppa_wire_Location_fields, &msg))
			return false;
	}
	return true;
}

static bool put_functions(struct encoder *e)
{
	for (size_t i = 0; i < e->s->nfunctions; i++) {
		const struct ppa_function *f = &e->s->functions[i];
		ppa_wire_Function msg = {
			.id = i + 1,
			.name = intern(e, f->name),
			.system_name = intern(e, f->system_name),
			.filename = intern(e, f->filename),
			.start_line = f->start_line,
		};

		if (!put_message(&e->out, ppa_wire_Profile_function_tag, ppa_wire_Function_fields, &msg))
			return false;
	}
	return true;
}

/* Not packed: few, and an empty one is simply not sent. */
static bool put_comments(struct encoder *e)
{
	for (size_t i = 0; i < e->s->ncomments; i++)
		if (!put_number(&e->out, ppa_wire_Profile_comment_tag, intern(e, e->s->comments[i])))
			return false;
	return true;
}

/* The bytes of a string with '?' for each one that is not part of valid UTF-8, so that its length
 * stays. */
static bool put_text(pb_ostream_t *out, const char *text, size_t len)
{
	while (len) {
		size_t n = ppa_utf8_span(text, len);

		if (!pb_write(out, (const pb_byte_t *)text, n))
			return false;
		text += n;
		len -= n;
		if (!len)
			break;
		if (!pb_write(out, (const pb_byte_t *)"?", 1))
			return false;
		text++;
		len--;
	}
	return true;
}

static bool put_strings(struct encoder *e)
{
	for (uint32_t i = 0; i < e->strings.n; i++) {
		const struct ppa_strtab_entry *t = &e->strings.entries[i];

		if (!pb_encode_tag(&e->out, PB_WT_STRING, ppa_wire_Profile_string_table_tag) ||
		    !pb_encode_varint(&e->out, t->len) || !put_text(&e->out, t->text, t->len))
			return false;
	}
	return true;
}

static bool put_head(struct encoder *e)
{
	const struct ppa_snapshot *s = e->s;

	for (uint32_t i = 0; i < s->nsample_types; i++)
		if (!put_value_type(e, ppa_wire_Profile_sample_type_tag, &s->sample_types[i]))
			return false;
	return put_value_type(e, ppa_wire_Profile_period_type_tag, &s->period_type) &&
	       put_number(&e->out, ppa_wire_Profile_period_tag, s->period) &&
	       put_number(&e->out, ppa_wire_Profile_time_nanos_tag, s->time_ns) &&
	       put_number(&e->out, ppa_wire_Profile_duration_nanos_tag, s->duration_ns) &&
	       put_number(&e->out, ppa_wire_Profile_default_sample_type_tag, intern(e, s->default_sample_type)) &&
	       put_comments(e);
}

int ppa_pprof_encode(const struct ppa_snapshot *s, struct ppa_sink *out)
{
	struct encoder e = {.s = s};
	struct ppa_gzip *gzip;
	bool whole;
	int err;

	if (out->err)
		return out->err;
	if (!ppa_sound_check(s))
		return -EINVAL;
	gzip = ppa_gzip_open(out);
	if (!gzip)
		return out->err = -ENOMEM;
	ppa_strtab_init(&e.strings);
	e.out = (pb_ostream_t){.callback = to_gzip, .state = gzip, .max_size = SIZE_MAX};
	whole = put_head(&e) && put_samples(&e) && put_mappings(&e) && put_locations(&e) && put_functions(&e) &&
		put_strings(&e);
	err = ppa_gzip_close(gzip);
	if (!err && e.strings.err)
		err = out->err = e.strings.err;
	ppa_strtab_free(&e.strings);
	return err ? err : whole ? 0 : -EIO;
}
