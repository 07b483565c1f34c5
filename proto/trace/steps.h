/* SPDX-License-Identifier: Apache-2.0
 *
 * What one thread did, in an order that can have happened: its records sorted by time, waits that overlap parted, waits
 * without an end ended, times forced apart, wakers looked up. Both formats are written from this.
 *
 * Two promises make it impossible that two threads wait for each other in the result: the times that a thread's steps
 * have strictly increase, and a waker's time lies strictly between a wait's begin and end, within the waker's life. */
#ifndef PPA_PROTO_TRACE_STEPS_H
#define PPA_PROTO_TRACE_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/snapshot/trace_input.h"
#include "proto/trace/lives.h"

struct ppa_trace_step {
	const struct ppa_trace_record *record;
	bool is_wait;
	uint64_t at;	   /* when it began */
	uint64_t end;	   /* of a wait: at + 2 or later; UINT64_MAX: never in this window and this life */
	uint32_t waker;	   /* of a wait: index of another life, PPA_TRACE_NOBODY */
	uint64_t waker_at; /* with a waker: within at + 1 .. end - 1 */
};

struct ppa_trace_walk {
	const struct ppa_trace_lives *lives;
	const struct ppa_trace_life *life;
	const struct ppa_trace_record **records; /* n of them, by time */
	size_t n, next;
	uint64_t now;	      /* time of the last step's last event: the next one's is later */
	uint64_t shortest_ns; /* shorter waits are left out */
	uint64_t left_out;    /* how many */
	bool is_over;	      /* it waits for ever: only samples are left */
};

/* Is this kind a wait? Context: any. */
bool ppa_trace_is_wait(uint32_t kind) PPA_CTX_ANY;

/* Begin with a life's records; steps come after now. 0 or -ENOMEM (16 bytes a record), then nothing is left to end. The
 * walk ends with the life and the window. Context: server. */
int ppa_trace_walk_begin(struct ppa_trace_walk *w, const struct ppa_trace_lives *lives,
			 const struct ppa_trace_life *life, uint64_t now, uint64_t shortest_ns) PPA_CTX_SERVER;

/* The next step; false after the last. Samples come at their own time, within the life, whatever the others do; of other steps, at is
 * later than all before. The user may move now forward between calls. Context: server. */
bool ppa_trace_walk_next(struct ppa_trace_walk *w, struct ppa_trace_step *step) PPA_CTX_SERVER;
void ppa_trace_walk_end(struct ppa_trace_walk *w) PPA_CTX_SERVER;

#endif
