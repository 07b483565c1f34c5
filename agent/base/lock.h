/* SPDX-License-Identifier: Apache-2.0
 *
 * A mutex on a futex, for our own threads: no hook of ours sees it, no libc state is behind it, and a fork child resets
 * it by storing zero. States: 0 free, 1 held, 2 held with waiters (Drepper, "Futexes Are Tricky", mutex 2). */
#ifndef PPA_BASE_LOCK_H
#define PPA_BASE_LOCK_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "agent/base/attr.h"
#include "agent/base/sys.h"

struct ppa_lock {
	_Atomic int state;
};

/* Context: server, and any where the comment at the lock says so; never signal. */
static inline void ppa_lock(struct ppa_lock *l)
{
	int seen = 0;

	if (atomic_compare_exchange_strong_explicit(&l->state, &seen, 1, memory_order_acquire, memory_order_relaxed))
		return;
	while (atomic_exchange_explicit(&l->state, 2, memory_order_acquire) != 0)
		ppa_syscall(SYS_futex, (long)&l->state, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0);
}

static inline int ppa_trylock(struct ppa_lock *l)
{
	int seen = 0;

	return atomic_compare_exchange_strong_explicit(&l->state, &seen, 1, memory_order_acquire, memory_order_relaxed);
}

/* release: what the holder wrote is seen by the next acquire in ppa_lock. */
static inline void ppa_unlock(struct ppa_lock *l)
{
	if (atomic_exchange_explicit(&l->state, 0, memory_order_release) == 2)
		ppa_syscall(SYS_futex, (long)&l->state, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

/* The child of a fork: whoever held it does not exist. Context: child. */
static inline void ppa_lock_reset(struct ppa_lock *l)
{
	atomic_store_explicit(&l->state, 0, memory_order_relaxed);
}

#endif
