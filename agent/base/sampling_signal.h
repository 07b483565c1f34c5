/* SPDX-License-Identifier: Apache-2.0
 *
 * The one signal number we use, and how the target is kept from noticing it.
 *
 * A real-time signal from the top of the range whose disposition is the default: SIGPROF and everything else stay the
 * target's. The number is chosen once, when the agent is switched on; the handler is installed with the first profile.
 * The hooks in agent/hook/signal.c strip the number from every mask the target installs and show it back as set. If
 * the target asks for the very number, we yield: it gets it, and we move to another; what is still on its way to us
 * under the old number is recognised by its value and dropped by the forwarder that then stands before the target's
 * handler. */
#ifndef PPA_BASE_SAMPLING_SIGNAL_H
#define PPA_BASE_SAMPLING_SIGNAL_H

#include <signal.h>
#include <stdbool.h>

#include "agent/base/attr.h"

/* Choose the number. 0 or -EBUSY when no candidate is free. Context: init. */
int ppa_signal_choose(void) PPA_CTX_INIT;

/* The number, 0 while none is chosen. Context: signal. */
int ppa_signal_number(void) PPA_CTX_SIGNAL;

/* Have handler run for our number: SA_SIGINFO | SA_ONSTACK | SA_RESTART, every signal blocked meanwhile. Idempotent.
 * Chooses another number if the target took this one behind our back. 0 or -errno. Context: server. */
int ppa_signal_install(void (*handler)(int, siginfo_t *, void *)) PPA_CTX_SERVER;

/* Does a mask count as containing n? Yes where both neighbours of n are in it: see agent/hook/signal.c.
 * Context: signal. */
bool ppa_signal_counts_as_in(const sigset_t *set, int n) PPA_CTX_SIGNAL;

/* The target wants this number for itself and we move to the next free one, handler and
 * all; the caller installs the target's action afterwards. Context: any. */
void ppa_signal_yield(int signum) PPA_CTX_ANY;

/* Counts yields: a sampler that sees another value than before re-creates its timers. Context: server. */
unsigned ppa_signal_generation(void) PPA_CTX_SERVER;

/* Was signum ours once? Then the target's handler for it needs the forwarder. Context: any. */
bool ppa_signal_was_ours(int signum) PPA_CTX_ANY;

#endif
