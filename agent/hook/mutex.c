/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutexes of every kind. Off, a hook is a jump to the genuine function; on (that of lock is in mutex_x86_64.h):
 *
 *   lock    tries it first: only EBUSY means waiting, every other answer is the answer, EOWNERDEAD and a recursive lock
 *           included, because the lock is held by then. (To look first whether the mutex is free would cost less, and miss
 *           who is overtaken in between; see mutex_x86_64.h.) Robust ones are looked at: glibc's try leaves one that is
 *           beyond repair with the word of a lock in it
 *   unlock  does anybody wait for a lock like this one? Nobody asks before somebody has waited for any: until then an
 *           unlock goes straight on, as it does when nothing is measured, and most programs with one thread never leave
 *           that state
 *
 * trylock never waits and is left alone. A wait that fails at once (EDEADLK) is none. The innermost unlock of a recursive
 * mutex alone releases it. */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "agent/base/self.h"
#include "agent/base/static_call.h"
#include "agent/hook/lock_real.h"
#include "agent/hook/mutex.h"
#if defined(__x86_64__)
#include "agent/hook/mutex_x86_64.h"
#endif
#include "agent/lock/contention.h"
#include "agent/thread/parked.h"

#define CALLER ((uintptr_t)__builtin_return_address(0))
#define SLOW __attribute__((noinline, cold))

extern const char *gnu_get_libc_version(void) __attribute__((weak));

/* ---- the ways in ---- */

static int lock_early(pthread_mutex_t *m);
static int unlock_early(pthread_mutex_t *m);
static int unlock_measured(pthread_mutex_t *m);

/* Where a call goes: to the genuine functions when there is nothing to look at, so that this costs no look. */
struct way {
	/* In this order: the hook of lock is written in assembly. */
	int (*_Atomic lock)(pthread_mutex_t *);
	int (*_Atomic attempt)(pthread_mutex_t *); /* where that hook was patched: EBUSY from it means waiting */
	int (*_Atomic unlock)(pthread_mutex_t *);
};
extern struct way ppa_mutex_way __attribute__((visibility("hidden")));
struct way ppa_mutex_way = {lock_early, lock_early, unlock_early};
_Static_assert(offsetof(struct way, lock) == 0 && offsetof(struct way, attempt) == 8 && EBUSY == 16 &&
		       PPA_GLIBC_KIND_AT == 16 && PPA_GLIBC_ROBUST == 16,
	       "what the assembly knows");

static _Atomic bool has_waited; /* somebody, for a mutex, while that was measured */

PPA_EXPORT int pthread_mutex_unlock(pthread_mutex_t *m)
{
	return atomic_load_explicit(&ppa_mutex_way.unlock, memory_order_relaxed)(m);
}

/* Where the hook of lock leads, with its caller. Context: any. */
int ppa_mutex_taken(pthread_mutex_t *m, uintptr_t caller) PPA_CTX_ANY __attribute__((visibility("hidden")));
int ppa_mutex_robust(pthread_mutex_t *m, uintptr_t caller) PPA_CTX_ANY __attribute__((visibility("hidden")));

/* A waiter is registered: from now on unlocks look. Each waiter says so before it asks for the lock again, which is a
 * locked instruction: whoever holds it sees this, or was about to release it anyway. */
static void have_unlocks_look(const struct ppa_wait *w)
{
	if (!w->is_for_lock || atomic_load_explicit(&ppa_mutex_way.unlock, memory_order_relaxed) == unlock_measured)
		return;
	atomic_store_explicit(&has_waited, true, memory_order_relaxed);
	atomic_store_explicit(&ppa_mutex_way.unlock, unlock_measured, memory_order_relaxed);
}

/* ---- lock ---- */

static enum ppa_wait_outcome outcome_of(int err)
{
	switch (err) {
	case 0:
	case EOWNERDEAD:
		return PPA_WAIT_GOT;
	case ETIMEDOUT:
	case ENOTRECOVERABLE: /* the try would have said so already: its holder gave it up meanwhile */
		return PPA_WAIT_VAIN;
	default:
		return PPA_WAIT_REFUSED;
	}
}

