/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot -> nanopb (field by field) -> gzip -> sink. The top message is written by hand, one
 * repeated field after the other; the messages inside it are nanopb's structs, so that this file
 * says which value goes where and nothing about wire types. Strings get their index when a message
 * first names them; the table itself goes last.
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

/* Packed numbers on their way out. They are most of a profile, and a call through nanopb, the gzip
 * writer and memcpy for each of them costs as much as compressing it does: they are gathered here
 * first. */
struct packed {
	pb_ostream_t *out;
	size_t n;
	pb_byte_t buf[256];
};

enum { VARINT_MAX_BYTES = 10 };

static size_t varint_bytes(uint64_t v)
{
	return (70u - (unsigned)__builtin_clzll(v | 1)) / 7;
}

static bool pack(struct packed *p, uint64_t v)
{
	if (p->n > sizeof(p->buf) - VARINT_MAX_BYTES) {
		if (!pb_write(p->out, p->buf, p->n))
			return false;
		p->n = 0;
	}
	for (; v > 0x7f; v >>= 7)
		p->buf[p->n++] = (pb_byte_t)(v | 0x80);
	p->buf[p->n++] = (pb_byte_t)v;
	return true;
}

/* The head of a packed field of len bytes, and, if the stream only counts, the room for them. */
static bool put_packed_head(pb_ostream_t *out, uint32_t tag, size_t len)
{
	return pb_encode_tag(out, PB_WT_STRING, tag) && pb_encode_varint(out, len) &&
	       (out->callback || pb_write(out, NULL, len));
}

static bool put_location_ids(pb_ostream_t *out, const pb_field_t *field, void *const *arg)
{
	const struct part *p = *arg;
	const struct ppa_snap_sample *sample = p->record;
	const uint32_t *loc;
	struct packed ids;
	size_t len = 0;

	if (!sample->nlocs)
		return true;
	loc = p->e->s->stack_locs + sample->first_loc;
	for (uint32_t i = 0; i < sample->nlocs; i++)
		len += varint_bytes(loc[i] + UINT64_C(1));
	if (!put_packed_head(out, field->tag, len))
		return false;
	if (!out->callback)
		return true;
	ids.out = out;
	ids.n = 0;
	for (uint32_t i = 0; i < sample->nlocs; i++)
		if (!pack(&ids, loc[i] + UINT64_C(1)))
			return false;
	return pb_write(out, ids.buf, ids.n);
}

static bool put_values(pb_ostream_t *out, const pb_field_t *field, void *const *arg)
{
	const struct part *p = *arg;
	const struct ppa_snap_sample *sample = p->record;
	uint32_t n = p->e->s->nsample_types;
	struct packed values;
	size_t len = 0;

	for (uint32_t i = 0; i < n; i++)
		len += varint_bytes((uint64_t)sample->values[i]);
	if (!put_packed_head(out, field->tag, len))
		return false;
	if (!out->callback)
		return true;
	values.out = out;
	values.n = 0;
	for (uint32_t i = 0; i < n; i++)
		if (!pack(&values, (uint64_t)sample->values[i]))
			return false;
	return pb_write(out, values.buf, values.n);
}

/* A label without a key has no meaning to any reader and is left out. */
static bool put_labels(pb_ostream_t *out, const pb_field_t *field, void *const *arg)
{
	const struct part *p = *arg;
	const struct ppa_snap_sample *sample = p->record;

	for (uint32_t i = 0; i < sample->nlabels; i++) {
		const struct ppa_label *l = &p->e->s->labels[sample->first_label + i];
		ppa_wire_Label msg = {.key = intern(p->e, l->key)};

		if (!msg.key)
			continue;
		if (l->str) {
			msg.str = intern(p->e, l->str);
		} else {
			msg.num = l->num;
			msg.num_unit = intern(p->e, l->num_unit);
		}
		if (!put_message(out, field->tag, ppa_wire_Label_fields, &msg))
			return false;
	}
	return true;
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

static bool put_samples(struct encoder *e)
{
	struct part p = {.e = e};
	ppa_wire_Sample msg = {
		.location_id = {.funcs.encode = put_location_ids, .arg = &p},
		.value = {.funcs.encode = put_values, .arg = &p},
		.label = {.funcs.encode = put_labels, .arg = &p},
	};

	for (size_t i = 0; i < e->s->nsamples; i++) {
		p.record = &e->s->samples[i];
		if (!put_message(&e->out, ppa_wire_Profile_sample_tag, ppa_wire_Sample_fields, &msg))
			return false;
	}
	return true;
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

/* Does the range [first, first + n) lie within [0, total)? */
static bool is_within(uint32_t first, uint32_t n, size_t total)
{
	return first <= total && n <= total - first;
}

static bool is_sound(const struct ppa_snapshot *s)
{
	if (s->nsample_types < 1 || s->nsample_types > PPA_SNAPSHOT_MAX_VALUES)
		return false;
	for (size_t i = 0; i < s->nsamples; i++)
		if (!is_within(s->samples[i].first_loc, s->samples[i].nlocs, s->nstack_locs) ||
		    !is_within(s->samples[i].first_label, s->samples[i].nlabels, s->nlabels))
			return false;
	for (size_t i = 0; i < s->nstack_locs; i++)
		if (s->stack_locs[i] >= s->nlocations)
			return false;
	for (size_t i = 0; i < s->nlocations; i++)
		if (!is_within(s->locations[i].first_line, s->locations[i].nlines, s->nlines) ||
		    (s->locations[i].mapping >= s->nmappings && s->locations[i].mapping != PPA_SNAPSHOT_NO_MAPPING))
			return false;
	for (size_t i = 0; i < s->nlines; i++)
		if (s->lines[i].function >= s->nfunctions)
			return false;
	return true;
}

int ppa_pprof_encode(const struct ppa_snapshot *s, struct ppa_sink *out)
{
	struct encoder e = {.s = s};
	struct ppa_gzip *gzip;
	bool whole;
	int err;

	if (out->err)
		return out->err;
	if (!is_sound(s))
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
