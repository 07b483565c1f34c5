/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals, broadcasts and posts: who lets others go on. Said to the trace, if one is recorded and somebody waits; else
 * each hook is one look and a jump. sem_post may be called in handlers. */
#include <pthread.h>
#include <semaphore.h>
#include <threads.h>

#include "agent/hook/lock_real.h"
#include "agent/trace/trace.h"

#define CALLER ((uintptr_t)__builtin_return_address(0))

PPA_EXPORT int pthread_cond_signal(pthread_cond_t *c)
{
	const struct ppa_lock_real *real = ppa_lock_real();

	if (ppa_unlikely(ppa_trace_is_watched(c)))
		ppa_trace_wake(c, false, (uintptr_t)real->cond_signal, CALLER);
	return real->cond_signal(c);
}

PPA_EXPORT int pthread_cond_broadcast(pthread_cond_t *c)
{
	const struct ppa_lock_real *real = ppa_lock_real();

	if (ppa_unlikely(ppa_trace_is_watched(c)))
		ppa_trace_wake(c, true, (uintptr_t)real->cond_broadcast, CALLER);
	return real->cond_broadcast(c);
}

PPA_EXPORT int cnd_signal(cnd_t *c)
{
	const struct ppa_lock_real *real = ppa_lock_real();

	if (ppa_unlikely(ppa_trace_is_watched(c)))
		ppa_trace_wake(c, false, (uintptr_t)real->cnd_signal, CALLER);
	return real->cnd_signal(c);
}

PPA_EXPORT int cnd_broadcast(cnd_t *c)
{
	const struct ppa_lock_real *real = ppa_lock_real();

	if (ppa_unlikely(ppa_trace_is_watched(c)))
		ppa_trace_wake(c, true, (uintptr_t)real->cnd_broadcast, CALLER);
	return real->cnd_broadcast(c);
}

PPA_EXPORT int sem_post(sem_t *s)
{
	const struct ppa_lock_real *real = ppa_lock_real();

	if (ppa_unlikely(ppa_trace_is_watched(s)))
		ppa_trace_wake(s, false, (uintptr_t)real->sem_post, CALLER);
	return real->sem_post(s);
}
