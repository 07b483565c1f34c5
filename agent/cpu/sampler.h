/* SPDX-License-Identifier: Apache-2.0
 *
 * The one sampler behind all CPU profiles: it runs while at least one session is open, at the highest rate any of them
 * asked for. It has no thread: whoever waits for a session's end calls tick now and then, and the first to get the
 * lock works for all. Timers, rings and their memory are gone with the last session. */
#ifndef PPA_CPU_SAMPLER_H
#define PPA_CPU_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_session;

/* Open a session. 0; -EBUSY when PPA_CPU_SESSIONS_MAX are open; -ENOMEM; -EAGAIN and the like when not one thread could
 * be given a timer. Context: server. */
int ppa_sampler_open(int hz, bool label_tid, struct ppa_session **out) PPA_CTX_SERVER;

/* The same for the one session whose samples are not counted but given to tap, one by one, on any server thread and under
 * the sampler's lock. It takes none of the others' places. Context: server. */
struct ppa_record;
int ppa_sampler_open_tap(int hz, void (*tap)(const struct ppa_record *r, const uintptr_t *pcs),
			 struct ppa_session **out) PPA_CTX_SERVER;

/* Drain the rings into the sessions, look for new threads and modules when it is time. Returns after how many
 * nanoseconds it wants to be called again. Context: server. */
uint64_t ppa_sampler_tick(void) PPA_CTX_SERVER;

/* Close the window, settle, and take the session off the sampler; it is the caller's to read and free.
 * Context: server. */
void ppa_sampler_close(struct ppa_session *s) PPA_CTX_SERVER;

/* Context: child. */
void ppa_sampler_reset(void) PPA_CTX_CHILD;

#endif
