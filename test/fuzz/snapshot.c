/* SPDX-License-Identifier: Apache-2.0 */
// link: proto/pprof.c proto/text.c proto/folded.c proto/flame.c proto/hottest.c proto/json.c proto/stacks.c proto/tuples.c proto/order.c proto/threads.c proto/sound.c proto/gzip.c proto/sink.c proto/strtab.c proto/utf8.c test/fakes/vheap.c @nanopb @zlib
/* Promise: whatever a snapshot holds, the encoder either refuses it or writes a file that gunzips
 * and parses, in which ids count from 1, references lead somewhere, every sample has as many values
 * as there are types, and strings are UTF-8 with "" first. Memory that runs out half-way is an
 * error and no leak. The text form has a line for each sample, and no name breaks a line.
 * Collapsed stacks have the sum of the samples, with a stack and a value in each line. The flame graph's data is plain text
 * that no name can leave, and its tables' self values add up.
 *
 * The parser below is a reading of the format on its own: it shares no code with the encoder but
 * the UTF-8 check. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "agent/snapshot/snapshot.h"
#include "proto/flame.h"
#include "proto/folded.h"
#include "proto/hottest.h"
#include "proto/pprof.h"
#include "proto/sink.h"
#include "proto/stacks.h"
#include "proto/text.h"
#include "proto/utf8.h"
#include "test/fakes/vheap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 24, RAW_BYTES = 1 << 18, TEXT_BYTES = 12 };

#define REQUIRE(claim)                                                                                                 \
	do {                                                                                                           \
		if (!(claim))                                                                                          \
			__builtin_trap();                                                                              \
	} while (0)

/* -- the input as a source of choices; after its end, zeroes ----------------------------------- */

static struct {
	const uint8_t *at, *end;
} input;

static uint64_t take(size_t bytes)
{
	uint64_t v = 0;

	for (; bytes && input.at < input.end; bytes--)
		v = v << 8 | *input.at++;
	return v;
}

/* Mostly inside [0, n), sometimes anywhere. */
static uint32_t take_index(size_t n)
{
	uint8_t b = (uint8_t)take(1);

	if (b == 0xff || !n)
		return (uint32_t)take(4);
	return (uint32_t)(b % n);
}

static int64_t take_number(void)
{
	return (int64_t)take(take(1) % 9);
}

static struct {
	char texts[256][TEXT_BYTES];
	struct ppa_mapping mappings[MOST];
	struct ppa_function functions[MOST];
	struct ppa_line lines[MOST];
	struct ppa_location locations[MOST];
	uint32_t stack_locs[MOST * 4];
	struct ppa_label labels[MOST];
	struct ppa_snap_sample samples[MOST];
	const char *comments[MOST];
	unsigned ntexts;
	void *copies[8];
	unsigned ncopies;
	struct ppa_snapshot s;
} in;

/* A copy of exactly that size, so that the address sanitizer sees one element too many. */
static void *exact(const void *from, size_t n, size_t size)
{
	void *copy;

	REQUIRE(in.ncopies < sizeof(in.copies) / sizeof(in.copies[0]));
	copy = malloc(n * size + !n);
	REQUIRE(copy);
	memcpy(copy, from, n * size);
	return in.copies[in.ncopies++] = copy;
}

static const char *take_text(void)
{
	uint8_t how = (uint8_t)take(1);
	char *text;

	if (how == 0)
		return NULL;
	if (how < 128 || in.ntexts == 256)
		return in.ntexts ? in.texts[how % in.ntexts] : "";
	text = in.texts[in.ntexts++];
	memset(text, 0, TEXT_BYTES);
	for (unsigned i = 0; i < how % TEXT_BYTES; i++)
		text[i] = (char)take(1);
	return text;
}

static struct ppa_value_type take_value_type(void)
{
	return (struct ppa_value_type){take_text(), take_text()};
}

static void build_code(struct ppa_snapshot *s)
{
	s->nmappings = take(1) % MOST;
	s->nfunctions = take(1) % MOST;
	s->nlines = take(1) % MOST;
	s->nlocations = take(1) % MOST;
	for (size_t i = 0; i < s->nmappings; i++) {
		uint64_t start = take(8), limit = take(8), offset = take(4);
		uint8_t has = (uint8_t)take(1);

		in.mappings[i] = (struct ppa_mapping){start,   limit,	offset,	 take_text(), take_text(),
						      has & 1, has & 2, has & 4, has & 8};
	}
	for (size_t i = 0; i < s->nfunctions; i++)
		in.functions[i] = (struct ppa_function){take_text(), take_text(), take_text(), take_number()};
	for (size_t i = 0; i < s->nlines; i++)
		in.lines[i] = (struct ppa_line){take_index(s->nfunctions), take_number()};
	for (size_t i = 0; i < s->nlocations; i++)
		in.locations[i] =
			(struct ppa_location){take(8), take(1) & 1 ? PPA_SNAPSHOT_NO_MAPPING : take_index(s->nmappings),
					      take_index(s->nlines), (uint32_t)take(1) % 4, take(8)};
	s->mappings = exact(in.mappings, s->nmappings, sizeof(*in.mappings));
	s->functions = exact(in.functions, s->nfunctions, sizeof(*in.functions));
	s->lines = exact(in.lines, s->nlines, sizeof(*in.lines));
	s->locations = exact(in.locations, s->nlocations, sizeof(*in.locations));
}

