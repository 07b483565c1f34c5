/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking threads that run for their stacks, without ever waking one that sleeps.
 *
 * A signal sent to a thread that seems to run may find it asleep, and ends its sleep with EINTR. So nothing is sent:
 * each thread gets a timer on its own CPU clock that expires at once, which the kernel notices at the next tick that
 * finds the thread running. A thread that falls asleep meanwhile is left alone; if it wakes up later, the answer it
 * gives then is recognised as late by its generation and dropped. (From Linux 5.11 on the signal is raised on the way
 * back to user mode, so that even a tick in the first instructions of a sleep does not end it.)
 *
 * One round at a time: open, start for each thread, look for answers for as long as one cares to, close. */
#ifndef PPA_THREAD_ASK_H
#define PPA_THREAD_ASK_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/base/attr.h"
#include "unwind/walk/unwind.h"

enum { PPA_ASK_MAX = 256 }; /* threads in a round */

/* Our signal's handler is installed already. 0 or -ENOMEM. Context: server, one at a time. */
int ppa_ask_open(void) PPA_CTX_SERVER;

/* Ask thread tid. bounds: of its stack, NULL if unknown. The number of the question, or -errno: -EBUSY when the round is
 * full, else no timer could be had. Several may ask at the same
 * time. Context: server. */
int ppa_ask_start(pid_t tid, const struct ppa_stack_bounds *bounds) PPA_CTX_SERVER;

/* The answer to a question, NULL as long as there is none; valid until close. Context: server. */
const struct ppa_unwind_buf *ppa_ask_get(int question) PPA_CTX_SERVER;

/* Nobody waits any more; gives the memory's pages back. Context: server. */
void ppa_ask_close(void) PPA_CTX_SERVER;

/* Does a timer's value come from here? Context: signal. */
bool ppa_ask_owns(uint64_t value) PPA_CTX_SIGNAL;

/* In the handler. Context: signal. */
void ppa_ask_answer(const siginfo_t *si, const void *ucontext) PPA_CTX_SIGNAL;

/* Context: child. */
void ppa_ask_reset(void) PPA_CTX_CHILD;

#endif
