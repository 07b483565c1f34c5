/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals, broadcasts and posts: who lets others go on. Said to the trace, if one is recorded and somebody waits; else
 * each hook is one look and a jump. What they wake may be gone when the genuine function returns (a semaphore that its
 * waiter destroys): afterwards only its address is used. sem_post may be called in handlers. */
#include <pthread.h>
#include <semaphore.h>
#include <threads.h>

#include "agent/hook/lock_real.h"
#include "agent/trace/trace.h"

#define CALLER ((uintptr_t)__builtin_return_address(0))
#define SLOW __attribute__((noinline, cold))

/* All of these give 0 for success, thrd_success included. */
static SLOW int told(int (*genuine)(void *), void *object, bool is_all, uintptr_t caller)
{
	uint64_t at = ppa_trace_waking();
	int rc = genuine(object);

	if (!rc)
		ppa_trace_woke(object, at, is_all, (uintptr_t)genuine, caller);
	return rc;
}

/* One pointer to an object in, an int out: every calling convention that we know passes them alike. */
typedef int (*genuine_fn)(void *);

PPA_EXPORT int pthread_cond_signal(pthread_cond_t *c)
{
	const struct ppa_lock_real *real = ppa_lock_real();

	if (ppa_unlikely(ppa_trace_is_watched(c)))
		return told((genuine_fn)real->cond_signal, c, false, CALLER);
	return real->cond_signal(c);
}

PPA_EXPORT int pthread_cond_broadcast(pthread_cond_t *c)
{
	const struct ppa_lock_real *real = ppa_lock_real();

	if (ppa_unlikely(ppa_trace_is_watched(c)))
		return told((genuine_fn)real->cond_broadcast, c, true, CALLER);
	return real->cond_broadcast(c);
}

PPA_EXPORT int cnd_signal(cnd_t *c)
{
	const struct ppa_lock_real *real = ppa_lock_real();

	if (ppa_unlikely(ppa_trace_is_watched(c)))
		return told((genuine_fn)real->cnd_signal, c, false, CALLER);
	return real->cnd_signal(c);
}

PPA_EXPORT int cnd_broadcast(cnd_t *c)
{
	const struct ppa_lock_real *real = ppa_lock_real();

	if (ppa_unlikely(ppa_trace_is_watched(c)))
		return told((genuine_fn)real->cnd_broadcast, c, true, CALLER);
	return real->cnd_broadcast(c);
}

PPA_EXPORT int sem_post(sem_t *s)
{
	const struct ppa_lock_real *real = ppa_lock_real();

	if (ppa_unlikely(ppa_trace_is_watched(s)))
		return told((genuine_fn)real->sem_post, s, false, CALLER);
	return real->sem_post(s);
}