static void build_samples(struct ppa_snapshot *s)
{
	s->nstack_locs = take(1) % (MOST * 4);
	s->nlabels = take(1) % MOST;
	s->nsamples = take(1) % MOST;
	for (size_t i = 0; i < s->nstack_locs; i++)
		in.stack_locs[i] = take_index(s->nlocations);
	for (size_t i = 0; i < s->nlabels; i++)
		in.labels[i] = (struct ppa_label){take_text(), take_text(), take_number(), take_text()};
	for (size_t i = 0; i < s->nsamples; i++) {
		struct ppa_snap_sample *sample = &in.samples[i];

		sample->first_loc = take_index(s->nstack_locs);
		sample->nlocs = take_index(MOST / 2);
		sample->first_label = take_index(s->nlabels);
		sample->nlabels = take_index(3);
		for (int j = 0; j < PPA_SNAPSHOT_MAX_VALUES; j++)
			sample->values[j] = take_number();
	}
	s->stack_locs = exact(in.stack_locs, s->nstack_locs, sizeof(*in.stack_locs));
	s->labels = exact(in.labels, s->nlabels, sizeof(*in.labels));
	s->samples = exact(in.samples, s->nsamples, sizeof(*in.samples));
}

static void build(struct ppa_snapshot *s)
{
	memset(s, 0, sizeof(*s));
	in.ntexts = in.ncopies = 0;
	s->name = "fuzz";
	s->nsample_types = (uint32_t)take(1) % 6;
	for (int i = 0; i < PPA_SNAPSHOT_MAX_VALUES; i++)
		s->sample_types[i] = take_value_type();
	s->default_sample_type = take_text();
	s->period_type = take_value_type();
	s->period = take_number();
	s->time_ns = take_number();
	s->duration_ns = take_number();
	s->ncomments = take(1) % MOST;
	for (size_t i = 0; i < s->ncomments; i++)
		in.comments[i] = take_text();
	s->comments = exact(in.comments, s->ncomments, sizeof(*in.comments));
	build_code(s);
	build_samples(s);
}

/* -- the reader -------------------------------------------------------------------------------- */

struct span {
	const uint8_t *at, *end;
};

static struct {
	uint64_t strings, highest_string; /* how many came; the highest index named */
	uint64_t next_mapping, next_location, next_function;
	uint64_t sample_types, samples;
	uint64_t lines; /* of the location being read */
} seen;

static uint64_t read_varint(struct span *m)
{
	uint64_t v = 0;

	for (unsigned shift = 0;; shift += 7) {
		REQUIRE(m->at < m->end && shift < 64);
		v |= (uint64_t)(*m->at & 0x7f) << shift;
		if (!(*m->at++ & 0x80))
			return v;
	}
}

static struct span read_bytes(struct span *m)
{
	uint64_t len = read_varint(m);
	struct span inner = {m->at, m->at + len};

	REQUIRE(len <= (uint64_t)(m->end - m->at));
	m->at += len;
	return inner;
}

static void name_string(uint64_t index)
{
	if (index > seen.highest_string)
		seen.highest_string = index;
}

enum message { PROFILE, VALUE_TYPE, SAMPLE, LABEL, MAPPING, LOCATION, LINE, FUNCTION };

/* What each field of a message holds, by field number: a message, packed numbers, text, a number, a
 * string's index, or a reference; '.' is a field that we never send. */
static const char *const fields[] = {
	[PROFILE] = ".mmmmmt..nnmnsS.", [VALUE_TYPE] = ".ss",  [SAMPLE] = ".ppm", [LABEL] = ".ssns",
	[MAPPING] = ".innnssbbbb",	[LOCATION] = ".iMnm.", [LINE] = ".Fn",	  [FUNCTION] = ".isssn",
};

static enum message inner_message(enum message outer, unsigned field)
{
	static const enum message of_profile[] = {
		[1] = VALUE_TYPE, [2] = SAMPLE, [3] = MAPPING, [4] = LOCATION, [5] = FUNCTION, [11] = VALUE_TYPE};

	return outer == PROFILE ? of_profile[field] : outer == SAMPLE ? LABEL : LINE;
}

static uint64_t *next_id(enum message of)
{
	return of == MAPPING ? &seen.next_mapping : of == LOCATION ? &seen.next_location : &seen.next_function;
}