SLOW int ppa_mutex_taken(pthread_mutex_t *m, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int err;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->mutex_lock(m);
	ppa_wait_begin(&w, m, PPA_PARKED_MUTEX, m);
	have_unlocks_look(&w);
	ppa_parked_enter(PPA_PARKED_MUTEX, m, w.begin_ns);
	err = real->mutex_lock(m);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(err), (uintptr_t)real->mutex_lock, caller);
	return err;
}

/* Wrong at worst about what is measured. */
static bool looks_taken(const pthread_mutex_t *m)
{
	uint64_t words;

	memcpy(&words, m, sizeof(words));
	return (words & ppa_lock_table.taken) != 0;
}

/* at: where its kind stands, in bytes; robust: the bit that says so. */
static inline __attribute__((always_inline)) bool is_robust_by(const pthread_mutex_t *m, size_t at, uint32_t robust)
{
	uint32_t kind;

	memcpy(&kind, (const char *)m + at, sizeof(kind));
	return kind & robust;
}

static bool is_robust(const pthread_mutex_t *m)
{
	return gnu_get_libc_version ? is_robust_by(m, PPA_GLIBC_KIND_AT, PPA_GLIBC_ROBUST)
				    : is_robust_by(m, PPA_MUSL_KIND_AT, PPA_MUSL_ROBUST);
}

/* May this mutex be tried before it is locked, with the same result? */
static bool may_be_tried(const pthread_mutex_t *m)
{
	return !is_robust(m) || looks_taken(m);
}

SLOW int ppa_mutex_robust(pthread_mutex_t *m, uintptr_t caller)
{
	int err;

	if (!looks_taken(m) || !ppa_contention_is_on())
		return ppa_lock_table.mutex_lock(m);
	err = ppa_lock_table.mutex_trylock(m);
	return err == EBUSY ? ppa_mutex_taken(m, caller) : err;
}

/* As the hook itself does where it is patched. */
static int lock_measured(pthread_mutex_t *m)
{
	int err;

	if (ppa_unlikely(is_robust(m)))
		return ppa_mutex_robust(m, CALLER);
	err = ppa_lock_table.mutex_trylock(m);
	if (ppa_unlikely(err == EBUSY))
		return ppa_mutex_taken(m, CALLER);
	return err;
}

/* A time that is none may be refused though the lock could be had (by the kernel, for some kinds). */
static bool is_sane(const struct timespec *at)
{
	return at && (uint64_t)at->tv_nsec < 1000000000;
}

static SLOW int timedlock_taken(pthread_mutex_t *m, const struct timespec *at, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int err;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->mutex_timedlock(m, at);
	ppa_wait_begin(&w, m, PPA_PARKED_MUTEX, m);
	have_unlocks_look(&w);
	ppa_parked_enter(PPA_PARKED_MUTEX, m, w.begin_ns);
	err = real->mutex_timedlock(m, at);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(err), (uintptr_t)real->mutex_timedlock, caller);
	return err;
}

PPA_EXPORT int pthread_mutex_timedlock(pthread_mutex_t *restrict m, const struct timespec *restrict at)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	int err;

	if (!ppa_contention_is_on() || !is_sane(at) || !may_be_tried(m))
		return real->mutex_timedlock(m, at);
	err = real->mutex_trylock(m);
	if (ppa_unlikely(err == EBUSY))
		return timedlock_taken(m, at, CALLER);
	return err;
}

static SLOW int clocklock_taken(pthread_mutex_t *m, clockid_t clock, const struct timespec *at, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int err;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->mutex_clocklock(m, clock, at);
	ppa_wait_begin(&w, m, PPA_PARKED_MUTEX, m);
	have_unlocks_look(&w);
	ppa_parked_enter(PPA_PARKED_MUTEX, m, w.begin_ns);
	err = real->mutex_clocklock(m, clock, at);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(err), (uintptr_t)real->mutex_clocklock, caller);
	return err;
}

