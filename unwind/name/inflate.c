/* SPDX-License-Identifier: Apache-2.0
 *
 * Codes are looked up in tables by the bits that come next: codes of up to MAIN_BITS in one step, longer ones by a second
 * table that the first one points to. What a code needs to be acted upon is one number of 32 bits:
 *
 *	a literal	LITERAL | the byte << 16 | bits of the code
 *	a length or	the least it can be << 16 | bits of the code << 8 | bits of the code and of what is to be added
 *	a distance
 *	another table	SPECIAL | LONGER | its first entry << 16 | its bits << 8 | bits of the first table
 *	a block's end	SPECIAL | END | bits of the code
 *	not in use	SPECIAL
 *
 * As long as enough input and room are at hand, whole words are read and copied without asking again (run_fast); near the
 * ends each bit and byte is counted (run_careful). Both keep the invariant that nbits of bits are paid for; what is above
 * them are copies of what follows in the input, or nothing. */
#include "unwind/name/inflate.h"

#include <errno.h>
#include <string.h>

#include "agent/base/vheap.h"

enum {
	CODE_BITS = 15, /* the longest code */
	LITERALS = 288,
	DISTANCES = 32,
	BLOCK_END = 256,
	MAIN_BITS_LITERAL = 11,
	MAIN_BITS_DISTANCE = 8,
	MAIN_BITS_LENGTH = 7,
	/* What complete codes of so many symbols can need at most; others are refused. */
	LITERAL_ENTRIES = 2342,
	DISTANCE_ENTRIES = 402,
	INPUT_BYTES = 32 << 10,
	INPUT_SLACK = 8,
	/* A block's head is no longer. */
	HEAD_BYTES = 640,
	FAST_INPUT = 24,
	LONGEST_MATCH = 258,
	/* Two literals and a match, which is copied in words, several at once. */
	FAST_OUTPUT = LONGEST_MATCH + 2 + 16,
};

#define LITERAL 0x80000000u
#define SPECIAL 0x8000u
#define LONGER 0x4000u
#define END 0x2000u

struct inflate {
	const struct ppa_elf_source *src;
	uint64_t at, end; /* what of the stream has not been fetched */
	const uint8_t *in, *in_end;
	uint64_t bits;
	unsigned nbits;
	uint8_t *image, *out;
	uint8_t *limit;
	uint8_t lengths[LITERALS + DISTANCES];
	uint32_t literals[LITERAL_ENTRIES], distances[DISTANCE_ENTRIES];
	uint8_t input[INPUT_BYTES + INPUT_SLACK];
};

