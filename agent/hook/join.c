/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining threads: charged to whoever waits for the end. pthread_tryjoin_np never waits.
 */
#include <errno.h>
#include <pthread.h>
#include <threads.h>

#include "agent/base/self.h"
#include "agent/hook/lock_real.h"
#include "agent/lock/contention.h"
#include "agent/thread/parked.h"

#define CALLER ((uintptr_t)__builtin_return_address(0))
#define SLOW __attribute__((noinline, cold))

static enum ppa_wait_outcome outcome_of(int err)
{
	if (!err)
		return PPA_WAIT_GOT;
	return err == ETIMEDOUT ? PPA_WAIT_VAIN : PPA_WAIT_REFUSED;
}

/* A thread's descriptor, in every libc. */
static const void *object_of(uintptr_t thread)
{
	return (const void *)thread;
}

static SLOW int wait_join(pthread_t t, void **result, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->join(t, result);
	ppa_wait_begin(&w, NULL, PPA_PARKED_JOIN, object_of((uintptr_t)t));
	ppa_parked_enter(PPA_PARKED_JOIN, object_of((uintptr_t)t), w.begin_ns);
	rc = real->join(t, result);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->join, caller);
	return rc;
}

PPA_EXPORT int pthread_join(pthread_t t, void **result)
{
	if (!ppa_contention_is_on())
		return ppa_lock_real()->join(t, result);
	return wait_join(t, result, CALLER);
}

static SLOW int wait_timedjoin(pthread_t t, void **result, const struct timespec *at, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->timedjoin(t, result, at);
	ppa_wait_begin(&w, NULL, PPA_PARKED_JOIN, object_of((uintptr_t)t));
	ppa_parked_enter(PPA_PARKED_JOIN, object_of((uintptr_t)t), w.begin_ns);
	rc = real->timedjoin(t, result, at);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->timedjoin, caller);
	return rc;
}

PPA_EXPORT int pthread_timedjoin_np(pthread_t t, void **result, const struct timespec *at)
{
	if (!ppa_contention_is_on())
		return ppa_lock_real()->timedjoin(t, result, at);
	return wait_timedjoin(t, result, at, CALLER);
}

static SLOW int wait_clockjoin(pthread_t t, void **result, clockid_t clock, const struct timespec *at, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->clockjoin(t, result, clock, at);
	ppa_wait_begin(&w, NULL, PPA_PARKED_JOIN, object_of((uintptr_t)t));
	ppa_parked_enter(PPA_PARKED_JOIN, object_of((uintptr_t)t), w.begin_ns);
	rc = real->clockjoin(t, result, clock, at);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->clockjoin, caller);
	return rc;
}

PPA_EXPORT int pthread_clockjoin_np(pthread_t t, void **result, clockid_t clock, const struct timespec *at)
{
	if (!ppa_contention_is_on())
		return ppa_lock_real()->clockjoin(t, result, clock, at);
	return wait_clockjoin(t, result, clock, at, CALLER);
}

static SLOW int wait_thrd(thrd_t t, int *result, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->thrd_join(t, result);
	ppa_wait_begin(&w, NULL, PPA_PARKED_JOIN, object_of((uintptr_t)t));
	ppa_parked_enter(PPA_PARKED_JOIN, object_of((uintptr_t)t), w.begin_ns);
	rc = real->thrd_join(t, result);
	ppa_parked_leave();
	ppa_wait_end(&w, rc == thrd_success ? PPA_WAIT_GOT : PPA_WAIT_REFUSED, (uintptr_t)real->thrd_join, caller);
	return rc;
}

PPA_EXPORT int thrd_join(thrd_t t, int *result)
{
	if (!ppa_contention_is_on())
		return ppa_lock_real()->thrd_join(t, result);
	return wait_thrd(t, result, CALLER);
}
