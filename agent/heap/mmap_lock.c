/* SPDX-License-Identifier: Apache-2.0
 *
 * States as in agent/base/lock.h: 0 free, 1 held, 2 held with waiters. Waiting happens with the thread's own signal
 * mask: a handler may run meanwhile, and take the lock itself. */
#include "agent/heap/mmap_lock.h"

#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/self.h"
#include "agent/base/sys.h"

enum { KERNEL_SIGSET_BYTES = 8, SPINS = 100 };

static struct {
	_Atomic int state;
	_Atomic bool is_stuck;	   /* somebody waited in vain since it was last released */
	_Atomic uintptr_t forking; /* the thread that holds it for a fork */
} lock;

/* What tells threads apart without a system call; the same in the child of a fork. */
PPA_CTX_MALLOC static uintptr_t me(void)
{
	return (uintptr_t)&ppa_self;
}

PPA_CTX_MALLOC static bool is_mine(void)
{
	return atomic_load_explicit(&lock.forking, memory_order_relaxed) == me();
}

PPA_CTX_MALLOC static void block_signals(uint64_t *mask)
{
	static const uint64_t all = ~0ULL;

	ppa_syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)mask, KERNEL_SIGSET_BYTES, 0, 0);
}

PPA_CTX_MALLOC static void restore_signals(uint64_t mask)
{
	ppa_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, KERNEL_SIGSET_BYTES, 0, 0);
}

PPA_CTX_MALLOC static bool try_first(void)
{
	int seen = 0;

	return atomic_compare_exchange_strong_explicit(&lock.state, &seen, 1, memory_order_acquire,
						       memory_order_relaxed);
}

/* Most holders are done in the time a sleep would take to begin. */
PPA_CTX_MALLOC static void spin(void)
{
	for (int i = 0; i < SPINS; i++)
		if (!atomic_load_explicit(&lock.state, memory_order_relaxed))
			return;
}

PPA_CTX_MALLOC static __attribute__((noinline)) bool wait_for_it(uint64_t *mask)
{
	uint64_t deadline, now;
	struct timespec left = {0};

	if (atomic_load_explicit(&lock.is_stuck, memory_order_relaxed))
		return false;
	deadline = ppa_sys_clock_ns(CLOCK_MONOTONIC) + PPA_MMAP_PATIENCE_NS;
	spin();
	for (;;) {
		block_signals(mask);
		/* 2: there may be others who wait. acquire: pairs with the release of the last holder. */
		if (!atomic_exchange_explicit(&lock.state, 2, memory_order_acquire))
			return true;
		restore_signals(*mask);
		now = ppa_sys_clock_ns(CLOCK_MONOTONIC);
		if (now >= deadline)
			break;
		left.tv_nsec = (long)(deadline - now);
		ppa_syscall(SYS_futex, (long)&lock.state, FUTEX_WAIT_PRIVATE, 2, (long)&left, 0, 0);
	}
	atomic_store_explicit(&lock.is_stuck, true, memory_order_relaxed);
	return false;
}

bool ppa_mmap_lock(uint64_t *mask)
{
	block_signals(mask);
	if (ppa_likely(try_first()) || is_mine())
		return true;
	restore_signals(*mask);
	return wait_for_it(mask);
}

PPA_CTX_MALLOC static void release(void)
{
	if (ppa_unlikely(atomic_load_explicit(&lock.is_stuck, memory_order_relaxed)))
		atomic_store_explicit(&lock.is_stuck, false, memory_order_relaxed);
	/* release: what we changed is seen by the next holder. */
	if (atomic_exchange_explicit(&lock.state, 0, memory_order_release) == 2)
		ppa_syscall(SYS_futex, (long)&lock.state, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

void ppa_mmap_unlock(uint64_t mask)
{
	if (ppa_likely(!is_mine()))
		release();
	restore_signals(mask);
}

bool ppa_mmap_lock_for_fork(void)
{
	uint64_t mask;

	if (is_mine() || !ppa_mmap_lock(&mask))
		return false;
	atomic_store_explicit(&lock.forking, me(), memory_order_relaxed);
	restore_signals(mask);
	return true;
}

void ppa_mmap_unlock_after_fork(void)
{
	uint64_t mask;

	block_signals(&mask);
	atomic_store_explicit(&lock.forking, 0, memory_order_relaxed);
	release();
	restore_signals(mask);
}

void ppa_mmap_lock_reset(void)
{
	atomic_store_explicit(&lock.forking, 0, memory_order_relaxed);
	atomic_store_explicit(&lock.is_stuck, false, memory_order_relaxed);
	atomic_store_explicit(&lock.state, 0, memory_order_relaxed);
}
