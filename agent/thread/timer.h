/* SPDX-License-Identifier: Apache-2.0
 *
 * One POSIX CPU-time timer a thread, by raw system calls: libc's timer_create allocates on the target's heap and knows
 * no SIGEV_THREAD_ID in musl. The timer's value carries the slot, so the handler needs no TLS.
 *
 * The kernel delivers on its tick (CONFIG_HZ) and reports what it skipped as si_overrun; the first expiry is drawn
 * uniformly from (0, period], without which a thread shorter than a period would never be seen (D5). */
#ifndef PPA_THREAD_TIMER_H
#define PPA_THREAD_TIMER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/base/attr.h"

struct ppa_thread;

/* Of a slot's generation this many bits travel in the timer's value. */
enum { PPA_TIMER_GENERATION_MASK = 0xffff };

/* Create, change or (period 0) delete the timer of t. The claim on t is held. Failure leaves t without a timer and
 * timer_failed set, and is counted once. Context: any. */
void ppa_timer_set(struct ppa_thread *t, uint64_t period_ns) PPA_CTX_ANY;
void ppa_timer_delete(struct ppa_thread *t) PPA_CTX_ANY;

/* A kernel timer on the CPU clock of tid that sends our signal with value to tid; its id or -errno. Context: any. */
int ppa_timer_make(pid_t tid, uint64_t value) PPA_CTX_ANY;

/* Is there no room on t's stack for a signal's frame and our handler? Context: any. */
bool ppa_timer_is_stack_too_small(const struct ppa_thread *t) PPA_CTX_ANY;

/* The last errno of a failed timer_create, 0 if none failed since the last call. Context: server. */
int ppa_timer_last_error(void) PPA_CTX_SERVER;

/* Is value one that our timers send, and for which slot? Context: signal. */
bool ppa_timer_unpack(uint64_t value, uint32_t *index, uint32_t *generation) PPA_CTX_SIGNAL;

#endif
