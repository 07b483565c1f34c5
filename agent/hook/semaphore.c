/* SPDX-License-Identifier: Apache-2.0
 *
 * Semaphores. They have no holder: the wait is charged to the waiter alone. Trying first would lose a cancellation that is
 * pending, so the hook only looks whether there is something to take; the genuine function is called at once and once.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdbool.h>

#include "agent/base/self.h"
#include "agent/hook/lock_real.h"
#include "agent/lock/contention.h"
#include "agent/thread/parked.h"

#define CALLER ((uintptr_t)__builtin_return_address(0))
#define SLOW __attribute__((noinline, cold))

static enum ppa_wait_outcome outcome_of(int rc)
{
	if (rc == 0)
		return PPA_WAIT_GOT;
	return errno == ETIMEDOUT || errno == EINTR ? PPA_WAIT_VAIN : PPA_WAIT_REFUSED;
}

static bool may_wait(sem_t *s)
{
	int n;

	return ppa_contention_is_on() && ppa_lock_real()->sem_getvalue(s, &n) == 0 && n <= 0;
}

static SLOW int wait_empty(sem_t *s, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->sem_wait(s);
	ppa_wait_begin(&w, NULL, PPA_PARKED_SEMAPHORE, s);
	ppa_parked_enter(PPA_PARKED_SEMAPHORE, s, w.begin_ns);
	rc = real->sem_wait(s);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->sem_wait, caller);
	return rc;
}

PPA_EXPORT int sem_wait(sem_t *s)
{
	if (may_wait(s))
		return wait_empty(s, CALLER);
	return ppa_lock_real()->sem_wait(s);
}

static SLOW int timedwait_empty(sem_t *s, const struct timespec *at, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->sem_timedwait(s, at);
	ppa_wait_begin(&w, NULL, PPA_PARKED_SEMAPHORE, s);
	ppa_parked_enter(PPA_PARKED_SEMAPHORE, s, w.begin_ns);
	rc = real->sem_timedwait(s, at);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->sem_timedwait, caller);
	return rc;
}

PPA_EXPORT int sem_timedwait(sem_t *restrict s, const struct timespec *restrict at)
{
	if (may_wait(s))
		return timedwait_empty(s, at, CALLER);
	return ppa_lock_real()->sem_timedwait(s, at);
}

static SLOW int clockwait_empty(sem_t *s, clockid_t clock, const struct timespec *at, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->sem_clockwait(s, clock, at);
	ppa_wait_begin(&w, NULL, PPA_PARKED_SEMAPHORE, s);
	ppa_parked_enter(PPA_PARKED_SEMAPHORE, s, w.begin_ns);
	rc = real->sem_clockwait(s, clock, at);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->sem_clockwait, caller);
	return rc;
}

PPA_EXPORT int sem_clockwait(sem_t *restrict s, clockid_t clock, const struct timespec *restrict at)
{
	if (may_wait(s))
		return clockwait_empty(s, clock, at, CALLER);
	return ppa_lock_real()->sem_clockwait(s, clock, at);
}
