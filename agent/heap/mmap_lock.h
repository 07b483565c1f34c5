/* SPDX-License-Identifier: Apache-2.0
 *
 * The lock around the set of mapped regions: short, and never in anybody's way.
 *
 * It is taken in hooks, also those that a signal handler of the target enters. While it is held every signal is
 * blocked, so that no handler can come back for it, jump out of it or cancel the thread in it; the holder only
 * computes. Nobody waits for ever all the same: the copy that a raw clone makes of a process may show a holder that
 * does not exist there. After PPA_MMAP_PATIENCE_NS the caller does without and loses its event, and until the lock is
 * seen free again nobody waits at all.
 *
 * fork holds it from before to after, because the child's copy of the regions must be whole. Meanwhile the forking
 * thread (other libraries' fork handlers, a signal handler) passes freely; others wait, but not for ever. */
#ifndef PPA_HEAP_MMAP_LOCK_H
#define PPA_HEAP_MMAP_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"

enum { PPA_MMAP_PATIENCE_NS = 100000000 };

/* Block every signal of the thread; *mask is for unblock. Keeps errno. Context: malloc. */
void ppa_mmap_block(uint64_t *mask) PPA_CTX_MALLOC;
void ppa_mmap_unblock(uint64_t mask) PPA_CTX_MALLOC;

/* Take the lock, with signals blocked; while it is waited for, mask holds. False: it cannot be had. Context: malloc. */
bool ppa_mmap_lock(uint64_t mask) PPA_CTX_MALLOC;
void ppa_mmap_unlock(void) PPA_CTX_MALLOC;

/* Around fork, on the forking thread. False: it was not had, and the child's copy may be half-changed. Context: any. */
bool ppa_mmap_lock_for_fork(void) PPA_CTX_ANY;
void ppa_mmap_unlock_after_fork(void) PPA_CTX_ANY;

/* Nobody else exists: free, whatever it was. Context: child. */
void ppa_mmap_lock_reset(void) PPA_CTX_CHILD;

#endif
