/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a turn on a CPU a thread of ours asks of the scheduler. */
#ifndef PPA_BASE_SLICE_H
#define PPA_BASE_SLICE_H

#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/attr.h"
#include "agent/base/sys.h"

/* The calling thread, one of ours, is about to compute for long: whoever of the target wakes up on its CPU is to get it at
 * once, from its next turn on. Its share of the CPU, policy and priority stay as they are. True if it is new: nothing
 * happens where it has that slice already. Kernels before 6.12 know no slices. Context: server. */
bool ppa_slice_longest(void) PPA_CTX_SERVER;

/* Its next turn begins when those who wait now have had theirs. Context: server. */
static inline void ppa_slice_give_turn(void)
{
	ppa_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

/* From the next turn on it is like everybody's again; nothing if it is. Context: server. */
void ppa_slice_usual(void) PPA_CTX_SERVER;

/* Between two pieces of much work: who waits for this CPU and should have it by now need not wait for the next tick. The
 * kernel sees to that whenever it brings a running thread's account up to date, as it does to tell it its CPU time; a
 * thread for which nobody waits loses 0.3 us. (update_curr in kernel/sched/fair.c, Linux 6.17 and later.) Context:
 * server. */
static inline void ppa_slice_offer(void)
{
	ppa_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

#endif
