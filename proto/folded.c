/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot -> stacks in order -> a line for each run of equal ones -> sink. Labels and addresses are not part of the
 * format, so samples that differ in nothing else are one line. Frames are told apart by name alone, as readers do. */
#include "proto/folded.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/snapshot/snapshot.h"
#include "proto/sink.h"
#include "proto/stacks.h"
#include "proto/utf8.h"

static void put_escaped(struct ppa_sink *out, unsigned char c)
{
	static const char digits[] = "0123456789ABCDEF";
	char text[3] = {'%', digits[c >> 4], digits[c & 15]};

	ppa_sink_write(out, text, sizeof(text));
}

static bool is_plain(unsigned char c)
{
	return c >= ' ' && c != ';' && c != 0x7f;
}

static void put_name(struct ppa_sink *out, const char *name, size_t len)
{
	while (len) {
		size_t valid = ppa_utf8_span(name, len), n = 0;

		while (n < valid && is_plain((unsigned char)name[n]))
			n++;
		ppa_sink_write(out, name, n);
		if (n == len)
			return;
		if (n < valid)
			put_escaped(out, (unsigned char)name[n]);
		else
			ppa_sink_write(out, "?", 1);
		name += n + 1;
		len -= n + 1;
	}
}

static void put_line(const struct ppa_stacks *st, uint32_t sample, int64_t value, struct ppa_sink *out)
{
	struct ppa_stack_walk w;
	char number[24];
	uint32_t frame, len;
	bool is_first = true;

	ppa_stack_begin(st, sample, &w);
	for (; ppa_stack_next(&w, &frame); is_first = false) {
		const char *name = ppa_stacks_text(st, st->frames.list[frame].v[PPA_FRAME_NAME], &len);

		if (!is_first)
			ppa_sink_write(out, ";", 1);
		put_name(out, name, len);
	}
	ppa_sink_write(out, number, (size_t)snprintf(number, sizeof(number), " %" PRId64 "\n", value));
}

static void put_lines(const struct ppa_stacks *st, uint32_t type, struct ppa_sink *out)
{
	const struct ppa_snapshot *s = st->s;

	for (size_t i = 0, end; i < s->nsamples; i = end) {
		uint64_t sum =
			0; /* unsigned: wraps as two's complement does, where a collector's bug sums up too much */

		for (end = i; end < s->nsamples && ppa_stacks_are_equal(st, st->order[i], st->order[end]); end++)
			sum += (uint64_t)s->samples[st->order[end]].values[type];
		if (sum)
			put_line(st, st->order[i], (int64_t)sum, out);
	}
}

int ppa_folded_encode(const struct ppa_snapshot *s, uint32_t type, struct ppa_sink *out)
{
	struct ppa_stacks st;
	int err = ppa_stacks_init(&st, s, PPA_FRAMES_BY_NAME);

	if (!err && type >= s->nsample_types)
		err = -EINVAL;
	if (!err)
		put_lines(&st, type, out);
	ppa_stacks_free(&st);
	if (err == -ENOMEM)
		out->err = err;
	return err ? err : out->err;
}
