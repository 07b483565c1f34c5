/* SPDX-License-Identifier: Apache-2.0
 *
 * The handler uses no TLS and no libc but the vdso's clock: everything it needs hangs from the timer's value.
 *
 * D10, amended by measurement: CPU time that passed while the thread had our signal blocked arrives as one signal with
 * a large overrun, at the instruction that unblocks. Our hooks keep that from happening except through raw system
 * calls. A weight above two ticks is charged to [signals blocked] only when the context shows the way out of
 * rt_sigprocmask: on a shared virtual machine 6 % of redis-server's samples weighed more than two ticks because the
 * host had held the tick back, and that time belongs where it was spent, as does a long system call's. */
#include "agent/cpu/cpu.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/ring.h"
#include "agent/base/sampling_signal.h"
#include "agent/base/stats.h"
#include "agent/base/sys.h"
#include "agent/thread/ask.h"
#include "agent/thread/threads.h"
#include "agent/thread/timer.h"

#if defined(__x86_64__)
#include "agent/base/interrupted_x86_64.h"
#else
#error "add agent/base/interrupted_<cpu>.h"
#endif

enum {
	RINGS_MAX = 16,
	RING_BYTES = 512 << 10,
	BUFFERS = 64,
	TICK_NS = 10 * 1000 * 1000, /* the longest in use: CONFIG_HZ=100 */
	KERNEL_SIGSET_BYTES = 8,
	RECORD_WORDS = sizeof(struct ppa_record) / 8,
};

struct buffer {
	_Atomic int busy;
	struct ppa_unwind_buf walk;
};

static struct {
	struct ppa_ring rings[RINGS_MAX];
	uint32_t nrings; /* a power of two */
	struct buffer *buffers;
	_Atomic uint32_t active; /* handlers under way */
	/* the drainer's own */
	uint64_t scratch[RECORD_WORDS + PPA_UNWIND_MAX_FRAMES];
} cpu;

bool ppa_cpu_owns_signal(const siginfo_t *si)
{
	uint64_t value = (uint64_t)(uintptr_t)si->si_value.sival_ptr;
	uint32_t index, generation;

	return si->si_code == SI_TIMER && (ppa_timer_unpack(value, &index, &generation) || ppa_ask_owns(value));
}

/* Somebody else sent our number while its disposition is, for all the target knows, the default one: die of it, as
 * the target would, unless it counts as blocked. The signal stays blocked until the handler returns. */
PPA_CTX_SIGNAL static void default_action(int sig, const ucontext_t *uc)
{
	uint64_t kernel_sigaction[4] = {0};

	if (ppa_signal_counts_as_in(&uc->uc_sigmask, sig))
		return;
	ppa_syscall(SYS_rt_sigaction, sig, (long)kernel_sigaction, 0, KERNEL_SIGSET_BYTES, 0, 0);
	ppa_syscall(SYS_tgkill, ppa_sys_getpid(), ppa_sys_gettid(), sig, 0, 0, 0);
}

PPA_CTX_SIGNAL static struct buffer *take_buffer(void)
{
	for (int i = 0; i < BUFFERS; i++) {
		int zero = 0;

		if (!atomic_load_explicit(&cpu.buffers[i].busy, memory_order_relaxed) &&
		    atomic_compare_exchange_strong_explicit(&cpu.buffers[i].busy, &zero, 1, memory_order_acquire,
							    memory_order_relaxed))
			return &cpu.buffers[i];
	}
	return NULL;
}

PPA_CTX_SIGNAL static void describe(struct ppa_record *r, const struct ppa_thread *t, uint64_t weight_ns)
{
	uint32_t index = ppa_threads_index(t);

	r->time_ns = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	r->weight_ns = weight_ns;
	r->thread_key = ppa_threads_key(index, atomic_load_explicit(&t->generation, memory_order_relaxed));
	r->start_routine = t->start_routine;
	r->tid = (uint32_t)atomic_load_explicit(&t->tid, memory_order_relaxed);
	r->npcs = 0;
	r->tags = atomic_load_explicit(&t->tags, memory_order_relaxed);
	ppa_syscall(SYS_prctl, PR_GET_NAME, (long)r->thread_name, 0, 0, 0, 0);
}

PPA_CTX_SIGNAL static bool push(const struct ppa_record *r, const uintptr_t *pcs)
{
	struct ppa_ring_part head = {r, RECORD_WORDS}, tail = {pcs, r->npcs};
	struct ppa_ring *ring = &cpu.rings[(uint32_t)r->thread_key & (cpu.nrings - 1)];

	if (ppa_ring_push(ring, &head, &tail))
		return true;
	ppa_stat_add(PPA_STAT_LOST_RING_FULL, 1);
	ppa_stat_add(PPA_STAT_LOST_NS, r->weight_ns);
	return false;
}

PPA_CTX_SIGNAL static bool was_blocked(const struct ppa_thread *t, const ucontext_t *uc, uint64_t weight_ns,
				       uint64_t period_ns)
{
	uint64_t limit = 2 * (period_ns > TICK_NS ? period_ns : TICK_NS);

	return weight_ns > limit && !atomic_load_explicit(&t->in_fork, memory_order_relaxed) &&
	       ppa_arch_left_mask_change(uc);
}

