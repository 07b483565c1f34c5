/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of those that are one number, then those that there is one of for each profile. */
#include "agent/snapshot/meters.h"

#include <stdatomic.h>
#include <stdio.h>

#include "agent/base/budget.h"
#include "agent/base/stats.h"
#include "agent/base/thread.h"
#include "agent/base/vheap.h"
#include "agent/heap/heap.h"
#include "agent/heap/mmap.h"
#include "agent/lock/contention.h"
#include "agent/snapshot/kinds.h"
#include "agent/thread/created.h"

struct visitor {
	void (*visit)(const struct ppa_meter *m, void *arg);
	void *arg;
};

static void tell_cost(const struct visitor *v)
{
	const struct ppa_meter meters[] = {
		{"cpu_seconds_total", NULL, "CPU time that the agent's own threads have used.", true, true,
		 ppa_thread_cpu_ns()},
		{"threads", NULL, "Threads of the agent.", false, false, ppa_thread_count()},
		{"memory_bytes", "use=\"working\"", "Memory that the agent has mapped.", false, false,
		 ppa_vheap_mapped_bytes()},
		{"memory_bytes", "use=\"profiles\"", "", false, false, ppa_budget_used()},
		{"memory_limit_bytes", NULL, "What profiles may keep: PPROF_MAX_MEMORY.", false, false,
		 ppa_budget_limit()},
	};

	for (size_t i = 0; i < PPA_ARRAY_LEN(meters); i++)
		v->visit(&meters[i], v->arg);
}

static void tell_cpu(const struct visitor *v)
{
	const struct ppa_meter meters[] = {
		{"cpu_samples_total", NULL, "Timer signals taken for CPU profiles.", true, false,
		 ppa_stat_get(PPA_STAT_SAMPLES)},
		{"cpu_samples_lost_total", "reason=\"ring full\"", "Samples whose stack was dropped.", true, false,
		 ppa_stat_get(PPA_STAT_LOST_RING_FULL)},
		{"cpu_samples_lost_total", "reason=\"no buffer\"", "", true, false,
		 ppa_stat_get(PPA_STAT_LOST_NO_BUFFER)},
		{"cpu_lost_seconds_total", NULL, "CPU time that dropped samples stood for.", true, true,
		 ppa_stat_get(PPA_STAT_LOST_NS)},
		{"cpu_blocked_seconds_total", NULL, "CPU time that passed with every signal blocked.", true, true,
		 ppa_stat_get(PPA_STAT_BLOCKED_NS)},
		{"cpu_timers_refused_total", NULL, "Times that a thread got no timer.", true, false,
		 ppa_stat_get(PPA_STAT_TIMER_FAILED)},
		{"stacks_truncated_total", NULL, "Stacks that do not reach their thread's start.", true, false,
		 ppa_stat_get(PPA_STAT_TRUNCATED)},
	};

	for (size_t i = 0; i < PPA_ARRAY_LEN(meters); i++)
		v->visit(&meters[i], v->arg);
}

static void tell_heap(const struct visitor *v)
{
	struct ppa_heap_state heap = ppa_heap_get_state();
	struct ppa_mmap_state maps = ppa_mmap_get_state();
	const struct ppa_meter meters[] = {
		{"heap_samples_total", NULL, "Allocations sampled.", true, false, heap.samples},
		{"heap_samples_lost_total", NULL, "Sampled allocations that there was no room for.", true, false,
		 heap.lost},
		{"heap_samples_live", NULL, "Sampled allocations that are not freed.", false, false, heap.live},
		{"heap_sample_interval_bytes", NULL, "Mean bytes between samples now; 0: the heap is not sampled.",
		 false, false, heap.rate_now},
		{"mmap_events_total", NULL, "Calls of mmap, munmap and mremap recorded.", true, false, maps.events},
		{"mmap_events_lost_total", NULL, "Such calls that could not be recorded.", true, false, maps.lost},
	};

	for (size_t i = 0; i < PPA_ARRAY_LEN(meters); i++)
		v->visit(&meters[i], v->arg);
}

static void tell_folded(const struct visitor *v)
{
	const struct {
		const char *labels;
		const struct ppa_sites *sites;
	} all[] = {
		{"profile=\"block\"", &ppa_block_sites},
		{"profile=\"heap\"", &ppa_heap_sites},
		{"profile=\"mmap\"", &ppa_mmap_sites},
		{"profile=\"mutex\"", &ppa_mutex_sites},
		{"profile=\"threadcreate\"", &ppa_created_sites},
	};

	for (size_t i = 0; i < PPA_ARRAY_LEN(all); i++) {
		struct ppa_meter m = {
			.name = "events_folded_total",
			.labels = all[i].labels,
			.help = "Events under [other stacks], for want of memory.",
			.is_counter = true,
			.value = atomic_load_explicit(&all[i].sites->folded, memory_order_relaxed),
		};

		v->visit(&m, v->arg);
	}
}

static void tell_records(const struct visitor *v)
{
	const struct ppa_kind *kind;

	for (size_t i = 0; (kind = ppa_kinds_at(i)); i++) {
		char labels[128]; /* a name has at most 63 letters, none of which needs an escape */
		struct ppa_meter m = {
			.name = "profile_records",
			.labels = labels,
			.help = "What the index counts: records, threads for goroutine.",
			.value = ppa_kinds_count(kind),
		};

		snprintf(labels, sizeof(labels), "profile=\"%s\"", kind->name);
		v->visit(&m, v->arg);
	}
}

void ppa_meters_each(void (*visit)(const struct ppa_meter *m, void *arg), void *arg)
{
	struct visitor v = {visit, arg};

	tell_cost(&v);
	tell_cpu(&v);
	tell_heap(&v);
	tell_folded(&v);
	tell_records(&v);
}
