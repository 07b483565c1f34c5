/* SPDX-License-Identifier: Apache-2.0
 *
 * Where threads spend their time, running or not: a wall-clock profile by looking at every thread again and again, from
 * outside, so that no sleep ends early for it.
 *
 * Each look charges the time since the last one to what the thread does now. A thread whose CPU clock stands where it
 * stood has not moved: its last stack is charged again, for the price of one system call. A sleeper that has moved is
 * walked. The time of runners is shared out at the end among the stacks that a CPU profile of the same window saw of
 * the same thread.
 *
 * All wall profiles together may take two parts in a hundred of one CPU: with many threads, or much to walk, each
 * thread is looked at less often, and each look counts for more. Stacks beyond the memory limit fold into
 * [other stacks]; threads shorter than the time between two looks may be missed. */
#ifndef PPA_DUMP_WALL_H
#define PPA_DUMP_WALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/base/attr.h"
#include "agent/cpu/stacktab.h"
#include "agent/dump/look.h"
#include "agent/profile/labels.h"
#include "unwind/walk/unwind.h"

struct ppa_thread;

/* A thread in the course of one profile. Kept when it has ended. */
struct ppa_wall_thread {
	pid_t tid; /* 0: an empty place of the table */
	uint32_t label;
	uint32_t round;	    /* of the list of threads it was last found on */
	uint32_t names_due; /* moves until its name is read again */
	uint32_t moves;
	uint64_t looked_ns;	  /* CLOCK_MONOTONIC of the last look */
	uint64_t cpu_ns;	  /* its clock then */
	struct ppa_stack *stack;  /* of its sleep then; NULL: it ran */
	struct ppa_thread *slot;  /* as of the last round; NULL: none */
	uint64_t running_ns;	  /* charged to no stack yet */
	uint64_t running_samples; /* for the builder */
};

struct ppa_wall {
	int hz;
	bool label_tid;
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
	int64_t begin_utc_ns;
	struct ppa_stacktab stacks; /* of sleepers; counts are nanoseconds */
	struct ppa_labels labels;
	struct ppa_wall_thread *threads; /* open addressing by tid */
	size_t nthreads, cap;
	size_t next; /* place of the table to look at next */
	uint32_t round;
	uint64_t next_round_ns, credit_at_ns;
	int64_t credit_ns; /* CPU time that may be spent now */
	uint64_t layout;
	uint64_t looks, walks, lost_ns; /* lost: no memory */
	uint64_t spent_ns;
	struct ppa_look_files files;
	struct ppa_unwind_buf *walk;
};

/* NULL on no memory or without /proc. Module table and unwinder are ready. Context: server. */
struct ppa_wall *ppa_wall_begin(int hz, bool label_tid) PPA_CTX_SERVER;

/* Look at as many threads as it is time for. Returns after how many nanoseconds it wants to be called again.
 * Context: server. */
uint64_t ppa_wall_tick(struct ppa_wall *w) PPA_CTX_SERVER;

/* The window is over: charge what is left. Context: server. */
void ppa_wall_end(struct ppa_wall *w) PPA_CTX_SERVER;

/* The entry of tid, NULL if there is none. Context: server. */
struct ppa_wall_thread *ppa_wall_find(struct ppa_wall *w, pid_t tid) PPA_CTX_SERVER;

/* NULL is allowed. Context: server. */
void ppa_wall_free(struct ppa_wall *w) PPA_CTX_SERVER;

/* Context: child. */
void ppa_wall_reset(void) PPA_CTX_CHILD;

#endif
