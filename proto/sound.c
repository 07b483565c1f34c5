/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/sound.h"

#include <stddef.h>
#include <stdint.h>

#include "agent/snapshot/snapshot.h"

/* Does the range [first, first + n) lie within [0, total)? */
static bool is_within(uint32_t first, uint32_t n, size_t total)
{
	return first <= total && n <= total - first;
}

bool ppa_sound_check(const struct ppa_snapshot *s)
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
