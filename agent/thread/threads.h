/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread table: one slot for each thread of the target that we know, and its CPU timer.
 *
 * A slot is reserved by the creator (hook on pthread_create) and filled by the new thread; threads that were there
 * before us or came by raw clone are adopted by a scan of /proc/self/task. The kernel timer is created and deleted by
 * whoever holds the slot's claim: the thread itself at birth and end, a server thread for all others. Nobody waits for
 * a claim; a thread that ends while a server thread holds it leaves the clean-up to that thread. */
#ifndef PPA_THREAD_THREADS_H
#define PPA_THREAD_THREADS_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/base/attr.h"
#include "unwind/walk/unwind.h"

struct ppa_site;

enum { PPA_THREADS_MAX = 65536 };

/* What a thread waits for inside a wrapper of ours. */
enum ppa_parked_kind {
	PPA_PARKED_MUTEX,
	PPA_PARKED_RWLOCK_READ,
	PPA_PARKED_RWLOCK_WRITE,
	PPA_PARKED_CONDITION,
	PPA_PARKED_SEMAPHORE,
	PPA_PARKED_BARRIER,
	PPA_PARKED_SPIN,
	PPA_PARKED_JOIN,
	PPA_PARKED_FUTEX,
	PPA_PARKED_IO,
	PPA_PARKED_SLEEP,
	PPA_PARKED_CHILD,
	PPA_PARKED_KINDS
};

/* Written by the thread, read by anyone: see parked.h. */
struct ppa_parked {
	_Atomic uint32_t seq; /* odd: the rest holds */
	_Atomic uint32_t kind;
	_Atomic uint64_t since_ns; /* CLOCK_MONOTONIC */
	_Atomic uintptr_t object, sp;
	_Atomic uintptr_t regs[6]; /* callee-saved, in the unwinder's order */
};

enum ppa_thread_state {
	PPA_THREAD_FREE = 0,
	PPA_THREAD_RESERVED = 1, /* the creator has it, the thread does not run yet */
	PPA_THREAD_LIVE = 2,
	PPA_THREAD_LEAVING = 3, /* the thread is past its last sample; whoever gets the claim frees the slot */
};

struct ppa_thread {
	_Atomic uint32_t state;
	_Atomic uint32_t claim;	     /* 1: somebody works on the timer */
	_Atomic uint32_t generation; /* counts reuses of the slot: (index, generation) is never seen twice */
	_Atomic uint32_t next_free;  /* free list: index + 1 */

	/* written before LIVE, constant until FREE */
	_Atomic pid_t tid;
	uintptr_t start_routine; /* 0 if unknown */
	struct ppa_stack_bounds bounds;
	bool is_adopted; /* found by the scan */
	bool is_main;

	/* carried from the creator to the new thread */
	void *(*fn)(void *);
	void *arg;
	size_t stack_bytes;	  /* what the thread's attributes ask for; 0 if unknown */
	struct ppa_site *creator; /* the stack that created it, NULL if unknown; read by server threads */
	pid_t creator_tid;	  /* 0 if unknown; as above */

	/* held by the claim */
	int timer_id; /* kernel id, -1 none */
	unsigned signal_generation;
	_Atomic uint64_t period_ns; /* of the armed timer; read by the handler */
	uint64_t first_ns;	    /* on the thread's CPU clock, when the timer is to fire first; see newborn.h */
	uint64_t first_period_ns;   /* drawn for this period; 0: not drawn */
	bool timer_failed;

	/* owned by the thread; read by anyone */
	_Atomic uint32_t tags;	     /* labels that its code set: profile/tags.h. The creator's at birth */
	_Atomic bool in_fork;	     /* our signal is blocked by our own fork hook */
	_Atomic uintptr_t recording; /* the frame that writes a record of the trace; 0: none. See trace/buffer.c */
	struct ppa_parked parked;

	/* owned by whoever takes a dump */
	uint64_t asleep_cpu_ns;	  /* the thread's CPU clock at the first dump that found it where the last one did */
	uint64_t asleep_since_ns; /* CLOCK_MONOTONIC of that dump; 0: none */

	/* owned by the scan */
	uint32_t scan;
};

/* Map the table. 0 or -ENOMEM. Until then reserve gives NULL. Context: init. */
int ppa_threads_init(void) PPA_CTX_INIT;

/* A slot for a thread about to be created, NULL when the table is full or off. Context: any. */
struct ppa_thread *ppa_threads_reserve(void) PPA_CTX_ANY;

/* The thread was not created after all. Context: any. */
void ppa_threads_unreserve(struct ppa_thread *t) PPA_CTX_ANY;

/* First and last act of the thread itself. leave is a no-op for NULL. Context: any. */
void ppa_threads_enter(struct ppa_thread *t, uintptr_t frame) PPA_CTX_ANY;
void ppa_threads_leave(struct ppa_thread *t) PPA_CTX_ANY;

/* The main thread's slot, from the constructor: stack_top is an address near the top of its stack. Context: init. */
void ppa_threads_adopt_main(uintptr_t stack_top) PPA_CTX_INIT;

/* The slot whose timer sent this signal, NULL if it is not ours or its thread is gone. Context: signal. */
struct ppa_thread *ppa_threads_of_signal(const siginfo_t *si) PPA_CTX_SIGNAL;

static inline uint64_t ppa_threads_key(uint32_t index, uint32_t generation)
{
	return (uint64_t)generation << 32 | index;
}

uint32_t ppa_threads_index(const struct ppa_thread *t) PPA_CTX_SIGNAL;

/* The period that every thread's timer should have, 0 for no timers. New threads follow it at once; the others when
 * ppa_threads_scan comes by. Context: server. */
void ppa_threads_set_period(uint64_t period_ns) PPA_CTX_SERVER;
uint64_t ppa_threads_period(void) PPA_CTX_SIGNAL;

/* Reconcile with /proc/self/task: adopt strangers, reap the dead, bring every timer to the wanted period. Strangers
 * are adopted at once when `adopt_now`, else when met for the second time; but not while a birth is under way, because
 * the stranger may be the newborn, whose own slot knows what we cannot: how small its stack is. Returns the number of threads with a running timer, or -errno when /proc could not be
 * read (slots known from hooks are served all the same). Context: server, one at a time. */
int ppa_threads_scan(bool adopt_now) PPA_CTX_SERVER;

/* Bring one thread's timer to the wanted period, unless somebody else is at it. Context: any. */
void ppa_threads_retime(struct ppa_thread *t) PPA_CTX_ANY;

/* For the scan: free the slot of a thread that is gone. Context: server, same lock as scan. */
void ppa_threads_retire(struct ppa_thread *t) PPA_CTX_SERVER;

/* Is a slot reserved by a thread that does not run yet? Context: server. */
bool ppa_threads_is_birth_under_way(void) PPA_CTX_SERVER;

/* Visit every live slot; its thread may end and its slot become another's meanwhile, unless the visitor claims it.
 * Context: any. */
void ppa_threads_each(void (*visit)(struct ppa_thread *t, void *arg), void *arg) PPA_CTX_ANY;

/* How many slots were ever in use at a time: what a visit of each looks at. Context: any. */
uint32_t ppa_threads_used(void) PPA_CTX_ANY;

/* The child of a fork has one thread, the caller, and no timers. Context: child. */
void ppa_threads_reset(struct ppa_thread *caller) PPA_CTX_CHILD;
void ppa_threads_scan_reset(void) PPA_CTX_CHILD;

#endif