PPA_EXPORT int pthread_mutex_clocklock(pthread_mutex_t *restrict m, clockid_t clock, const struct timespec *restrict at)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	int err;

	/* A clock that it does not know is refused before the lock is tried. */
	if (!ppa_contention_is_on() || !is_sane(at) || !may_be_tried(m) ||
	    (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC))
		return real->mutex_clocklock(m, clock, at);
	err = real->mutex_trylock(m);
	if (ppa_unlikely(err == EBUSY))
		return clocklock_taken(m, clock, at, CALLER);
	return err;
}

/* ---- unlock ---- */

/* Only about what is measured, as above: the layouts are part of either libc's ABI. */
static bool stays_locked(const pthread_mutex_t *m)
{
	const int *words = (const int *)m;
	enum { KIND_MASK = 3, RECURSIVE = 1 };

	if (gnu_get_libc_version) {
#ifdef __GLIBC__
		return (m->__data.__kind & KIND_MASK) == PTHREAD_MUTEX_RECURSIVE && m->__data.__count > 1;
#endif
	}
	/* musl: type, lock, then waiters and the count of further locks. */
	return (words[0] & KIND_MASK) == RECURSIVE && words[5] > 0;
}

/* The word of a plain mutex says so itself: whoever sleeps has made it 2. */
static bool may_have_sleepers(const pthread_mutex_t *m)
{
#ifdef __GLIBC__
	enum { PLAIN_KINDS = 3, ADAPTIVE = 3 };

	if (gnu_get_libc_version && (m->__data.__kind & 0x7f & ~PLAIN_KINDS) == 0 && (m->__data.__kind & 3) != ADAPTIVE)
		return m->__data.__lock != 1;
#endif
	return true;
}

static SLOW int unlock_watched(pthread_mutex_t *m, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_releasing r;
	bool is_kept = !stays_locked(m) && ppa_release_begin(&r, m, may_have_sleepers(m));
	int err = real->mutex_unlock(m);

	if (is_kept)
		ppa_release_end(&r, !err, (uintptr_t)real->mutex_unlock, caller);
	return err;
}

static int unlock_measured(pthread_mutex_t *m)
{
	if (ppa_unlikely(ppa_contended_is_watched(m)))
		return unlock_watched(m, CALLER);
	return ppa_lock_table.mutex_unlock(m);
}

/* ---- before and at the start, and when measuring begins and ends ---- */

static int lock_early(pthread_mutex_t *m)
{
	if (!ppa_lock_table.mutex_lock)
		ppa_lock_resolve_mutex();
	return ppa_lock_table.mutex_lock(m);
}

static int unlock_early(pthread_mutex_t *m)
{
	if (!ppa_lock_table.mutex_unlock)
		ppa_lock_resolve_mutex();
	return ppa_lock_table.mutex_unlock(m);
}

static void turn(bool is_on)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	int (*early)(pthread_mutex_t *) = unlock_early;

	/* A first waiter may come at this moment: what it has stored stays. */
	if (!is_on)
		atomic_store_explicit(&ppa_mutex_way.unlock, real->mutex_unlock, memory_order_relaxed);
	else if (atomic_load_explicit(&has_waited, memory_order_relaxed))
		atomic_store_explicit(&ppa_mutex_way.unlock, unlock_measured, memory_order_relaxed);
	else
		atomic_compare_exchange_strong_explicit(&ppa_mutex_way.unlock, &early, real->mutex_unlock,
							memory_order_relaxed, memory_order_relaxed);
	atomic_store_explicit(&ppa_mutex_way.attempt, is_on ? real->mutex_trylock : real->mutex_lock,
			      memory_order_relaxed);
	atomic_store_explicit(&ppa_mutex_way.lock, is_on ? lock_measured : real->mutex_lock, memory_order_relaxed);
}

void ppa_mutex_attempt_at_once(void)
{
	if (gnu_get_libc_version && ppa_contention_is_on())
		ppa_static_entries_patch();
}

__attribute__((constructor)) static void resolve(void)
{
	ppa_contention_on_turn(turn);
}
