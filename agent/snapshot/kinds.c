/* SPDX-License-Identifier: Apache-2.0
 *
 * The table, by name. Types, units and their order are part of a series' name in Pyroscope and Parca and are Go's to the
 * byte where Go has the profile. */
#include "agent/snapshot/kinds.h"

#include <string.h>

#include "agent/heap/mmap.h"
#include "agent/snapshot/build.h"

/* clang-format off */
#define HEAP_TYPES \
	{{"alloc_objects", "count"}, {"alloc_space", "bytes"}, {"inuse_objects", "count"}, {"inuse_space", "bytes"}}

static const struct ppa_kind kinds[] = {
	{
		.name = "allocs",
		.help = "All memory allocations since the start, by the stack that made them. Sampled; see heap.",
		.types = HEAP_TYPES, .ntypes = 4, .default_type = "alloc_space", .period_type = {"space", "bytes"},
		.form = PPA_FORM_HEAP, .has_delta = true, .cuts_allocator = true, .label = "bytes",
		.gather = ppa_heap_gather, .period = ppa_heap_period, .count = ppa_heap_count,
		.comment = ppa_heap_comment, .text_tail = ppa_memstats_text,
	},
	{
		.name = "heap",
		.help = "Memory that is allocated and not freed, by the stack that allocated it. Sampled once in "
			"PPROF_HEAP_RATE bytes and scaled up. seconds= gives what changed; gc= is accepted and does "
			"nothing.",
		.types = HEAP_TYPES, .ntypes = 4, .period_type = {"space", "bytes"},
		.form = PPA_FORM_HEAP, .has_delta = true, .cuts_allocator = true, .label = "bytes",
		.gather = ppa_heap_gather, .period = ppa_heap_period, .count = ppa_heap_count,
		.comment = ppa_heap_comment, .text_tail = ppa_memstats_text,
	},
	{
		.name = "heap_age",
		.help = "Memory that is allocated and not freed, by stack and by how long it has been so "
			"(label age_seconds: at least so many). What leaks is old.",
		.types = {{"inuse_objects", "count"}, {"inuse_space", "bytes"}}, .ntypes = 2,
		.period_type = {"space", "bytes"},
		.form = PPA_FORM_COUNT, .cuts_allocator = true, .label = "age_seconds",
		.gather = ppa_heap_age_gather, .period = ppa_heap_period, .count = ppa_heap_age_count,
		.comment = ppa_heap_comment,
	},
	{
		.name = "mmap",
		.help = "Memory that the program itself maps and has not unmapped, by the stack that mapped it. "
			"Complete, not sampled.",
		.types = {{"maps", "count"}, {"mapped", "bytes"}}, .ntypes = 2,
		.period_type = {"mapped", "bytes"},
		.form = PPA_FORM_COUNT, .has_delta = true, .label = "backing", .label_text = ppa_mmap_backing_name,
		.gather = ppa_mmap_gather, .period = ppa_mmap_period, .count = ppa_mmap_count,
		.comment = ppa_mmap_comment,
	},
};
/* clang-format on */

const struct ppa_kind *ppa_kinds_find(const char *name)
{
	for (size_t i = 0; i < PPA_ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

const struct ppa_kind *ppa_kinds_at(size_t i)
{
	return i < PPA_ARRAY_LEN(kinds) ? &kinds[i] : NULL;
}
