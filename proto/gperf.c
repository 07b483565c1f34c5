/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot -> words -> sink:
 *
 *   0, 3, 0, period in microseconds, 0          header: 3 more words, version 0
 *   count, depth, pc, pc ...                    each stack, leaf first
 *   0, 1, 0                                     trailer
 *   lines of /proc/self/maps
 *
 * Readers subtract 1 from every address but the leaf's, so 1 is added to those. Neither names nor labels have a place. */
#include "proto/gperf.h"

#include <errno.h>
#include <stdint.h>

#include "agent/snapshot/snapshot.h"
#include "proto/sink.h"
#include "proto/sound.h"
#include "proto/text.h"

static void put(struct ppa_sink *out, uint64_t n)
{
	uintptr_t word = (uintptr_t)n;

	ppa_sink_write(out, &word, sizeof(word));
}

static void put_stack(const struct ppa_snapshot *s, const struct ppa_snap_sample *sample, struct ppa_sink *out)
{
	const uint32_t *loc = s->stack_locs + sample->first_loc;

	/* A count of 0 with a depth of 1 is the trailer. */
	if (sample->values[0] <= 0 || sample->nlocs == 0)
		return;
	put(out, (uint64_t)sample->values[0]);
	put(out, sample->nlocs);
	for (uint32_t i = 0; i < sample->nlocs; i++)
		put(out, s->locations[loc[i]].address + (i > 0));
}

int ppa_gperf_encode(const struct ppa_snapshot *s, struct ppa_sink *out)
{
	const uint64_t header[] = {0, 3, 0, (uint64_t)s->period / 1000, 0}, trailer[] = {0, 1, 0};

	if (!ppa_sound_check(s))
		return -EINVAL;
	for (size_t i = 0; i < PPA_ARRAY_LEN(header); i++)
		put(out, header[i]);
	for (size_t i = 0; i < s->nsamples; i++)
		put_stack(s, &s->samples[i], out);
	for (size_t i = 0; i < PPA_ARRAY_LEN(trailer); i++)
		put(out, trailer[i]);
	ppa_text_put_map(s, out);
	return out->err;
}
