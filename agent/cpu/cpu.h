/* SPDX-License-Identifier: Apache-2.0
 *
 * The signal side of the CPU profile: from a timer signal to a record in a ring.
 *
 * The handler weighs the sample with (1 + si_overrun) periods, walks the stack into a buffer of the agent's (not on
 * the interrupted stack), and appends both to a ring; a server thread drains the rings into the sessions. A full ring
 * or no free buffer costs the stack, never the weight: that is counted and shown as [lost samples]. */
#ifndef PPA_CPU_CPU_H
#define PPA_CPU_CPU_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/walk/unwind.h"

struct ppa_thread;

enum ppa_record_kind {
	PPA_RECORD_SAMPLE = 1,
	PPA_RECORD_BLOCKED = 2, /* CPU time that passed while the thread had our signal blocked; no stack */
	PPA_RECORD_EXIT = 3,	/* the thread ends; weight_ns is all the CPU time it ever used */
};

struct ppa_record {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t weight_ns;
	uint64_t thread_key;	/* ppa_threads_key */
	uint64_t start_routine; /* 0 if unknown */
	uint32_t tid;
	uint16_t kind; /* enum ppa_record_kind */
	uint16_t npcs;
	char thread_name[16];
	uint32_t tags; /* profile/tags.h */
	uint32_t unused;
};
_Static_assert(sizeof(struct ppa_record) % 8 == 0, "records are written as words");

/* The signal handler. Context: signal. */
void ppa_cpu_handler(int sig, siginfo_t *si, void *ucontext) PPA_CTX_SIGNAL;

/* Did one of our timers send this? Context: signal. */
bool ppa_cpu_owns_signal(const siginfo_t *si) PPA_CTX_SIGNAL;

/* Leave the EXIT record. Context: any, the ending thread itself. */
void ppa_cpu_thread_ends(const struct ppa_thread *t) PPA_CTX_ANY;

/* Map rings and buffers, once. 0 or -ENOMEM. Context: server. */
int ppa_cpu_prepare(void) PPA_CTX_SERVER;

/* Hand every complete record to take, oldest first in each ring. Returns the number. Context: server, one at a time. */
size_t ppa_cpu_drain(void (*take)(const struct ppa_record *r, const uintptr_t *pcs, void *arg),
		     void *arg) PPA_CTX_SERVER;

/* Is a ring more than half full? Context: server. */
bool ppa_cpu_is_behind(void) PPA_CTX_SERVER;

/* No timer is left: wait for handlers under way, empty the rings, give their memory back. Context: server. */
void ppa_cpu_quiesce(void) PPA_CTX_SERVER;

/* Context: child. */
void ppa_cpu_reset(void) PPA_CTX_CHILD;

#endif
