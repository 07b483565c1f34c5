/* SPDX-License-Identifier: Apache-2.0
 *
 * syscall(), because the standard library of Rust, Abseil and others wait by syscall(SYS_futex, ...). A futex says
 * nothing of locks and holders: the wait is charged to the waiter alone.
 *
 * Every other call passes by untouched, whatever its number is (vfork, clone, one that does not exist yet). */
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "agent/base/self.h"
#include "agent/base/sys.h"
#include "agent/hook/syscall_x86_64.h"
#include "agent/lock/contention.h"
#include "agent/thread/parked.h"
#include "agent/trace/trace.h"

/* Not in every kernel's headers. */
enum { LOCK_PI2 = 13 };

/* Until the constructor has run. */
static long early_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	long r = ppa_syscall(nr, a, b, c, d, e, f);

	if (r < 0 && r > -4096) {
		errno = (int)-r;
		return -1;
	}
	return r;
}

extern long (*ppa_real_syscall)(long, long, long, long, long, long, long) __attribute__((visibility("hidden")));
long (*ppa_real_syscall)(long, long, long, long, long, long, long) = early_syscall;

__attribute__((constructor)) static void resolve(void)
{
	int saved = errno;
	void *p = dlsym(RTLD_NEXT, "syscall");

	if (p)
		*(void **)&ppa_real_syscall = p;
	errno = saved;
}

static bool waits(long nr, long op)
{
	if (nr != SYS_futex)
		return true; /* futex_waitv */
	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
	case FUTEX_WAIT_REQUEUE_PI:
	case FUTEX_LOCK_PI:
	case LOCK_PI2:
		return true;
	default:
		return false;
	}
}

static bool wakes(long nr, long op)
{
	if (nr != SYS_futex)
		return false;
	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
	case FUTEX_WAKE_OP:
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
	case FUTEX_UNLOCK_PI:
		return true;
	default:
		return false;
	}
}

/* Most say how many; there are none where nobody slept. */
static bool has_woken(long op, long r)
{
	return (op & FUTEX_CMD_MASK) == FUTEX_UNLOCK_PI ? r == 0 : r > 0;
}

static enum ppa_wait_outcome outcome_of(long r)
{
	if (r >= 0)
		return PPA_WAIT_GOT;
	return errno == ETIMEDOUT || errno == EINTR ? PPA_WAIT_VAIN : PPA_WAIT_REFUSED;
}

/* The last argument may not be there: it is read, as libc reads it, and never written. So nothing here may become a
 * jump with the caller's arguments. */
long ppa_hook_futex(long nr, long a, long b, long c, long d, long e, long f)
	__attribute__((visibility("hidden"), optimize("no-optimize-sibling-calls")));
long ppa_hook_futex(long nr, long a, long b, long c, long d, long e, long f)
{
	struct ppa_wait w;
	uint64_t at;
	long r;

	PPA_WAIT_MAY_UNWIND();
	if (ppa_unlikely(ppa_trace_is_watched((const void *)a)) && wakes(nr, b)) {
		at = ppa_trace_waking();
		r = ppa_real_syscall(nr, a, b, c, d, e, f);
		if (has_woken(b, r))
			ppa_trace_woke((const void *)a, at, c != 1, (uintptr_t)ppa_real_syscall,
				       (uintptr_t)__builtin_return_address(0));
		return r;
	}
	if (!waits(nr, b) || !ppa_contention_is_on() || ppa_self.is_ours)
		return ppa_real_syscall(nr, a, b, c, d, e, f);
	ppa_wait_begin(&w, NULL, PPA_PARKED_FUTEX, (const void *)a);
	ppa_parked_enter(PPA_PARKED_FUTEX, (const void *)a, w.begin_ns);
	r = ppa_real_syscall(nr, a, b, c, d, e, f);
	ppa_parked_leave();
	ppa_wait_end(&w, outcome_of(r), (uintptr_t)ppa_real_syscall, (uintptr_t)__builtin_return_address(0));
	return r;
}
