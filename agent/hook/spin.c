/* SPDX-License-Identifier: Apache-2.0
 *
 * Spin locks: a wait like any other, though it costs CPU time.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "agent/base/self.h"
#include "agent/hook/lock_real.h"
#include "agent/lock/contention.h"
#include "agent/thread/parked.h"

#define CALLER ((uintptr_t)__builtin_return_address(0))
#define SLOW __attribute__((noinline, cold))

static SLOW int lock_busy(pthread_spinlock_t *l, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->spin_lock(l);
	ppa_wait_begin(&w, (const void *)l, PPA_PARKED_SPIN, (const void *)l);
	ppa_parked_enter(PPA_PARKED_SPIN, (const void *)l, w.begin_ns);
	rc = real->spin_lock(l);
	ppa_parked_leave();
	ppa_wait_end(&w, rc ? PPA_WAIT_REFUSED : PPA_WAIT_GOT, (uintptr_t)real->spin_lock, caller);
	return rc;
}

PPA_EXPORT int pthread_spin_lock(pthread_spinlock_t *l)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	int err;

	if (!ppa_contention_is_on())
		return real->spin_lock(l);
	err = real->spin_trylock(l);
	return ppa_likely(err != EBUSY) ? err : lock_busy(l, CALLER);
}

static SLOW int unlock_watched(pthread_spinlock_t *l, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_releasing r;
	bool is_kept = ppa_release_begin(&r, (const void *)l, true);
	int err = real->spin_unlock(l);

	if (is_kept)
		ppa_release_end(&r, !err, (uintptr_t)real->spin_unlock, caller);
	return err;
}

PPA_EXPORT int pthread_spin_unlock(pthread_spinlock_t *l)
{
	if (ppa_unlikely(ppa_contended_is_watched((const void *)l)))
		return unlock_watched(l, CALLER);
	return ppa_lock_real()->spin_unlock(l);
}
