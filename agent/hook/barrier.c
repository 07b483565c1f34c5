/* SPDX-License-Identifier: Apache-2.0
 *
 * Barriers: charged to whoever waits for the others; the last to come hardly does.
 */
#include <pthread.h>

#include "agent/base/self.h"
#include "agent/hook/lock_real.h"
#include "agent/lock/contention.h"
#include "agent/thread/parked.h"

#define CALLER ((uintptr_t)__builtin_return_address(0))
#define SLOW __attribute__((noinline, cold))

static SLOW int wait_at(pthread_barrier_t *b, uintptr_t caller)
{
	const struct ppa_lock_real *real = ppa_lock_real();
	struct ppa_wait w;
	int rc;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_self.is_ours)
		return real->barrier_wait(b);
	ppa_wait_begin(&w, NULL, PPA_PARKED_BARRIER, b);
	ppa_parked_enter(PPA_PARKED_BARRIER, b, w.begin_ns);
	rc = real->barrier_wait(b);
	ppa_parked_leave();
	ppa_wait_end(&w, !rc || rc == PTHREAD_BARRIER_SERIAL_THREAD ? PPA_WAIT_GOT : PPA_WAIT_REFUSED,
		     (uintptr_t)real->barrier_wait, caller);
	return rc;
}

PPA_EXPORT int pthread_barrier_wait(pthread_barrier_t *b)
{
	if (!ppa_contention_is_on())
		return ppa_lock_real()->barrier_wait(b);
	return wait_at(b, CALLER);
}
