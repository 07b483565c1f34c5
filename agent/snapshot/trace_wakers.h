/* SPDX-License-Identifier: Apache-2.0
 *
 * Who woke whom: pure matching of waits with what others said at the time. Both name the object; times decide.
 *
 *   lock     the last release before the wait's end
 *   join     the end of that thread
 *   barrier  whoever came last
 *   others   signals and posts each wake one, in the order of both; a broadcast wakes all
 *
 * What was lost matches nothing, and a release that is missing leaves its waiter to the one before, if that was within
 * the wait at all. */
#ifndef PPA_SNAPSHOT_TRACE_WAKERS_H
#define PPA_SNAPSHOT_TRACE_WAKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

enum ppa_trace_match { PPA_MATCH_LAST, PPA_MATCH_JOIN, PPA_MATCH_BARRIER, PPA_MATCH_QUEUE };

/* Somebody let others go on. */
struct ppa_trace_wake {
	uintptr_t object;
	uint64_t at_ns;
	uint32_t tid, stack;
	uint32_t next; /* the matcher's */
	bool is_all;
};

/* A wait that somebody else ended; of a barrier, one that may have ended others' too. */
struct ppa_trace_want {
	uintptr_t object;
	uint64_t begin_ns, end_ns;
	uint32_t tid, stack;
	enum ppa_trace_match how;
	void *record; /* the caller's */
};

/* Call found for each wait that has a waker, in no particular order. Both arrays are rearranged. Context: server. */
void ppa_trace_match(struct ppa_trace_wake *wakes, size_t nwakes, struct ppa_trace_want *wants, size_t nwants,
		     void (*found)(void *record, uint64_t at_ns, uint32_t tid, uint32_t stack)) PPA_CTX_SERVER;

#endif
