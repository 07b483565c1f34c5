/* SPDX-License-Identifier: Apache-2.0
 *
 * Read-write locks: tried first, as a lock that is had at once was not waited for. A writer that waits for readers is
 * charged to each of them as it leaves, for the time since the one before. An absurd time, or a clock that is none, is
 * left to the genuine function, which refuses it whether or not it would have to wait.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

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

/* May it be tried before the time is looked at? */
static bool is_sane(clockid_t clock, const struct timespec *at)
{
	return at && (uint64_t)at->tv_nsec < 1000000000 && (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC);
}

/* ---- reading ---- */

static SLOW int rdlock_busy(pthread_rwlock_t *l, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->rwlock_rdlock(l);
	ppa_wait_begin(&w, l, PPA_PARKED_RWLOCK_READ, l);
	ppa_parked_enter(PPA_PARKED_RWLOCK_READ, l, w.begin_ns);
	rc = real->rwlock_rdlock(l);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->rwlock_rdlock, caller);
	return rc;
}

static int rdlock_measured(pthread_rwlock_t *l)
{
	int err = ppa_lock_table.rwlock_tryrdlock(l);

	return ppa_likely(err != EBUSY) ? err : rdlock_busy(l, CALLER);
}

static SLOW int timedrdlock_busy(pthread_rwlock_t *l, const struct timespec *at, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->rwlock_timedrdlock(l, at);
	ppa_wait_begin(&w, l, PPA_PARKED_RWLOCK_READ, l);
	ppa_parked_enter(PPA_PARKED_RWLOCK_READ, l, w.begin_ns);
	rc = real->rwlock_timedrdlock(l, at);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->rwlock_timedrdlock, caller);
	return rc;
}

PPA_EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *restrict l, const struct timespec *restrict at)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	int err;

	if (!ppa_contention_is_on() || !is_sane(CLOCK_REALTIME, at))
		return real->rwlock_timedrdlock(l, at);
	err = real->rwlock_tryrdlock(l);
	return ppa_likely(err != EBUSY) ? err : timedrdlock_busy(l, at, CALLER);
}

static SLOW int clockrdlock_busy(pthread_rwlock_t *l, clockid_t clock, const struct timespec *at, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->rwlock_clockrdlock(l, clock, at);
	ppa_wait_begin(&w, l, PPA_PARKED_RWLOCK_READ, l);
	ppa_parked_enter(PPA_PARKED_RWLOCK_READ, l, w.begin_ns);
	rc = real->rwlock_clockrdlock(l, clock, at);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->rwlock_clockrdlock, caller);
	return rc;
}

PPA_EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *restrict l, clockid_t clock,
					  const struct timespec *restrict at)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	int err;

	if (!ppa_contention_is_on() || !is_sane(clock, at))
		return real->rwlock_clockrdlock(l, clock, at);
	err = real->rwlock_tryrdlock(l);
	return ppa_likely(err != EBUSY) ? err : clockrdlock_busy(l, clock, at, CALLER);
}

/* ---- writing ---- */

static SLOW int wrlock_busy(pthread_rwlock_t *l, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->rwlock_wrlock(l);
	ppa_wait_begin(&w, l, PPA_PARKED_RWLOCK_WRITE, l);
	ppa_parked_enter(PPA_PARKED_RWLOCK_WRITE, l, w.begin_ns);
	rc = real->rwlock_wrlock(l);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->rwlock_wrlock, caller);
	return rc;
}

static int wrlock_measured(pthread_rwlock_t *l)
{
	int err = ppa_lock_table.rwlock_trywrlock(l);

	return ppa_likely(err != EBUSY) ? err : wrlock_busy(l, CALLER);
}