static void read_packed(struct span numbers, unsigned field, const struct ppa_snapshot *s)
{
	const struct ppa_snap_sample *sample = &s->samples[seen.samples];
	uint64_t n = 0;

	REQUIRE(seen.samples < s->nsamples);
	for (; numbers.at < numbers.end; n++) {
		uint64_t v = read_varint(&numbers);

		REQUIRE(field != 1 || (n < sample->nlocs && v == s->stack_locs[sample->first_loc + n] + 1ul));
		REQUIRE(field != 1 || v <= s->nlocations);
		REQUIRE(field != 2 || (n < s->nsample_types && (int64_t)v == sample->values[n]));
	}
	REQUIRE(n == (field == 1 ? sample->nlocs : s->nsample_types));
}

static void read_text(struct span text)
{
	size_t len = (size_t)(text.end - text.at);

	REQUIRE(seen.strings > 0 || len == 0);
	REQUIRE(ppa_utf8_span((const char *)text.at, len) == len);
	seen.strings++;
}

static void read_number(enum message of, char kind, uint64_t v, const struct ppa_snapshot *s)
{
	const struct ppa_location *loc = &s->locations[seen.next_location - 1];

	if (kind == 'i') {
		REQUIRE(v == ++*next_id(of));
		REQUIRE(seen.next_location <= s->nlocations);
		seen.lines = 0;
	} else if (kind == 'M')
		REQUIRE(v <= s->nmappings && v == loc->mapping + 1ul);
	else if (kind == 'F')
		REQUIRE(v <= s->nfunctions && seen.lines < loc->nlines &&
			v == s->lines[loc->first_line + seen.lines].function + 1ul);
	else if (kind == 's' || kind == 'S')
		name_string(v);
	else
		REQUIRE(kind == 'n' || (kind == 'b' && v == 1));
}

/* What must not be missing, at the end of a message whose fields are the bits of had. */
static void check_complete(enum message of, unsigned had, const struct ppa_snapshot *s)
{
	const struct ppa_location *loc = &s->locations[seen.next_location - 1];

	if (of == LOCATION) {
		REQUIRE(had & 1u << 1 && seen.lines == loc->nlines);
		REQUIRE(!(had & 1u << 2) == (loc->mapping == PPA_SNAPSHOT_NO_MAPPING));
	} else if (of == LINE) {
		REQUIRE(had & 1u << 1);
		seen.lines++;
	} else if (of == MAPPING || of == FUNCTION || of == LABEL) {
		REQUIRE(had & 1u << 1);
	} else if (of == SAMPLE) {
		const struct ppa_snap_sample *sample = &s->samples[seen.samples++];

		REQUIRE(had & 1u << 2);
		REQUIRE(!(had & 1u << 1) == (sample->nlocs == 0));
	}
}

static void read_message(struct span m, enum message of, const struct ppa_snapshot *s)
{
	unsigned had = 0;

	while (m.at < m.end) {
		uint64_t tag = read_varint(&m);
		unsigned field = (unsigned)(tag >> 3), wire = tag & 7;
		char kind;

		REQUIRE(tag >> 3 < strlen(fields[of]));
		kind = fields[of][field];
		REQUIRE(kind != '.');
		REQUIRE(wire == (kind == 'm' || kind == 'p' || kind == 't' ? 2u : 0u));
		if (kind == 'm')
			read_message(read_bytes(&m), inner_message(of, field), s);
		else if (kind == 'p')
			read_packed(read_bytes(&m), field, s);
		else if (kind == 't')
			read_text(read_bytes(&m));
		else
			read_number(of, kind, read_varint(&m), s);
		had |= 1u << field;
		seen.sample_types += of == PROFILE && field == 1;
	}
	check_complete(of, had, s);
}

static void read_file(const struct ppa_sink *file, const struct ppa_snapshot *s)
{
	static uint8_t raw[RAW_BYTES];
	z_stream z = {.zalloc = Z_NULL};

	REQUIRE(inflateInit2(&z, 15 + 16) == Z_OK);
	z.next_in = file->bytes;
	z.avail_in = (uInt)file->len;
	z.next_out = raw;
	z.avail_out = RAW_BYTES;
	REQUIRE(inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_in == 0);
	inflateEnd(&z);
	memset(&seen, 0, sizeof(seen));
	read_message((struct span){raw, raw + z.total_out}, PROFILE, s);
	REQUIRE(seen.strings > seen.highest_string);
	REQUIRE(seen.next_mapping == s->nmappings && seen.next_location == s->nlocations &&
		seen.next_function == s->nfunctions && seen.samples == s->nsamples &&
		seen.sample_types == s->nsample_types);
}

