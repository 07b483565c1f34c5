/* SPDX-License-Identifier: Apache-2.0
 *
 * What every profile needs before its first stack can be walked well: module table, unwinder, function starts. The
 * keeper prepares it as its first act, because heap sampling begins with the program; until then stacks are walked by
 * what the loader knows. */
#ifndef PPA_PROFILE_READY_H
#define PPA_PROFILE_READY_H

#include "agent/base/attr.h"

/* Do it; again only what changed since. 0 or -errno. Context: server. */
int ppa_ready_prepare(void) PPA_CTX_SERVER;

/* The same in a child of a fork, which has what its parent had: only what was missing or has changed. 0 or -errno.
 * Context: server. */
int ppa_ready_inherit(void) PPA_CTX_SERVER;

/* Wait at most so many milliseconds until it was done once. Context: init. */
void ppa_ready_wait(int ms) PPA_CTX_INIT;

/* Context: child. */
void ppa_ready_reset(void) PPA_CTX_CHILD;

#endif
