/* SPDX-License-Identifier: Apache-2.0
 *
 * The locks of C11. In every libc they are pthread's in another dress, but calls among libc's own functions pass no
 * hook: each needs one here. Without them in the libc, the genuine functions are ones that fail.
 */
#include <stdbool.h>
#include <threads.h>

#include "agent/base/self.h"
#include "agent/hook/lock_real.h"
#include "agent/lock/contention.h"
#include "agent/thread/parked.h"

#define CALLER ((uintptr_t)__builtin_return_address(0))
#define SLOW __attribute__((noinline, cold))

static enum ppa_wait_outcome outcome_of(int rc)
{
	if (rc == thrd_success)
		return PPA_WAIT_GOT;
	return rc == thrd_timedout ? PPA_WAIT_VAIN : PPA_WAIT_REFUSED;
}

static SLOW int lock_busy(mtx_t *m, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->mtx_lock(m);
	ppa_wait_begin(&w, m, PPA_PARKED_MUTEX, m);
	ppa_parked_enter(PPA_PARKED_MUTEX, m, w.begin_ns);
	rc = real->mtx_lock(m);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->mtx_lock, caller);
	return rc;
}

PPA_EXPORT int mtx_lock(mtx_t *m)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	int rc;

	if (!ppa_contention_is_on())
		return real->mtx_lock(m);
	rc = real->mtx_trylock(m);
	return ppa_likely(rc != thrd_busy) ? rc : lock_busy(m, CALLER);
}

static SLOW int timedlock_busy(mtx_t *m, const struct timespec *at, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->mtx_timedlock(m, at);
	ppa_wait_begin(&w, m, PPA_PARKED_MUTEX, m);
	ppa_parked_enter(PPA_PARKED_MUTEX, m, w.begin_ns);
	rc = real->mtx_timedlock(m, at);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->mtx_timedlock, caller);
	return rc;
}

PPA_EXPORT int mtx_timedlock(mtx_t *restrict m, const struct timespec *restrict at)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	int rc;

	if (!ppa_contention_is_on())
		return real->mtx_timedlock(m, at);
	rc = real->mtx_trylock(m);
	return ppa_likely(rc != thrd_busy) ? rc : timedlock_busy(m, at, CALLER);
}

static SLOW int unlock_watched(mtx_t *m, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_releasing r;
	bool is_kept = ppa_release_begin(&r, m, true);
	int rc = real->mtx_unlock(m);

	if (is_kept)
		ppa_release_end(&r, rc == thrd_success, (uintptr_t)real->mtx_unlock, caller);
	return rc;
}

PPA_EXPORT int mtx_unlock(mtx_t *m)
{
	if (ppa_unlikely(ppa_contended_is_watched(m)))
		return unlock_watched(m, CALLER);
	return ppa_lock_real()->mtx_unlock(m);
}

/* The mutex is about to be released inside libc. */
static void give_away(const mtx_t *m, uintptr_t function, uintptr_t caller)
{
	struct ppa_releasing r;

	if (ppa_unlikely(ppa_contended_is_watched(m)) && ppa_release_begin(&r, m, true))
		ppa_release_end(&r, true, function, caller);
}

static SLOW int wait_on(cnd_t *c, mtx_t *m, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->cnd_wait(c, m);
	give_away(m, (uintptr_t)real->cnd_wait, caller);
	ppa_wait_begin(&w, NULL, PPA_PARKED_CONDITION, c);
	ppa_parked_enter(PPA_PARKED_CONDITION, c, w.begin_ns);
	rc = real->cnd_wait(c, m);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->cnd_wait, caller);
	return rc;
}

PPA_EXPORT int cnd_wait(cnd_t *c, mtx_t *m)
{
	if (!ppa_contention_is_on())
		return ppa_lock_real()->cnd_wait(c, m);
	return wait_on(c, m, CALLER);
}

static SLOW int timedwait_on(cnd_t *c, mtx_t *m, const struct timespec *at, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->cnd_timedwait(c, m, at);
	give_away(m, (uintptr_t)real->cnd_timedwait, caller);
	ppa_wait_begin(&w, NULL, PPA_PARKED_CONDITION, c);
	ppa_parked_enter(PPA_PARKED_CONDITION, c, w.begin_ns);
	rc = real->cnd_timedwait(c, m, at);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->cnd_timedwait, caller);
	return rc;
}

PPA_EXPORT int cnd_timedwait(cnd_t *restrict c, mtx_t *restrict m, const struct timespec *restrict at)
{
	if (!ppa_contention_is_on())
		return ppa_lock_real()->cnd_timedwait(c, m, at);
	return timedwait_on(c, m, at, CALLER);
}
