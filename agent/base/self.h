/* SPDX-License-Identifier: Apache-2.0
 *
 * What the agent keeps for each thread: one small POD in initial-exec TLS, zero at birth, without destructor. The
 * handler does not read it (its timer's value says which thread it is for), so threads that raw clone made, which may
 * share somebody's TLS, are profiled all the same. */
#ifndef PPA_BASE_SELF_H
#define PPA_BASE_SELF_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_thread;
struct ppa_trace_track;

struct ppa_self {
	struct ppa_thread *slot; /* this thread's entry in the thread table, NULL if it has none */
	bool is_ours;		 /* one of the agent's own threads */
	bool is_spawning;	 /* creating one: what libc allocates for it is ours, too */
	bool is_resolving;	 /* asking dlsym for the genuine allocator */
	bool has_longest_slice;	 /* of CPU, as ppa_slice_longest says */
	uint64_t heap_left; /* bytes to the next sample point, counting each block as one more than asked; 0: ask */
	uint64_t heap_rate; /* the rate heap_left was drawn with; 0: drawn with none */
	struct ppa_trace_track *track; /* where its part of the trace goes; of a former recording perhaps */
};
_Static_assert(sizeof(struct ppa_self) <= 64, "static TLS is scarce in a preloaded library");

extern __thread struct ppa_self ppa_self __attribute__((tls_model("initial-exec"), visibility("hidden")));

#endif