/* A record for each sample, and lines that a reader of lines can take. */
static void check_text(const struct ppa_sink *text, const struct ppa_snapshot *s)
{
	size_t records = 0;

	for (size_t i = 0; i < text->len; i++) {
		REQUIRE(text->bytes[i] != 0);
		if (!s->text_tail)
			REQUIRE(text->bytes[i] >= ' ' || text->bytes[i] == '\n' || text->bytes[i] == '\t');
		records += i > 1 && text->bytes[i] == '@' && text->bytes[i - 1] == ' ' &&
			   (i + 1 == text->len || text->bytes[i + 1] == ' ' || text->bytes[i + 1] == '\n');
	}
	REQUIRE(records >= s->nsamples);
}

/* The first sample type's values add up, whatever names do to the lines. */
static void check_folded(struct ppa_sink *text, const struct ppa_snapshot *s)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->nsamples; i++)
		sum -= (uint64_t)s->samples[i].values[0];
	ppa_sink_write(text, "", 1);
	for (char *line = (char *)text->bytes, *end; *line; line = end + 1) {
		char *value;

		end = strchr(line, '\n');
		REQUIRE(end && end > line);
		*end = '\0';
		REQUIRE(ppa_utf8_span(line, (size_t)(end - line)) == (size_t)(end - line));
		value = strrchr(line, ' ');
		REQUIRE(value && value > line);
		sum += strtoull(value + 1, &value, 10);
		REQUIRE(value == end);
	}
	REQUIRE(sum == 0);
}

/* Strings end where they should, nothing is left that means something in HTML, brackets match. */
static void check_data(const struct ppa_sink *data)
{
	bool is_string = false;
	int depth = 0;

	REQUIRE(ppa_utf8_span((const char *)data->bytes, data->len) == data->len);
	for (size_t i = 0; i < data->len; i++) {
		uint8_t c = data->bytes[i];

		REQUIRE(c >= ' ' || (c == '\n' && !is_string));
		REQUIRE(c != '<' && c != '>' && c != '&');
		if (c == '\\') {
			REQUIRE(is_string && i + 5 < data->len && data->bytes[i + 1] == 'u');
			i += 5;
		} else if (c == '"') {
			is_string = !is_string;
		} else if (!is_string) {
			depth += (c == '[' || c == '{') - (c == ']' || c == '}');
			REQUIRE(depth >= 0);
		}
	}
	REQUIRE(!is_string && depth == 0);
}

static void check_flame(const struct ppa_snapshot *s)
{
	struct ppa_hot hot[MOST * 4];
	struct ppa_stacks st;
	struct ppa_sink out;
	uint64_t sum = 0;

	ppa_sink_init(&out);
	if (ppa_stacks_init(&st, s, PPA_FRAMES_BY_PLACE) == 0) {
		long n = ppa_hottest_functions(&st, 0, hot, MOST * 4);

		for (size_t i = 0; i < s->nsamples; i++)
			sum -= (uint64_t)s->samples[i].values[0];
		for (long i = 0; i < n; i++)
			sum += (uint64_t)hot[i].self;
		REQUIRE(n == MOST * 4 || sum == 0);
		REQUIRE(ppa_hottest_stacks(&st, 0, hot, MOST) >= 0);
		REQUIRE(ppa_flame_encode(&st, 0, &out) == 0);
		check_data(&out);
	}
	ppa_stacks_free(&st);
	ppa_sink_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum ppa_form forms[] = {PPA_FORM_NONE, PPA_FORM_COUNT, PPA_FORM_HEAP, PPA_FORM_CONTENTION};
	struct ppa_sink out;
	int err;

	input.at = data;
	input.end = data + size;
	fake_vheap_budget = (long)take(1);
	if (fake_vheap_budget > 15) /* seldom short of memory */
		fake_vheap_budget = -1;
	build(&in.s);
	ppa_sink_init(&out);
	err = ppa_pprof_encode(&in.s, &out);
	REQUIRE(err == 0 || err == -22 || (err == -12 && fake_vheap_budget == 0));
	fake_vheap_budget = -1;
	if (err == 0)
		read_file(&out, &in.s);
	ppa_sink_free(&out);
	in.s.form = forms[take(1) % (sizeof(forms) / sizeof(*forms))];
	in.s.text_tail = take_text();
	REQUIRE(ppa_text_encode(&in.s, &out) == (err == -22 || in.s.form == PPA_FORM_NONE ? -22 : 0));
	if (out.len)
		check_text(&out, &in.s);
	ppa_sink_free(&out);
	if (ppa_folded_encode(&in.s, 0, &out) == 0)
		check_folded(&out, &in.s);
	else
		REQUIRE(err == -22);
	ppa_sink_free(&out);
	check_flame(&in.s);
	REQUIRE(fake_vheap_live == 0);
	while (in.ncopies)
		free(in.copies[--in.ncopies]);
	return 0;
}