PPA_CTX_SIGNAL static void sample(struct ppa_thread *t, const siginfo_t *si, const ucontext_t *uc)
{
	uint64_t period_ns = atomic_load_explicit(&t->period_ns, memory_order_relaxed);
	uint64_t weight_ns = (1 + (uint64_t)(si->si_overrun > 0 ? si->si_overrun : 0)) * period_ns;
	struct ppa_record r;
	struct buffer *b;

	if (!period_ns || !ppa_threads_period())
		return;
	ppa_stat_add(PPA_STAT_SAMPLES, 1);
	describe(&r, t, weight_ns);
	if (was_blocked(t, uc, weight_ns, period_ns)) {
		r.kind = PPA_RECORD_BLOCKED;
		ppa_stat_add(PPA_STAT_BLOCKED_NS, weight_ns);
		push(&r, NULL);
		return;
	}
	b = take_buffer();
	if (!b) {
		ppa_stat_add(PPA_STAT_LOST_NO_BUFFER, 1);
		ppa_stat_add(PPA_STAT_LOST_NS, weight_ns);
		return;
	}
	ppa_unwind_context(uc, &t->bounds, &b->walk);
	if (b->walk.end != PPA_UNWIND_COMPLETE)
		ppa_stat_add(b->walk.end == PPA_UNWIND_FULL ? PPA_STAT_TOO_DEEP : PPA_STAT_TRUNCATED, 1);
	r.kind = PPA_RECORD_SAMPLE;
	r.npcs = (uint16_t)b->walk.npcs;
	push(&r, b->walk.pcs);
	/* release: the next taker's walk comes after ours; pairs with the acquire in take_buffer. */
	atomic_store_explicit(&b->busy, 0, memory_order_release);
}

void ppa_cpu_handler(int sig, siginfo_t *si, void *ucontext)
{
	struct ppa_thread *t;

	if (ppa_unlikely(!ppa_cpu_owns_signal(si))) {
		default_action(sig, ucontext);
		return;
	}
	if (ppa_unlikely(ppa_ask_owns((uint64_t)(uintptr_t)si->si_value.sival_ptr))) {
		ppa_ask_answer(si, ucontext);
		return;
	}
	/* acquire/release: ppa_cpu_quiesce sees either us here or everything we wrote. */
	atomic_fetch_add_explicit(&cpu.active, 1, memory_order_acquire);
	t = ppa_threads_of_signal(si);
	if (ppa_likely(t != NULL))
		sample(t, si, ucontext);
	atomic_fetch_sub_explicit(&cpu.active, 1, memory_order_release);
}

void ppa_cpu_thread_ends(const struct ppa_thread *t)
{
	struct ppa_record r;
	pid_t tid = atomic_load_explicit(&t->tid, memory_order_relaxed);

	atomic_fetch_add_explicit(&cpu.active, 1, memory_order_acquire);
	if (cpu.nrings && ppa_threads_period()) {
		describe(&r, t, ppa_sys_clock_ns(ppa_sys_thread_clock(tid)));
		r.kind = PPA_RECORD_EXIT;
		push(&r, NULL);
	}
	atomic_fetch_sub_explicit(&cpu.active, 1, memory_order_release);
}

static uint32_t ring_count(void)
{
	long ncpu = sysconf(_SC_NPROCESSORS_CONF);
	uint32_t n = 1;

	while (n < ncpu && n < RINGS_MAX)
		n *= 2;
	return n;
}

int ppa_cpu_prepare(void)
{
	uint32_t n = ring_count();

	if (!cpu.buffers)
		cpu.buffers = ppa_sys_map(BUFFERS * sizeof(struct buffer));
	if (!cpu.buffers)
		return -ENOMEM;
	for (uint32_t i = cpu.nrings; i < n; i++)
		if (ppa_ring_init(&cpu.rings[i], RING_BYTES))
			return -ENOMEM;
	cpu.nrings = n;
	return 0;
}

size_t ppa_cpu_drain(void (*take)(const struct ppa_record *r, const uintptr_t *pcs, void *arg), void *arg)
{
	size_t taken = 0;

	for (uint32_t i = 0; i < cpu.nrings; i++) {
		while (ppa_ring_pop(&cpu.rings[i], cpu.scratch, PPA_ARRAY_LEN(cpu.scratch)) >= RECORD_WORDS) {
			take((const struct ppa_record *)cpu.scratch, (const uintptr_t *)(cpu.scratch + RECORD_WORDS),
			     arg);
			taken++;
		}
	}
	return taken;
}

bool ppa_cpu_is_behind(void)
{
	for (uint32_t i = 0; i < cpu.nrings; i++)
		if (ppa_ring_is_filling(&cpu.rings[i]))
			return true;
	return false;
}

void ppa_cpu_quiesce(void)
{
	/* A handler may be preempted for long on a loaded machine; if one outlasts our patience the rings stay. */
	enum { PATIENCE = 1000 };
	int tries = 0;

	while (atomic_load_explicit(&cpu.active, memory_order_acquire) && tries++ < PATIENCE)
		sched_yield();
	if (tries >= PATIENCE)
		return;
	for (uint32_t i = 0; i < cpu.nrings; i++)
		ppa_ring_reset(&cpu.rings[i]);
	ppa_syscall(SYS_madvise, (long)cpu.buffers, BUFFERS * sizeof(struct buffer), MADV_DONTNEED, 0, 0, 0);
}

void ppa_cpu_reset(void)
{
	atomic_store_explicit(&cpu.active, 0, memory_order_relaxed);
	for (uint32_t i = 0; i < cpu.nrings; i++)
		ppa_ring_reset(&cpu.rings[i]);
	for (int i = 0; cpu.buffers && i < BUFFERS; i++)
		atomic_store_explicit(&cpu.buffers[i].busy, 0, memory_order_relaxed);
}
