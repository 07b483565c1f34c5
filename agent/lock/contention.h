/* SPDX-License-Identifier: Apache-2.0
 *
 * The profiles block and mutex: one measurement of a wait, charged to the waiter's stack (block) and, where it was for a
 * lock, to the stack of whoever released it (mutex). Hooks bracket what may wait with wait_begin and wait_end, and a
 * release that is watched with release_begin and release_end; nothing here is on the way of who need not wait.
 *
 * block keeps an event of d ns with probability min(1, d / rate) and weighs it with the inverse; mutex keeps one in
 * fraction releases with the weight fraction: Go's rules, decided when the event ends with the rates of then. The leaf
 * of a stack is the function that waited or released, as if it had been caught in it.
 *
 * While a trace is recorded (agent/trace), each wait and each release goes there, too.
 *
 * A thread may leave a wait by siglongjmp, by cancellation or by an exception. The thread's record in TLS says which wait it is in;
 * who finds a record of a frame that cannot be alive any more ends that wait. */
#ifndef PPA_LOCK_CONTENTION_H
#define PPA_LOCK_CONTENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/lock/contended.h"
#include "agent/profile/sites.h"
#include "agent/thread/threads.h"

extern struct ppa_sites ppa_block_sites, ppa_mutex_sites;

/* Estimates of what a site has seen since the process began. Context: server. */
struct ppa_contention_values {
	int64_t contentions, delay_ns;
};
struct ppa_contention_values ppa_contention_read(const struct ppa_site *s) PPA_CTX_SERVER;

/* block: mean ns of waiting between two samples, 1 keeps everything; mutex: one release in so many; 0 is off. Both may
 * change at any time; fractions above 65535 count as that. Context: any. */
void ppa_contention_set_block_rate(uint64_t ns) PPA_CTX_ANY;
void ppa_contention_set_mutex_fraction(uint64_t n) PPA_CTX_ANY;
uint64_t ppa_contention_block_rate(void) PPA_CTX_ANY;
uint64_t ppa_contention_mutex_fraction(void) PPA_CTX_ANY;

/* Is there anything for hooks to measure? Context: any. */
extern _Atomic bool ppa_contention_on __attribute__((visibility("hidden")));

static inline bool ppa_contention_is_on(void)
{
	return atomic_load_explicit(&ppa_contention_on, memory_order_relaxed);
}

/* PPROF_BLOCK_IO: are calls that are no locks part of block? Context: any. */
void ppa_contention_set_io(bool is_on) PPA_CTX_ANY;
bool ppa_contention_wants_io(void) PPA_CTX_ANY;
extern _Atomic bool ppa_contention_io __attribute__((visibility("hidden")));

static inline bool ppa_contention_measures_io(void)
{
	return atomic_load_explicit(&ppa_contention_io, memory_order_relaxed);
}

/* Is a trace recorded? Then hooks measure everything, whatever the rates. Context: server, child. */
void ppa_contention_set_trace(bool is_on) PPA_CTX_SERVER;

/* Call turn now and each time that changes; for two callers at most. Context: init. */
void ppa_contention_on_turn(void (*turn)(bool is_on)) PPA_CTX_INIT;

/* Begin with these rates. 0 or -ENOMEM (nothing is measured then). Context: init. */
int ppa_contention_start(uint64_t block_rate, uint64_t mutex_fraction) PPA_CTX_INIT;

/* Context: child. */
void ppa_contention_reset(void) PPA_CTX_CHILD;

/* The wait that a thread is in, for whoever finds that it was left by a jump. Initial-exec TLS as ppa_self. */
struct ppa_waiting {
	uintptr_t frame; /* address of its struct ppa_wait, 0: none */
	uintptr_t gone;	 /* one that was taken for dead; not part of what nests */
	struct ppa_stay stay;
};
extern __thread struct ppa_waiting ppa_waiting __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* A wait under way, in the frame of the hook. */
struct ppa_wait {
	struct ppa_stay stay;
	struct ppa_waiting outer; /* the wait that a handler interrupted */
	uint64_t begin_ns;	  /* CLOCK_MONOTONIC */
	const void *object;	  /* what it waits for, NULL if nothing in memory */
	enum ppa_parked_kind kind;
	uint32_t watching; /* ppa_trace_watch's */
	bool is_watched;   /* by the trace */
	bool is_for_lock;  /* and mutex was on when it began */
	bool is_io;	   /* for the hook to set: kept apart from locks */
	int fd;		   /* of I/O, for the hook to set: struct ppa_trace_wait's */
};

enum ppa_wait_outcome {
	PPA_WAIT_REFUSED, /* failed at once: no wait */
	PPA_WAIT_VAIN,	  /* waited, and did not get it: time is up, or a signal came */
	PPA_WAIT_GOT,
};

/* lock: what it waits for if somebody is to be charged for it, else NULL; object: what it waits for in any case.
 * Keeps errno. Context: malloc. */
void ppa_wait_begin(struct ppa_wait *w, const void *lock, enum ppa_parked_kind kind, const void *object) PPA_CTX_MALLOC;

/* function: the one that waited; caller: the hook's return address. Keeps errno. Context: malloc. */
void ppa_wait_end(struct ppa_wait *w, enum ppa_wait_outcome outcome, uintptr_t function,
		  uintptr_t caller) PPA_CTX_MALLOC;

/* In a hook, once, before ppa_wait_begin: forced unwinding and exceptions that pass its frame end the wait. A personality of
 * our own, because gcc's for C lives in libgcc_s. The hook must be noinline. */
#define PPA_WAIT_MAY_UNWIND() __asm__ volatile(".cfi_personality 0x1b, ppa_wait_personality")

/* A release under way. */
struct ppa_releasing {
	struct ppa_release release;
	uint64_t scale; /* 0: not this one */
	const void *lock;
	uint64_t trace_ns; /* when it is, for the trace; 0: none is recorded */
};

/* For a lock that ppa_contended_is_watched. False: nobody waits, and there is no end. may_have_sleepers: false if the
 * lock itself denies it; who is registered for long all the same has left by a jump. Keeps errno. Context: malloc. */
bool ppa_release_begin(struct ppa_releasing *r, const void *lock, bool may_have_sleepers) PPA_CTX_MALLOC;

/* The lock is released, or will be without another word. is_released: the function succeeded. Keeps errno. Context: malloc. */
void ppa_release_end(struct ppa_releasing *r, bool is_released, uintptr_t function, uintptr_t caller) PPA_CTX_MALLOC;

#endif
