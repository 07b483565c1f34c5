/* SPDX-License-Identifier: Apache-2.0
 *
 * What was lost and why, counted where it happens and shown in every profile. Counters only grow; a collector takes
 * the difference over its window. */
#ifndef PPA_BASE_STATS_H
#define PPA_BASE_STATS_H

#include <stdatomic.h>
#include <stdint.h>

#include "agent/base/attr.h"

enum ppa_stat {
	PPA_STAT_SAMPLES,	 /* handler runs that were ours */
	PPA_STAT_LOST_RING_FULL, /* no room in the ring */
	PPA_STAT_LOST_NO_BUFFER, /* every unwind buffer busy */
	PPA_STAT_LOST_NS,	 /* CPU nanoseconds those samples stood for */
	PPA_STAT_TRUNCATED,	 /* stacks that did not reach the thread's start */
	PPA_STAT_TOO_DEEP,	 /* of these, cut at the frame limit */
	PPA_STAT_BLOCKED_NS,	 /* CPU nanoseconds charged to [signals blocked] */
	PPA_STAT_TIMER_FAILED,	 /* threads left without a timer */
	PPA_STAT_SECOND_OPINION, /* frames that libunwind stepped */
	PPA_STAT_COUNT
};

extern _Atomic uint64_t ppa_stats[PPA_STAT_COUNT];

/* Relaxed: a counter orders nothing. Context: signal. */
static inline void ppa_stat_add(enum ppa_stat s, uint64_t n)
{
	atomic_fetch_add_explicit(&ppa_stats[s], n, memory_order_relaxed);
}

static inline uint64_t ppa_stat_get(enum ppa_stat s)
{
	return atomic_load_explicit(&ppa_stats[s], memory_order_relaxed);
}

#endif
