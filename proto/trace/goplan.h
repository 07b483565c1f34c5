/* SPDX-License-Identifier: Apache-2.0
 *
 * The first of two passes over the threads of a Go trace: what the second has to know beforehand. Go's format writes a
 * wake-up and a creation into the stream of the thread that did it, with a sequence number of the thread that it was done
 * to; the first pass counts those numbers and collects such meetings, the second writes. */
#ifndef PPA_PROTO_TRACE_GOPLAN_H
#define PPA_PROTO_TRACE_GOPLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "proto/trace/lives.h"
#include "proto/trace/steps.h"

struct ppa_go_role {
	uint32_t p;	     /* the thread's processor, from 1: the lowest that is free; 0 is the agent's */
	uint32_t some_stack; /* one of the thread's, 0: it has none */
	bool is_silent;	     /* nothing is known of what it does, not even a sample */
	bool is_named;	     /* it waits somewhere with a stack: the viewer learns its name from that */
};

/* What one thread does to another. */
struct ppa_go_meeting {
	uint64_t at;
	uint64_t seq;	      /* of the guest, for its wake-up; 0: its creation */
	uint32_t host;	      /* who does it: index of a life, or lives->n: our own thread */
	uint32_t guest;	      /* to whom: index of a life */
	uint32_t stack;	      /* where the host does it; 0: unknown */
	uint32_t guest_stack; /* where the guest waits */
};

struct ppa_goplan {
	const struct ppa_trace_lives *lives;
	struct ppa_go_role *roles;		/* one a life */
	uint32_t nprocs;			/* the agent's included */
	uint64_t shortest_ns;			/* shorter waits are left out */
	uint64_t left_out;			/* how many */
	const struct ppa_go_meeting **meetings; /* nmeetings, by host, then time */
	size_t nmeetings;
	/* The plan's own. */
	struct ppa_go_meeting *creations, *wakings; /* all of them, owned */
	size_t ncreations, nwakings, wakings_cap;
};

/* When a life's first events happen; all of its own are later. Context: any. */
uint64_t ppa_goplan_begin(const struct ppa_trace_lives *lives, const struct ppa_trace_life *life) PPA_CTX_ANY;

/* Make the plan of a file of about max_events events at most. 0 or -ENOMEM; ppa_goplan_free in any case. lives must live as
 * long as the plan. Context: server. */
int ppa_goplan_init(struct ppa_goplan *plan, const struct ppa_trace_lives *lives, size_t max_events) PPA_CTX_SERVER;
void ppa_goplan_free(struct ppa_goplan *plan) PPA_CTX_SERVER;

#endif
