/* SPDX-License-Identifier: Apache-2.0
 *
 * A gate tells helpers whether there is something to do: a flag, and beside it how many are inside. The caller shuts it
 * when no item is left, and waits until nobody is inside. A helper that comes later finds it shut, or open for the next
 * job, which is as good. */
#include "agent/base/crew.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/sys.h"
#include "agent/base/thread.h"

enum { HELPER_STACK_BYTES = 64 << 10 };
#define OPEN (UINT32_C(1) << 31)

static struct {
	_Atomic uint32_t gate; /* OPEN, and the number of helpers inside; a futex */
	/* set while it is shut and nobody is inside */
	const struct ppa_crew_job *job;
	_Atomic uint32_t next_hand;
	_Atomic size_t next_item;
	_Atomic uint64_t cpu_ns; /* of helpers that are done */
} crew;

static void work_off(const struct ppa_crew_job *job, unsigned hand)
{
	for (;;) {
		size_t from = atomic_fetch_add_explicit(&crew.next_item, job->take, memory_order_relaxed);
		size_t to = from + job->take < job->nitems ? from + job->take : job->nitems;

		if (from >= job->nitems)
			return;
		for (size_t i = from; i < to; i++)
			job->work(job->arg, hand, i);
	}
}

static void *help(void *unused)
{
	uint32_t seen = atomic_load_explicit(&crew.gate, memory_order_relaxed), hand;

	(void)unused;
	do {
		if (!(seen & OPEN))
			return NULL;
		/* acquire: the job is written; pairs with the release in ppa_crew_run. */
	} while (!atomic_compare_exchange_weak_explicit(&crew.gate, &seen, seen + 1, memory_order_acquire,
							memory_order_relaxed));
	hand = atomic_fetch_add_explicit(&crew.next_hand, 1, memory_order_relaxed);
	if (hand < PPA_CREW_MAX)
		work_off(crew.job, hand);
	atomic_fetch_add_explicit(&crew.cpu_ns, ppa_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID), memory_order_relaxed);
	/* release: what was done; pairs with the acquire of the wait. */
	if (atomic_fetch_sub_explicit(&crew.gate, 1, memory_order_release) == 1)
		ppa_syscall(SYS_futex, (long)&crew.gate, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
	return NULL;
}

uint64_t ppa_crew_run(const struct ppa_crew_job *job, unsigned nhelpers)
{
	uint32_t inside;

	crew.job = job;
	atomic_store_explicit(&crew.next_hand, 1, memory_order_relaxed);
	atomic_store_explicit(&crew.next_item, 0, memory_order_relaxed);
	atomic_store_explicit(&crew.cpu_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&crew.gate, OPEN, memory_order_release);
	for (unsigned i = 0; i < nhelpers; i++)
		if (ppa_thread_spawn(help, NULL, HELPER_STACK_BYTES, "pprof-helper"))
			break;
	work_off(job, 0);
	atomic_fetch_and_explicit(&crew.gate, ~OPEN, memory_order_relaxed);
	while ((inside = atomic_load_explicit(&crew.gate, memory_order_acquire)))
		ppa_syscall(SYS_futex, (long)&crew.gate, FUTEX_WAIT_PRIVATE, (long)inside, 0, 0, 0);
	return atomic_load_explicit(&crew.cpu_ns, memory_order_relaxed);
}

void ppa_crew_reset(void)
{
	atomic_store_explicit(&crew.gate, 0, memory_order_relaxed);
}
