/* SPDX-License-Identifier: Apache-2.0
 *
 * Condition variables. The wait is charged to the waiter alone: who signals holds nobody up. It lasts until the mutex
 * is had again, which happens inside libc where no hook sees it. What libc does see to inside, at the beginning, is the
 * release of the mutex: to those who wait for that, the waiter was its holder.
 *
 * All of these are cancellation points; the genuine function is called at once and once.
 */
#include <errno.h>
#include <pthread.h>

#include "agent/base/self.h"
#include "agent/hook/lock_real.h"
#include "agent/lock/contention.h"
#include "agent/thread/parked.h"

#define CALLER ((uintptr_t)__builtin_return_address(0))
#define SLOW __attribute__((noinline, cold))

static enum ppa_wait_outcome outcome_of(int err)
{
	switch (err) {
	case 0:
	case EOWNERDEAD:
	case ENOTRECOVERABLE:
		return PPA_WAIT_GOT;
	case ETIMEDOUT:
		return PPA_WAIT_VAIN;
	default:
		return PPA_WAIT_REFUSED;
	}
}

/* The mutex is about to be released inside libc. */
static void give_away(const pthread_mutex_t *m, uintptr_t function, uintptr_t caller)
{
	struct ppa_releasing r;

	if (ppa_unlikely(ppa_contended_is_watched(m)) && ppa_release_begin(&r, m, true))
		ppa_release_end(&r, true, function, caller);
}

static SLOW int wait_on(pthread_cond_t *c, pthread_mutex_t *m, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->cond_wait(c, m);
	give_away(m, (uintptr_t)real->cond_wait, caller);
	ppa_wait_begin(&w, NULL, PPA_PARKED_CONDITION, c);
	ppa_parked_enter(PPA_PARKED_CONDITION, c, w.begin_ns);
	rc = real->cond_wait(c, m);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->cond_wait, caller);
	return rc;
}

PPA_EXPORT int pthread_cond_wait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m)
{
	if (!ppa_contention_is_on())
		return ppa_lock_real()->cond_wait(c, m);
	return wait_on(c, m, CALLER);
}

static SLOW int timedwait_on(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *at, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->cond_timedwait(c, m, at);
	give_away(m, (uintptr_t)real->cond_timedwait, caller);
	ppa_wait_begin(&w, NULL, PPA_PARKED_CONDITION, c);
	ppa_parked_enter(PPA_PARKED_CONDITION, c, w.begin_ns);
	rc = real->cond_timedwait(c, m, at);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->cond_timedwait, caller);
	return rc;
}

PPA_EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m,
				      const struct timespec *restrict at)
{
	if (!ppa_contention_is_on())
		return ppa_lock_real()->cond_timedwait(c, m, at);
	return timedwait_on(c, m, at, CALLER);
}

static SLOW int clockwait_on(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock, const struct timespec *at,
			     uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->cond_clockwait(c, m, clock, at);
	give_away(m, (uintptr_t)real->cond_clockwait, caller);
	ppa_wait_begin(&w, NULL, PPA_PARKED_CONDITION, c);
	ppa_parked_enter(PPA_PARKED_CONDITION, c, w.begin_ns);
	rc = real->cond_clockwait(c, m, clock, at);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->cond_clockwait, caller);
	return rc;
}

PPA_EXPORT int pthread_cond_clockwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, clockid_t clock,
				      const struct timespec *restrict at)
{
	if (!ppa_contention_is_on())
		return ppa_lock_real()->cond_clockwait(c, m, clock, at);
	return clockwait_on(c, m, clock, at, CALLER);
}
