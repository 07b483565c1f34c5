/* SPDX-License-Identifier: Apache-2.0
 *
 * The table, by name. Types, units and their order are part of a series' name in Pyroscope and Parca and are Go's to the
 * byte where Go has the profile. */
#include "agent/snapshot/kinds.h"

#include <string.h>

#include "agent/api/custom.h"
#include "agent/dump/dump.h"
#include "agent/heap/mmap.h"
#include "agent/snapshot/build.h"

/* clang-format off */
#define HEAP_TYPES \
	{{"alloc_objects", "count"}, {"alloc_space", "bytes"}, {"inuse_objects", "count"}, {"inuse_space", "bytes"}}

#define WAITING_TYPES {{"contentions", "count"}, {"delay", "nanoseconds"}}

static const struct ppa_kind kinds[] = {
	{
		.name = "allocs",
		.help = "All memory allocations since the start, by the stack that made them. Sampled; see heap.",
		.cost = "As heap, whose records these are.",
		.types = HEAP_TYPES, .ntypes = 4, .default_type = "alloc_space", .period_type = {"space", "bytes"},
		.form = PPA_FORM_HEAP, .has_delta = true, .cuts_allocator = true, .label = "bytes",
		.gather = ppa_heap_gather, .period = ppa_heap_period, .count = ppa_heap_count,
		.comment = ppa_heap_comment, .text_tail = ppa_memstats_text,
	},
	{
		.name = "block",
		.help = "Where threads waited for locks, conditions, semaphores and each other since the start, by the stack "
			"of the waiter. Sampled once in PPROF_BLOCK_RATE nanoseconds of waiting and scaled up.",
		.cost = "Kept all the time: two looks at the clock for each wait, nothing where nobody waits.",
		.types = WAITING_TYPES, .ntypes = 2, .period_type = {"contentions", "count"},
		.form = PPA_FORM_CONTENTION, .has_delta = true,
		.gather = ppa_block_gather, .period = ppa_waiting_period, .count = ppa_block_count,
		.comment = ppa_block_comment,
	},
	{
		.name = "goroutine",
		.help = "The stacks of all threads, running or not. debug=2 tells one by one what they wait for.",
		.cost = "Nothing until asked for; then 10 to 20 ms of CPU for a thousand threads. None is stopped or woken.",
		.types = {{"goroutine", "count"}}, .ntypes = 1, .period_type = {"goroutine", "count"},
		.form = PPA_FORM_COUNT, .has_delta = true, .label = "thread", .label_text = ppa_goroutine_label,
		.gather = ppa_goroutine_gather, .period = ppa_goroutine_period, .count = ppa_dump_count,
		.comment = ppa_goroutine_comment, .build_each = ppa_goroutine_each,
	},
	{
		.name = "heap",
		.help = "Memory that is allocated and not freed, by the stack that allocated it. Sampled once in "
			"PPROF_HEAP_RATE bytes and scaled up. seconds= gives what changed; debug=1&amp;gc=1 asks "
			"glibc for its figures, too.",
		.cost = "Kept all the time: a malloc and free pair costs 1.02 times as much, and each 512 KiB allocated "
			"0.6 us.",
		.types = HEAP_TYPES, .ntypes = 4, .period_type = {"space", "bytes"},
		.form = PPA_FORM_HEAP, .has_delta = true, .cuts_allocator = true, .label = "bytes",
		.gather = ppa_heap_gather, .period = ppa_heap_period, .count = ppa_heap_count,
		.comment = ppa_heap_comment, .text_tail = ppa_memstats_text,
	},
	{
		.name = "heap_age",
		.help = "Memory that is allocated and not freed, by stack and by how long it has been so "
			"(label age_seconds: at least so many). What leaks is old.",
		.cost = "As heap, whose samples these are.",
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
		.cost = "Kept all the time: a walk of the stack for each mmap of the program's own.",
		.types = {{"maps", "count"}, {"mapped", "bytes"}}, .ntypes = 2,
		.period_type = {"mapped", "bytes"},
		.form = PPA_FORM_COUNT, .has_delta = true, .label = "backing", .label_text = ppa_mmap_backing_name,
		.gather = ppa_mmap_gather, .period = ppa_mmap_period, .count = ppa_mmap_count,
		.comment = ppa_mmap_comment,
	},
	{
		.name = "mutex",
		.help = "Who made others wait for a lock since the start, by the stack that released it, with the time that "
			"they waited.",
		.cost = "Kept all the time: an uncontended lock and unlock costs 1.17 times as much, a contended one 1.01.",
		.types = WAITING_TYPES, .ntypes = 2, .period_type = {"contentions", "count"},
		.form = PPA_FORM_CONTENTION, .has_delta = true,
		.gather = ppa_mutex_gather, .period = ppa_waiting_period, .count = ppa_mutex_count,
		.comment = ppa_mutex_comment,
	},
	{
		.name = "threadcreate",
		.help = "The stacks that created threads, ended ones included.",
		.cost = "Kept all the time: creating and joining a thread costs 1.32 times as much.",
		.types = {{"threadcreate", "count"}}, .ntypes = 1, .period_type = {"threadcreate", "count"},
		.form = PPA_FORM_COUNT, .has_delta = true,
		.gather = ppa_threadcreate_gather, .period = ppa_goroutine_period, .count = ppa_threadcreate_count,
		.comment = ppa_threadcreate_comment,
	},
};
/* clang-format on */

static const struct ppa_kind *find_ours(const char *name)
{
	for (size_t i = 0; i < PPA_ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

bool ppa_kinds_is_ours(const char *name)
{
	return find_ours(name) != NULL;
}

const struct ppa_kind *ppa_kinds_find(const char *name)
{
	const struct ppa_kind *k = find_ours(name);

	for (size_t i = 0; !k && i < PPA_CUSTOM_MAX; i++) {
		k = ppa_kinds_custom(i);
		if (k && strcmp(k->name, name) != 0)
			k = NULL;
	}
	return k;
}

/* Kinds whose name comes before. A name of ours that the program took before we were there is not its. */
static size_t rank_of(const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < PPA_ARRAY_LEN(kinds); i++)
		n += strcmp(kinds[i].name, name) < 0;
	for (size_t i = 0; i < PPA_CUSTOM_MAX; i++) {
		const struct ppa_kind *k = ppa_kinds_custom(i);

		n += k && strcmp(k->name, name) < 0 && !find_ours(k->name);
	}
	return n;
}

const struct ppa_kind *ppa_kinds_at(size_t i)
{
	for (size_t k = 0; k < PPA_ARRAY_LEN(kinds); k++)
		if (rank_of(kinds[k].name) == i)
			return &kinds[k];
	for (size_t k = 0; k < PPA_CUSTOM_MAX; k++) {
		const struct ppa_kind *kind = ppa_kinds_custom(k);

		if (kind && !find_ours(kind->name) && rank_of(kind->name) == i)
			return kind;
	}
	return NULL;
}
