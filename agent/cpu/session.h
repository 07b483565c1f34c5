/* SPDX-License-Identifier: Apache-2.0
 *
 * One CPU profile being taken: its window, its period, and what has been counted so far.
 *
 * All sessions share the sampler, which runs at the highest rate anyone asked for. Each thins the common stream to its
 * own period with an accumulator of CPU nanoseconds for each thread: a sample counts as many times as the accumulator
 * passes a multiple of the period. The accumulator starts at a uniformly random point, so the expected number of
 * samples of a thread is its CPU time divided by the period, however short the thread.
 *
 * What no sample covered is settled against the threads' CPU clocks at the end: see session_settle.c. */
#ifndef PPA_CPU_SESSION_H
#define PPA_CPU_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/base/stats.h"
#include "agent/cpu/cpu.h"
#include "agent/profile/labels.h"
#include "agent/profile/marker.h"
#include "agent/cpu/stacktab.h"

struct ppa_module_table;

/* A thread within one session. */
struct ppa_session_thread {
	uint64_t key; /* ppa_threads_key; 0 is an empty place of the table */
	uint64_t start_cpu_ns;
	uint64_t offered_ns; /* weight of every sample the sampler took of it */
	uint64_t acc_ns;     /* < period */
	uint32_t tid;
	uint32_t label;
	bool ended;
};

/* CPU time that no sample covered, by start routine and by what is to be said of it; negative where samples covered too
 * much. */
struct ppa_session_account {
	uintptr_t start_routine;
	enum ppa_marker leaf; /* PPA_MARKER_EXIT: ended threads; PPA_MARKER_NOT_SAMPLED: live ones */
	uint32_t label;
	uint32_t nthreads;
	int64_t balance_ns;
};

enum { PPA_SESSION_ACCOUNTS_MAX = 64, PPA_SESSION_LAYOUTS_MAX = 64 };

struct ppa_session {
	/* constant */
	uint64_t period_ns;
	int hz;
	bool label_tid;
	uint64_t begin_ns; /* CLOCK_MONOTONIC */
	int64_t begin_utc_ns;

	/* owned by the sampler's lock */
	/* NULL, or who gets the samples instead of the stack table, one by one */
	void (*tap)(const struct ppa_record *r, const uintptr_t *pcs);
	uint64_t end_ns; /* 0 while open */
	struct ppa_stacktab stacks;
	struct ppa_labels labels;
	struct ppa_session_thread *threads; /* open addressing by key */
	size_t nthreads, threads_cap;
	struct ppa_session_account accounts[PPA_SESSION_ACCOUNTS_MAX];
	size_t naccounts;
	uint64_t offered_ns;						/* of all threads */
	uint64_t failed_ns;						/* weight for which there was no memory */
	const struct ppa_module_table *tables[PPA_SESSION_LAYOUTS_MAX]; /* held, one for each layout met */
	size_t ntables;
	uint64_t stats_begin[PPA_STAT_COUNT], stats_end[PPA_STAT_COUNT];
	uint64_t process_cpu_begin_ns, agent_cpu_begin_ns;
	uint64_t process_cpu_ns, agent_cpu_ns; /* used within the window; set by settle */
};

/* Begin: read every thread's clock and the counters. NULL on no memory. Context: server, sampler's lock. */
struct ppa_session *ppa_session_begin(int hz, bool label_tid) PPA_CTX_SERVER;

/* One record from the rings. Context: server, sampler's lock. */
void ppa_session_take(struct ppa_session *s, const struct ppa_record *r, const uintptr_t *pcs) PPA_CTX_SERVER;

/* Hold the module table of now, so that what is drained next can be named. Context: server, sampler's lock. */
void ppa_session_note_modules(struct ppa_session *s) PPA_CTX_SERVER;

/* Charge what no sample covered. The window is closed. Context: server, sampler's lock. */
void ppa_session_settle(struct ppa_session *s) PPA_CTX_SERVER;

/* For settle: the thread of key, created if need be; NULL on no memory. Context: server, sampler's lock. */
struct ppa_session_thread *ppa_session_thread(struct ppa_session *s, uint64_t key) PPA_CTX_SERVER;

/* Enter what no sample covered of one thread. Context: server, sampler's lock. */
void ppa_session_account(struct ppa_session *s, enum ppa_marker leaf, uintptr_t start_routine, uint32_t label,
			 int64_t rest_ns) PPA_CTX_SERVER;

/* The table of a layout; any table if that layout is not held. Context: server. */
const struct ppa_module_table *ppa_session_table(const struct ppa_session *s, uint64_t layout) PPA_CTX_SERVER;

/* Context: server. */
void ppa_session_free(struct ppa_session *s) PPA_CTX_SERVER;

#endif
