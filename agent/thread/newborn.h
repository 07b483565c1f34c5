/* SPDX-License-Identifier: Apache-2.0
 *
 * When a new thread gets its timer. The moment of its first sample, on its own CPU clock, is drawn at birth, uniformly
 * from the first period; whoever creates the timer later sets it for that very moment. So a program that creates threads
 * by the thousand a second need not pay three system calls for each: one whose moment lies beyond two of the sampler's
 * rounds goes without until the next round, and most are gone by then. What they would have been sampled for is
 * unchanged; a sampler held up fires late, with the periods in between as weight.
 *
 * Where the period is too short for that, newborns themselves look after those before them, every eighth of a
 * millisecond: as long as births are so frequent that some wait, there is always one to do it. The sampler's rounds are
 * then for the last of them.
 *
 * At fewer births than the sampler's rounds cost, and with many threads at such short periods, everyone creates its timer
 * at once. */
#ifndef PPA_THREAD_NEWBORN_H
#define PPA_THREAD_NEWBORN_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_thread;

/* Draw t's first moment for that period. May its timer wait? By t itself before it is LIVE; gives others theirs at times.
 * Context: any. */
bool ppa_newborn_may_wait(struct ppa_thread *t, uint64_t period_ns) PPA_CTX_ANY;

/* Give their timers to those that went without, and decide whether others may. Returns in how many nanoseconds to come
 * again at the latest, UINT64_MAX if that is all the same. Context: server, under the lock of ppa_threads_scan. */
uint64_t ppa_newborn_tick(uint64_t period_ns) PPA_CTX_SERVER;

/* Context: child. */
void ppa_newborn_reset(void) PPA_CTX_CHILD;

#endif
