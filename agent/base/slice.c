/* SPDX-License-Identifier: Apache-2.0
 *
 * Who wakes up takes the CPU from a thread whose slice ends later than its own would (the earliest deadline is first, since
 * Linux 6.6), and gets it only at the end of that slice, at a tick, where both are as long: with ticks of 4 ms a thread
 * that computes stops its neighbour for up to 5 ms, now and then. One with the longest slice there is (100 ms; those of
 * others are 1.4 to 3) has the latest deadline nearly always. It does not run for longer: a tick still ends its turn when
 * somebody waits and has had less. (Documentation/scheduler/sched-eevdf.rst; sched_setattr(2), sched_runtime of a fair
 * policy.)
 *
 * Measured: a program wakes up 2,000 times a second while a 149 MB file is read for its lines, one of two CPUs free. p99
 * from 137..367 us down to the 95..210 that it has when nobody reads. Its longest stop, 3.5 to 5.6 ms in each round, is
 * 1.5 to 3.3 where the reader also offers its CPU from time to time (nobody reads: 0.2 to 3.7). What was left of these
 * were turns that had begun with the usual slice, 1.4 ms, of who had asked for the lines: at that thread's first file and
 * at its encoding. With those turns given away, p99 of 3,500 to 6,000 wakes went from 265..423 us to 154..269 (nobody reads:
 * 132..173; another program computes as long: 147..382), and wakes that are over 1 ms late from 0.4 % to 0.07..0.39 (nobody
 * reads: 0.07..0.15). What the kernel does to read from disk it is not interrupted in.
 *
 * Not for who works in short pieces and sleeps in between, as all others of ours do: redis beside 200 clients of ours at
 * work had a p99 one tenth higher with it. And where more compute than there are CPUs, who has the longest slice is the
 * last of them: a dump of 1,000 threads beside nine of them, which needs no file, took 62 ms with it and 45 without. */
#include "agent/base/slice.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "agent/base/self.h"
#include "agent/base/sys.h"

#define LONGEST_NS UINT64_C(100000000) /* the kernel cuts what is asked for to 0.1 to 100 ms */

/* The first version of the kernel's struct sched_attr, which not every libc's headers have. */
struct attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/* 0 is as long as everybody's. */
static bool set_slice(uint64_t ns)
{
	struct attr a = {.size = 0};

	/* Of a deadline thread's attributes the runtime is another. */
	if (ppa_syscall(SYS_sched_getattr, 0, (long)&a, sizeof(a), 0, 0, 0) ||
	    (a.policy != SCHED_OTHER && a.policy != SCHED_BATCH))
		return false;
	a.runtime = ns;
	return ppa_syscall(SYS_sched_setattr, 0, (long)&a, 0, 0, 0, 0) == 0;
}

bool ppa_slice_longest(void)
{
	if (ppa_self.has_longest_slice)
		return false;
	ppa_self.has_longest_slice = set_slice(LONGEST_NS);
	return ppa_self.has_longest_slice;
}

void ppa_slice_usual(void)
{
	if (ppa_self.has_longest_slice)
		set_slice(0);
	ppa_self.has_longest_slice = false;
}
