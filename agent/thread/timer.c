/* SPDX-License-Identifier: Apache-2.0
 *
 * The value of a timer: a magic number, the slot's generation, its index. 16 + 16 + 32 bits. */
#include "agent/thread/timer.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/sampling_signal.h"
#include "agent/base/stats.h"
#include "agent/base/sys.h"
#include "agent/profile/random.h"
#include "agent/thread/threads.h"

/* struct sigevent as the kernel reads it on 64-bit processors; libc's hides the thread id behind varying names. */
struct kernel_sigevent {
	uint64_t value;
	int signo;
	int notify;
	int tid;
	char pad[44];
};
_Static_assert(sizeof(struct kernel_sigevent) == 64, "include/uapi/asm-generic/siginfo.h, SIGEV_MAX_SIZE");

enum { NOTIFY_THREAD_ID = 4, STACK_BYTES_MIN = 12 << 10 };
#define MAGIC 0x9ba7ULL

static _Atomic int last_error;

static uint64_t pack(const struct ppa_thread *t)
{
	uint64_t generation = atomic_load_explicit(&t->generation, memory_order_relaxed) & PPA_TIMER_GENERATION_MASK;

	return MAGIC << 48 | generation << 32 | ppa_threads_index(t);
}

bool ppa_timer_unpack(uint64_t value, uint32_t *index, uint32_t *generation)
{
	*index = (uint32_t)value;
	*generation = (uint32_t)(value >> 32) & PPA_TIMER_GENERATION_MASK;
	return value >> 48 == MAGIC;
}

int ppa_timer_make(pid_t tid, uint64_t value)
{
	struct kernel_sigevent ev = {
		.value = value, .signo = ppa_signal_number(), .notify = NOTIFY_THREAD_ID, .tid = tid};
	int id = -1;
	long err = ppa_syscall(SYS_timer_create, ppa_sys_thread_clock(tid), (long)&ev, (long)&id, 0, 0, 0);

	return err ? (int)err : id;
}

static int create(struct ppa_thread *t)
{
	int id = ppa_timer_make(atomic_load_explicit(&t->tid, memory_order_relaxed), pack(t));

	if (id < 0)
		return id;
	t->timer_id = id;
	t->signal_generation = ppa_signal_generation();
	return 0;
}

static void arm(struct ppa_thread *t, uint64_t period_ns)
{
	struct itimerspec its;
	bool is_drawn = t->first_period_ns == period_ns;
	uint64_t first = is_drawn ? t->first_ns : 1 + ppa_random_below(period_ns);

	its.it_interval.tv_sec = (time_t)(period_ns / 1000000000ULL);
	its.it_interval.tv_nsec = (long)(period_ns % 1000000000ULL);
	its.it_value.tv_sec = (time_t)(first / 1000000000ULL);
	its.it_value.tv_nsec = (long)(first % 1000000000ULL);
	/* Before the timer can fire: the handler weighs with it. */
	atomic_store_explicit(&t->period_ns, period_ns, memory_order_relaxed);
	t->first_period_ns = 0;
	ppa_syscall(SYS_timer_settime, t->timer_id, is_drawn ? TIMER_ABSTIME : 0, (long)&its, 0, 0, 0);
}

void ppa_timer_delete(struct ppa_thread *t)
{
	if (t->timer_id >= 0)
		ppa_syscall(SYS_timer_delete, t->timer_id, 0, 0, 0, 0, 0);
	t->timer_id = -1;
	atomic_store_explicit(&t->period_ns, 0, memory_order_relaxed);
}

/* A signal takes 3.3 KiB of stack for its frame (AVX-512) and up to 1.5 for our handler. glibc allows no stack this small,
 * musl's least is 2 KiB, on which no handler at all could run. */
bool ppa_timer_is_stack_too_small(const struct ppa_thread *t)
{
	return t->stack_bytes && t->stack_bytes < STACK_BYTES_MIN;
}

/* A thread that ended under our hands is no failure: the scan retires it, and there is nothing to tell anyone. */
static bool is_gone(const struct ppa_thread *t)
{
	pid_t tid = atomic_load_explicit(&t->tid, memory_order_relaxed);

	return ppa_syscall(SYS_tgkill, ppa_sys_getpid(), tid, 0, 0, 0, 0) == -ESRCH;
}

void ppa_timer_set(struct ppa_thread *t, uint64_t period_ns)
{
	int err;

	if (t->timer_id >= 0 && t->signal_generation != ppa_signal_generation())
		ppa_timer_delete(t);
	if (period_ns == 0) {
		ppa_timer_delete(t);
		t->timer_failed = false;
		return;
	}
	if (t->timer_id >= 0) {
		if (atomic_load_explicit(&t->period_ns, memory_order_relaxed) != period_ns)
			arm(t, period_ns);
		return;
	}
	if (ppa_timer_is_stack_too_small(t)) {
		if (!t->timer_failed)
			ppa_stat_add(PPA_STAT_TIMER_FAILED, 1);
		t->timer_failed = true;
		return;
	}
	err = create(t);
	if (err == 0) {
		t->timer_failed = false;
		arm(t, period_ns);
		return;
	}
	if (err == -EINVAL && is_gone(t))
		return;
	if (!t->timer_failed)
		ppa_stat_add(PPA_STAT_TIMER_FAILED, 1);
	t->timer_failed = true;
	atomic_store_explicit(&last_error, -err, memory_order_relaxed);
}

int ppa_timer_last_error(void)
{
	return atomic_exchange_explicit(&last_error, 0, memory_order_relaxed);
}