/* What length and distance codes stand for, and how many bits are to be added. */
static const uint16_t length_base[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,	 15,  17,  19,	23, 27,
				       31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
static const uint8_t length_extra[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
				       2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint16_t distance_base[] = {1,    2,    3,	   4,	 5,    7,    9,	   13,	  17,	 25,
					 33,   49,   65,   97,	 129,  193,  257,  385,	  513,	 769,
					 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
static const uint8_t distance_extra[] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
					 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

/* ---- input ---- */

static uint64_t word_at(const uint8_t *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

/* Have so many bytes of input at hand, or all that are left. */
static int fetch(struct inflate *d, size_t bytes)
{
	size_t have, room;
	int err;

	if ((size_t)(d->in_end - d->in) >= bytes || d->at == d->end)
		return 0;
	/* Whole bytes that wait as bits are read again: they lie right before. */
	d->in -= d->nbits >> 3;
	d->nbits &= 7;
	d->bits &= (UINT64_C(1) << d->nbits) - 1;
	have = (size_t)(d->in_end - d->in);
	memmove(d->input, d->in, have);
	room = INPUT_BYTES - have;
	if (room > d->end - d->at)
		room = (size_t)(d->end - d->at);
	err = ppa_elf_read(d->src, d->input + have, room, d->at);
	d->in = d->input;
	d->in_end = d->input + have + (err ? 0 : room);
	d->at += room;
	return err;
}

/* As many bits as there are, 56 at least if there are as many. */
static void refill(struct inflate *d)
{
	while (d->nbits < 56 && d->in < d->in_end) {
		d->bits = (d->bits & ((UINT64_C(1) << d->nbits) - 1)) | (uint64_t)*d->in++ << d->nbits;
		d->nbits += 8;
	}
}

/* Up to 16 bits; false if the stream ends before. */
static bool take(struct inflate *d, unsigned n, unsigned *value)
{
	if (d->nbits < n)
		refill(d);
	if (d->nbits < n)
		return false;
	*value = (unsigned)(d->bits & ((1u << n) - 1));
	d->bits >>= n;
	d->nbits -= n;
	return true;
}

/* ---- tables ---- */

static unsigned reversed(unsigned code, unsigned bits)
{
	code = (code & 0x5555) << 1 | (code >> 1 & 0x5555);
	code = (code & 0x3333) << 2 | (code >> 2 & 0x3333);
	code = (code & 0x0f0f) << 4 | (code >> 4 & 0x0f0f);
	code = (code & 0x00ff) << 8 | code >> 8;
	return code >> (16 - bits);
}

/* The entry of a symbol whose code, or what a second table leaves of it, has so many bits. */
typedef uint32_t entry_of(unsigned symbol, unsigned bits);

static uint32_t literal_entry(unsigned symbol, unsigned bits)
{
	unsigned i = symbol - BLOCK_END - 1;

	if (symbol < BLOCK_END)
		return LITERAL | symbol << 16 | bits;
	if (symbol == BLOCK_END)
		return SPECIAL | END | bits;
	return i < PPA_ARRAY_LEN(length_base) ? (uint32_t)length_base[i] << 16 | bits << 8 | (bits + length_extra[i])
					      : SPECIAL;
}

static uint32_t distance_entry(unsigned symbol, unsigned bits)
{
	return symbol < PPA_ARRAY_LEN(distance_base)
		       ? (uint32_t)distance_base[symbol] << 16 | bits << 8 | (bits + distance_extra[symbol])
		       : SPECIAL;
}

static uint32_t plain_entry(unsigned symbol, unsigned bits)
{
	return symbol << 16 | bits << 8 | bits;
}

/* The first code of each length. False: more codes than there can be. */
static bool first_codes(const uint8_t *lengths, unsigned n, unsigned next[static CODE_BITS + 1])
{
	unsigned count[CODE_BITS + 1] = {0}, code = 0;

	for (unsigned i = 0; i < n; i++)
		count[lengths[i]]++;
	count[0] = 0;
	for (unsigned bits = 1; bits <= CODE_BITS; bits++) {
		code = (code + count[bits - 1]) << 1;
		next[bits] = code;
		if (code + count[bits] > 1u << bits)
			return false;
	}
	return true;
}

static void fill(uint32_t *table, unsigned from, unsigned step, unsigned n, uint32_t entry)
{
	for (unsigned i = from; i < n; i += step)
		table[i] = entry;
}

/* Tables for the codes that are longer than the first one's; cap is what table has room for. */
static bool build_second(uint32_t *table, unsigned cap, unsigned main_bits, const uint8_t *lengths, unsigned n,
			 unsigned next[static CODE_BITS + 1], entry_of *entry)
{
	unsigned used = 1u << main_bits, mask = used - 1, codes[CODE_BITS + 1];

	/* How long is the longest code behind each entry? */
	memcpy(codes, next, sizeof(codes));
	for (unsigned i = 0; i < n; i++) {
		unsigned bits = lengths[i], *e = table;

		if (bits <= main_bits)
			continue;
		e += reversed(codes[bits]++, bits) & mask;
		if (!(*e & LONGER) || (*e >> 8 & 15) < bits - main_bits)
			*e = SPECIAL | LONGER | (bits - main_bits) << 8 | main_bits;
	}
	for (unsigned i = 0; i <= mask; i++) {
		unsigned bits = table[i] >> 8 & 15;

		if ((table[i] & (LITERAL | SPECIAL | LONGER)) != (SPECIAL | LONGER))
			continue;
		if (1u << bits > cap - used)
			return false;
		fill(table + used, 0, 1, 1u << bits, SPECIAL);
		table[i] |= used << 16;
		used += 1u << bits;
	}
	for (unsigned i = 0; i < n; i++) {
		unsigned bits = lengths[i], code;
		uint32_t second;

		if (bits <= main_bits)
			continue;
		code = reversed(next[bits]++, bits);
		second = table[code & mask];
		fill(table + (second >> 16), code >> main_bits, 1u << (bits - main_bits), 1u << (second >> 8 & 15),
		     entry(i, bits - main_bits));
	}
	return true;
}

static bool build(uint32_t *table, unsigned cap, unsigned main_bits, const uint8_t *lengths, unsigned n,
		  entry_of *entry)
{
	unsigned next[CODE_BITS + 1], longest = 0;

	if (!first_codes(lengths, n, next))
		return false;
	fill(table, 0, 1, 1u << main_bits, SPECIAL);
	for (unsigned i = 0; i < n; i++) {
		unsigned bits = lengths[i];

		longest = bits > longest ? bits : longest;
		if (bits && bits <= main_bits)
			fill(table, reversed(next[bits]++, bits), 1u << bits, 1u << main_bits, entry(i, bits));
	}
	return longest <= main_bits || build_second(table, cap, main_bits, lengths, n, next, entry);
}

static bool build_both(struct inflate *d, unsigned nliterals, unsigned ndistances)
{
	return build(d->literals, LITERAL_ENTRIES, MAIN_BITS_LITERAL, d->lengths, nliterals, literal_entry) &&
	       build(d->distances, DISTANCE_ENTRIES, MAIN_BITS_DISTANCE, d->lengths + nliterals, ndistances,
		     distance_entry);
}

/* ---- heads of blocks ---- */

static bool read_fixed(struct inflate *d)
{
	memset(d->lengths, 8, 144);
	memset(d->lengths + 144, 9, 256 - 144);
	memset(d->lengths + 256, 7, 280 - 256);
	memset(d->lengths + 280, 8, LITERALS - 280);
	memset(d->lengths + LITERALS, 5, DISTANCES);
	return build_both(d, LITERALS, DISTANCES);
}

/* One length, or a run of them. */
static bool read_length(struct inflate *d, const uint32_t *table, unsigned *at, unsigned n)
{
	static const uint8_t extra[] = {2, 3, 7}, least[] = {3, 3, 11};
	unsigned symbol, more;
	uint32_t e;

	refill(d);
	e = table[d->bits & ((1u << MAIN_BITS_LENGTH) - 1)];
	if (e & SPECIAL || !take(d, e & 15, &symbol))
		return false;
	symbol = e >> 16;
	if (symbol < 16) {
		d->lengths[(*at)++] = (uint8_t)symbol;
		return true;
	}
	if ((symbol == 16 && !*at) || !take(d, extra[symbol - 16], &more))
		return false;
	more += least[symbol - 16];
	if (more > n - *at)
		return false;
	memset(d->lengths + *at, symbol == 16 ? d->lengths[*at - 1] : 0, more);
	*at += more;
	return true;
}

static bool read_dynamic(struct inflate *d)
{
	static const uint8_t order[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
	unsigned nliterals, ndistances, nlengths, at = 0, bits;
	uint8_t lengths[PPA_ARRAY_LEN(order)] = {0};
	uint32_t table[1 << MAIN_BITS_LENGTH];

	if (!take(d, 5, &nliterals) || !take(d, 5, &ndistances) || !take(d, 4, &nlengths))
		return false;
	nliterals += 257;
	ndistances += 1;
	nlengths += 4;
	if (nliterals > 286 || ndistances > 30)
		return false;
	for (unsigned i = 0; i < nlengths; i++) {
		if (!take(d, 3, &bits))
			return false;
		lengths[order[i]] = (uint8_t)bits;
	}
	if (!build(table, PPA_ARRAY_LEN(table), MAIN_BITS_LENGTH, lengths, PPA_ARRAY_LEN(order), plain_entry))
		return false;
	while (at < nliterals + ndistances)
		if (!read_length(d, table, &at, nliterals + ndistances))
			return false;
	return build_both(d, nliterals, ndistances);
}

/* ---- what is in them ---- */

static bool copy_stored(struct inflate *d)
{
	unsigned bytes, complement, rest;

	if (!take(d, d->nbits & 7, &rest) || !take(d, 16, &bytes) || !take(d, 16, &complement) ||
	    bytes != (~complement & 0xffff) || bytes > (size_t)(d->limit - d->out))
		return false;
	d->in -= d->nbits >> 3;
	d->bits = d->nbits = 0;
	while (bytes) {
		size_t n;

		if (fetch(d, 1) || d->in == d->in_end)
			return false;
		n = (size_t)(d->in_end - d->in) < bytes ? (size_t)(d->in_end - d->in) : bytes;
		memcpy(d->out, d->in, n);
		d->out += n;
		d->in += n;
		bytes -= (unsigned)n;
	}
	return true;
}

enum step { MORE, DONE, BROKEN };

/* The symbol that comes next and what belongs to it, in *e; how many bits are what it says. False: there is none. */
static bool look_up(struct inflate *d, const uint32_t *table, unsigned main_bits, uint32_t *e)
{
	unsigned unused, bits;

	refill(d);
	*e = table[d->bits & ((1u << main_bits) - 1)];
	if (!(*e & LITERAL) && (*e & SPECIAL) && *e & LONGER) {
		bits = *e >> 8 & 15;
		if (!take(d, main_bits, &unused))
			return false;
		*e = table[(*e >> 16) + (d->bits & ((1u << bits) - 1))];
	}
	return *e & LITERAL || !(*e & SPECIAL) || *e & END;
}

/* A length or distance; false if the stream ends before. */
static bool take_number(struct inflate *d, uint32_t e, unsigned *number)
{
	unsigned code = e >> 8 & 15, all = e & 31, unused, extra;

	if (!take(d, code, &unused) || !take(d, all - code, &extra))
		return false;
	*number = (e >> 16) + extra;
	return true;
}

/* One symbol, with every bit and byte counted. */
static enum step run_careful(struct inflate *d)
{
	unsigned length, distance, unused;
	uint32_t e;

	if (!look_up(d, d->literals, MAIN_BITS_LITERAL, &e))
		return BROKEN;
	if (e & LITERAL || e & SPECIAL) {
		if (!take(d, e & 15, &unused))
			return BROKEN;
		if (!(e & LITERAL))
			return DONE;
		if (d->out == d->limit)
			return BROKEN;
		*d->out++ = (uint8_t)(e >> 16);
		return MORE;
	}
	if (!take_number(d, e, &length) || !look_up(d, d->distances, MAIN_BITS_DISTANCE, &e) || e & SPECIAL ||
	    !take_number(d, e, &distance) || distance > (size_t)(d->out - d->image) ||
	    length > (size_t)(d->limit - d->out))
		return BROKEN;
	for (; length; length--, d->out++)
		*d->out = *(d->out - distance);
	return MORE;
}

/* Copy words, perhaps up to 15 bytes too many. */
static inline void copy_match(uint8_t *to, unsigned distance, unsigned length)
{
	const uint8_t *from = to - distance;
	uint8_t *end = to + length;
	uint64_t word;

	if (distance >= 8) {
		do {
			word = word_at(from);
			memcpy(to, &word, 8);
			word = word_at(from + 8);
			memcpy(to + 8, &word, 8);
			from += 16;
			to += 16;
		} while (to < end);
		return;
	}
	if (distance == 1) {
		word = UINT64_C(0x0101010101010101) * *from;
		do {
			memcpy(to, &word, 8);
			to += 8;
		} while (to < end);
		return;
	}
	while (to < end)
		*to++ = *from++;
}

/* What run_fast has of the input; FAST_INPUT bytes are at hand when it begins with a symbol. */
struct reader {
	const uint8_t *in;
	uint64_t bits;
	unsigned nbits;
};

/* At least 56 bits. */
static inline void top_up(struct reader *r)
{
	r->bits |= word_at(r->in) << r->nbits;
	r->in += (63 - r->nbits) >> 3;
	r->nbits |= 56;
}

static inline void drop(struct reader *r, unsigned n)
{
	r->bits >>= n;
	r->nbits -= n;
}

static inline uint64_t low(const struct reader *r, unsigned n)
{
	return r->bits & ((UINT64_C(1) << n) - 1);
}

/* The entry in the second table that e points to. */
static inline uint32_t longer(struct reader *r, const uint32_t *table, uint32_t e, unsigned main_bits)
{
	drop(r, main_bits);
	return table[(e >> 16) + low(r, e >> 8 & 15)];
}

static inline unsigned number(struct reader *r, uint32_t e)
{
	unsigned n = (unsigned)(e >> 16) + (unsigned)(low(r, e & 31) >> (e >> 8 & 15));

	drop(r, e & 31);
	return n;
}

/* Symbols as long as there is enough of everything: a code and what it adds to are 20 and 28 bits at most. */
static enum step run_fast(struct inflate *d)
{
	const uint8_t *in_stop = d->in_end - FAST_INPUT;
	uint8_t *out = d->out, *out_stop = d->limit - FAST_OUTPUT;
	/* What lies above nbits need not be what follows. */
	struct reader r = {d->in, d->bits & ((UINT64_C(1) << d->nbits) - 1), d->nbits};
	enum step step = MORE;

	while (r.in <= in_stop && out <= out_stop) {
		unsigned length, distance;
		uint32_t e;

		top_up(&r);
		e = d->literals[low(&r, MAIN_BITS_LITERAL)];
		for (int i = 0; i < 2 && e & LITERAL; i++) {
			drop(&r, e & 15);
			*out++ = (uint8_t)(e >> 16);
			e = d->literals[low(&r, MAIN_BITS_LITERAL)];
		}
		top_up(&r);
		if (ppa_unlikely((e & (LITERAL | LONGER)) == LONGER))
			e = longer(&r, d->literals, e, MAIN_BITS_LITERAL);
		if (e & LITERAL) {
			drop(&r, e & 15);
			*out++ = (uint8_t)(e >> 16);
			continue;
		}
		step = !(e & SPECIAL) ? MORE : e & END ? DONE : BROKEN;
		if (ppa_unlikely(step != MORE)) {
			drop(&r, e & 15);
			break;
		}
		length = number(&r, e);
		e = d->distances[low(&r, MAIN_BITS_DISTANCE)];
		if (ppa_unlikely(e & LONGER && e & SPECIAL))
			e = longer(&r, d->distances, e, MAIN_BITS_DISTANCE);
		distance = number(&r, e);
		if (ppa_unlikely(e & SPECIAL || distance > (size_t)(out - d->image))) {
			step = BROKEN;
			break;
		}
		copy_match(out, distance, length);
		out += length;
	}
	d->in = r.in;
	d->out = out;
	d->bits = r.bits;
	d->nbits = r.nbits;
	return step;
}

static bool inflate_symbols(struct inflate *d)
{
	enum step step = MORE;

	while (step == MORE) {
		if (fetch(d, FAST_INPUT))
			return false;
		if (d->in_end - d->in >= FAST_INPUT && d->limit - d->out >= FAST_OUTPUT)
			step = run_fast(d);
		else
			step = run_careful(d);
	}
	return step == DONE;
}

static bool inflate_block(struct inflate *d, bool *is_last)
{
	unsigned last, kind;

	if (fetch(d, HEAD_BYTES) || !take(d, 1, &last) || !take(d, 2, &kind))
		return false;
	*is_last = last;
	switch (kind) {
	case 0:
		return copy_stored(d);
	case 1:
		return read_fixed(d) && inflate_symbols(d);
	case 2:
		return read_dynamic(d) && inflate_symbols(d);
	default:
		return false;
	}
}

static bool begin(struct inflate *d, const struct ppa_inflate_place *place, uint64_t at, uint64_t end)
{
	unsigned unused;

	if (place->bit / 8 > end - at)
		return false;
	d->at = at + place->bit / 8;
	d->end = end;
	d->in = d->in_end = d->input;
	d->bits = d->nbits = 0;
	return !fetch(d, HEAD_BYTES) && take(d, place->bit % 8, &unused);
}

int ppa_inflate(const struct ppa_elf_source *src, uint64_t at, uint64_t end, struct ppa_inflate_place *place,
		uint8_t *image, uint64_t until, uint64_t limit, bool *is_last)
{
	struct inflate *d = ppa_vheap_malloc(sizeof(*d));
	bool is_good;

	*is_last = false;
	if (!d)
		return -ENOMEM;
	d->src = src;
	d->image = image;
	d->out = image + place->byte;
	d->limit = image + limit;
	is_good = begin(d, place, at, end);
	while (is_good && !*is_last && (uint64_t)(d->out - image) < until)
		is_good = inflate_block(d, is_last);
	if (is_good) {
		place->bit = 8 * (d->at - at - (uint64_t)(d->in_end - d->in)) - d->nbits;
		place->byte = (uint64_t)(d->out - image);
	}
	ppa_vheap_free(d);
	return is_good ? 0 : -EIO;
}