static SLOW int timedwrlock_busy(pthread_rwlock_t *l, const struct timespec *at, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->rwlock_timedwrlock(l, at);
	ppa_wait_begin(&w, l, PPA_PARKED_RWLOCK_WRITE, l);
	ppa_parked_enter(PPA_PARKED_RWLOCK_WRITE, l, w.begin_ns);
	rc = real->rwlock_timedwrlock(l, at);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->rwlock_timedwrlock, caller);
	return rc;
}

PPA_EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *restrict l, const struct timespec *restrict at)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	int err;

	if (!ppa_contention_is_on() || !is_sane(CLOCK_REALTIME, at))
		return real->rwlock_timedwrlock(l, at);
	err = real->rwlock_trywrlock(l);
	return ppa_likely(err != EBUSY) ? err : timedwrlock_busy(l, at, CALLER);
}

static SLOW int clockwrlock_busy(pthread_rwlock_t *l, clockid_t clock, const struct timespec *at, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->rwlock_clockwrlock(l, clock, at);
	ppa_wait_begin(&w, l, PPA_PARKED_RWLOCK_WRITE, l);
	ppa_parked_enter(PPA_PARKED_RWLOCK_WRITE, l, w.begin_ns);
	rc = real->rwlock_clockwrlock(l, clock, at);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(rc), (uintptr_t)real->rwlock_clockwrlock, caller);
	return rc;
}

PPA_EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *restrict l, clockid_t clock,
					  const struct timespec *restrict at)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	int err;

	if (!ppa_contention_is_on() || !is_sane(clock, at))
		return real->rwlock_clockwrlock(l, clock, at);
	err = real->rwlock_trywrlock(l);
	return ppa_likely(err != EBUSY) ? err : clockwrlock_busy(l, clock, at, CALLER);
}

/* ---- either ---- */

static SLOW int unlock_watched(pthread_rwlock_t *l, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_releasing r;
	bool is_kept = ppa_release_begin(&r, l, true);
	int err = real->rwlock_unlock(l);

	if (is_kept)
		ppa_release_end(&r, !err, (uintptr_t)real->rwlock_unlock, caller);
	return err;
}

static int unlock_measured(pthread_rwlock_t *l)
{
	if (ppa_unlikely(ppa_contended_is_watched(l)))
		return unlock_watched(l, CALLER);
	return ppa_lock_table.rwlock_unlock(l);
}

/* ---- the ways in, as for mutexes ---- */

static int rdlock_early(pthread_rwlock_t *l)
{
	return ppa_lock_real()->rwlock_rdlock(l);
}

static int wrlock_early(pthread_rwlock_t *l)
{
	return ppa_lock_real()->rwlock_wrlock(l);
}

static int unlock_early(pthread_rwlock_t *l)
{
	return ppa_lock_real()->rwlock_unlock(l);
}

static struct {
	int (*_Atomic rdlock)(pthread_rwlock_t *);
	int (*_Atomic wrlock)(pthread_rwlock_t *);
	int (*_Atomic unlock)(pthread_rwlock_t *);
} way = {rdlock_early, wrlock_early, unlock_early};

static void turn(bool is_on)
{
	const struct ppa_lock_real *real = ppa_lock_real();

	atomic_store_explicit(&way.unlock, is_on ? unlock_measured : real->rwlock_unlock, memory_order_relaxed);
	atomic_store_explicit(&way.rdlock, is_on ? rdlock_measured : real->rwlock_rdlock, memory_order_relaxed);
	atomic_store_explicit(&way.wrlock, is_on ? wrlock_measured : real->rwlock_wrlock, memory_order_relaxed);
}

__attribute__((constructor)) static void resolve(void)
{
	ppa_contention_on_turn(turn);
}

PPA_EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *l)
{
	return atomic_load_explicit(&way.rdlock, memory_order_relaxed)(l);
}

PPA_EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *l)
{
	return atomic_load_explicit(&way.wrlock, memory_order_relaxed)(l);
}

PPA_EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *l)
{
	return atomic_load_explicit(&way.unlock, memory_order_relaxed)(l);
}
