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

void ppa_mmap_block(uint64_t *mask)
{
	static const uint64_t all = ~0ULL;

	ppa_syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)mask, KERNEL_SIGSET_BYTES, 0, 0);
}

void ppa_mmap_unblock(uint64_t mask)
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

PPA_CTX_MALLOC static __attribute__((noinline)) bool wait_for_it(uint64_t mask)
{
	uint64_t deadline, now;
	struct timespec left = {0};

	if (atomic_load_explicit(&lock.is_stuck, memory_order_relaxed))
		return false;
	deadline = ppa_sys_clock_ns(CLOCK_MONOTONIC) + PPA_MMAP_PATIENCE_NS;
	spin();
	/* 2: there may be others who wait. acquire: pairs with the release of the last holder. */
	while (atomic_exchange_explicit(&lock.state, 2, memory_order_acquire)) {
		now = ppa_sys_clock_ns(CLOCK_MONOTONIC);
		if (now >= deadline) {
			atomic_store_explicit(&lock.is_stuck, true, memory_order_relaxed);
			return false;
		}
		left.tv_nsec = (long)(deadline - now);
		ppa_mmap_unblock(mask);
		ppa_syscall(SYS_futex, (long)&lock.state, FUTEX_WAIT_PRIVATE, 2, (long)&left, 0, 0);
		ppa_mmap_block(&mask);
	}
	return true;
}

bool ppa_mmap_lock(uint64_t mask)
{
	return ppa_likely(try_first()) || is_mine() || wait_for_it(mask);
}

PPA_CTX_MALLOC static void release(void)
{
	if (ppa_unlikely(atomic_load_explicit(&lock.is_stuck, memory_order_relaxed)))
		atomic_store_explicit(&lock.is_stuck, false, memory_order_relaxed);
	/* release: what we changed is seen by the next holder. */
	if (atomic_exchange_explicit(&lock.state, 0, memory_order_release) == 2)
		ppa_syscall(SYS_futex, (long)&lock.state, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

void ppa_mmap_unlock(void)
{
	if (ppa_likely(!is_mine()))
		release();
}

bool ppa_mmap_lock_for_fork(void)
{
	uint64_t mask;
	bool is_had;

	ppa_mmap_block(&mask);
	is_had = !is_mine() && ppa_mmap_lock(mask);
	if (is_had)
		atomic_store_explicit(&lock.forking, me(), memory_order_relaxed);
	ppa_mmap_unblock(mask);
	return is_had;
}

void ppa_mmap_unlock_after_fork(void)
{
	uint64_t mask;

	ppa_mmap_block(&mask);
	atomic_store_explicit(&lock.forking, 0, memory_order_relaxed);
	release();
	ppa_mmap_unblock(mask);
}

void ppa_mmap_lock_reset(void)
{
	atomic_store_explicit(&lock.forking, 0, memory_order_relaxed);
	atomic_store_explicit(&lock.is_stuck, false, memory_order_relaxed);
	atomic_store_explicit(&lock.state, 0, memory_order_relaxed);
}
