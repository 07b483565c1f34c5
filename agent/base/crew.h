/* SPDX-License-Identifier: Apache-2.0
 *
 * One piece of work shared by several of our threads. Besides what more processors bring: where the target keeps all of
 * them busy, each of our threads gets no more than its fair share, and several have several.
 *
 * The caller works itself; helpers are started for the occasion and join if they get to run before the work is gone.
 * Nobody waits for one that has not begun. */
#ifndef PPA_BASE_CREW_H
#define PPA_BASE_CREW_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

enum { PPA_CREW_MAX = 4 }; /* hands, the caller's included */

struct ppa_crew_job {
	/* Do one item. hand: below PPA_CREW_MAX, another for each thread at work; the caller's is 0. */
	void (*work)(void *arg, unsigned hand, size_t item);
	void *arg;
	size_t nitems;
	size_t take; /* so many items are taken at a time, at least 1 */
};

/* Every item is done exactly once, in no order; when it returns all are done, and nobody uses the job any more. nhelpers:
 * to be started, below PPA_CREW_MAX; fewer, where threads cannot be had. Returns the CPU time of those that worked, the
 * caller's not included, in nanoseconds. Context: server; one job at a time, which the caller sees to. */
uint64_t ppa_crew_run(const struct ppa_crew_job *job, unsigned nhelpers) PPA_CTX_SERVER;

/* Context: child. */
void ppa_crew_reset(void) PPA_CTX_CHILD;

#endif
