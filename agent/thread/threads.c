/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots live in one mapping that is never unmapped, so a late signal may look at any of them at any time. The free
 * list is a Treiber stack whose head carries a counter against ABA. The table being full means threads without a
 * timer, counted; their CPU time still reaches the profile as [not sampled] (see session.c). */
#include "agent/thread/threads.h"

#include <errno.h>
#include <string.h>

#include "agent/base/self.h"
#include "agent/base/sys.h"
#include "agent/cpu/cpu.h"
#include "agent/thread/newborn.h"
#include "agent/thread/timer.h"

enum { PAGE = 4096 };

static struct {
	/* immutable after init */
	struct ppa_thread *slots;
	/* any thread */
	_Atomic uint64_t free_head;  /* counter << 32 | index + 1 */
	_Atomic uint32_t high_water; /* slots ever used */
	_Atomic uint64_t period_ns;  /* wanted */
} table;

int ppa_threads_init(void)
{
	table.slots = ppa_sys_map(PPA_THREADS_MAX * sizeof(struct ppa_thread));
	return table.slots ? 0 : -ENOMEM;
}

uint32_t ppa_threads_index(const struct ppa_thread *t)
{
	return (uint32_t)(t - table.slots);
}

static struct ppa_thread *pop_free(void)
{
	/* acquire: the slot's next_free is read below; pairs with the release in push_free. */
	uint64_t head = atomic_load_explicit(&table.free_head, memory_order_acquire), next;
	struct ppa_thread *t;

	do {
		uint32_t link = (uint32_t)head;

		if (!link)
			return NULL;
		t = &table.slots[link - 1];
		next = ((head >> 32) + 1) << 32 | atomic_load_explicit(&t->next_free, memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(&table.free_head, &head, next, memory_order_acquire,
							memory_order_acquire));
	return t;
}

static void push_free(struct ppa_thread *t)
{
	uint64_t head = atomic_load_explicit(&table.free_head, memory_order_relaxed), next;

	atomic_fetch_add_explicit(&t->generation, 1, memory_order_relaxed);
	atomic_store_explicit(&t->state, PPA_THREAD_FREE, memory_order_release);
	do {
		atomic_store_explicit(&t->next_free, (uint32_t)head, memory_order_relaxed);
		next = ((head >> 32) + 1) << 32 | (ppa_threads_index(t) + 1);
	} while (!atomic_compare_exchange_weak_explicit(&table.free_head, &head, next, memory_order_release,
							memory_order_relaxed));
}

struct ppa_thread *ppa_threads_reserve(void)
{
	struct ppa_thread *t;
	uint32_t i;

	if (!table.slots)
		return NULL;
	t = pop_free();
	if (!t) {
		i = atomic_fetch_add_explicit(&table.high_water, 1, memory_order_relaxed);
		if (i >= PPA_THREADS_MAX) {
			atomic_fetch_sub_explicit(&table.high_water, 1, memory_order_relaxed);
			return NULL;
		}
		t = &table.slots[i];
	}
	atomic_store_explicit(&t->tid, 0, memory_order_relaxed);
	t->start_routine = 0;
	t->bounds = (struct ppa_stack_bounds){0, 0};
	t->is_adopted = t->is_main = t->timer_failed = false;
	t->stack_bytes = 0;
	t->creator = NULL;
	t->creator_tid = 0;
	t->asleep_since_ns = 0;
	t->timer_id = -1;
	t->first_period_ns = 0;
	atomic_store_explicit(&t->period_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&t->in_fork, false, memory_order_relaxed);
	atomic_store_explicit(&t->parked.seq, 0, memory_order_relaxed);
	atomic_store_explicit(&t->tags,
			      ppa_self.slot ? atomic_load_explicit(&ppa_self.slot->tags, memory_order_relaxed) : 0,
			      memory_order_relaxed);
	atomic_store_explicit(&t->claim, 0, memory_order_relaxed);
	atomic_store_explicit(&t->state, PPA_THREAD_RESERVED, memory_order_relaxed);
	return t;
}

void ppa_threads_unreserve(struct ppa_thread *t)
{
	push_free(t);
}

static bool try_claim(struct ppa_thread *t)
{
	uint32_t zero = 0;

	return atomic_compare_exchange_strong(&t->claim, &zero, 1);
}

/* Let go of the claim, and free the slot if its thread left meanwhile. The store and the load are sequentially
 * consistent, as are the store and the claim in ppa_threads_leave: one of the two sides sees the other. */
static void unclaim(struct ppa_thread *t)
{
	for (;;) {
		atomic_store(&t->claim, 0);
		if (atomic_load(&t->state) != PPA_THREAD_LEAVING || !try_claim(t))
			return;
		if (atomic_load(&t->state) == PPA_THREAD_LEAVING) {
			ppa_timer_delete(t);
			push_free(t);
			return;
		}
	}
}

/* Bring the timer to the wanted period; again if that changed meanwhile. Who changes it and finds the slot claimed leaves
 * it to whoever has the claim, who therefore looks once more after it let go: the stores and the loads behind them are
 * sequentially consistent. */
static void follow_period(struct ppa_thread *t)
{
	uint64_t want;

	do {
		if (!try_claim(t))
			return;
		want = atomic_load(&table.period_ns);
		/* A live slot is freed only under the claim, so what is seen now stays. */
		if (atomic_load(&t->state) == PPA_THREAD_LIVE)
			ppa_timer_set(t, want);
		unclaim(t);
	} while (want != atomic_load(&table.period_ns));
}

void ppa_threads_enter(struct ppa_thread *t, uintptr_t frame)
{
	uint64_t period_ns = ppa_threads_period();
	bool may_wait = period_ns && ppa_newborn_may_wait(t, period_ns);

	/* The page of our first frame is the top of what can be vouched for. Half the size asked for leaves room for
	 * static TLS, which glibc takes from the stack, and for guard pages; a stack pointer below that is looked at
	 * with the careful means for unknown stacks. */
	t->bounds.hi = (frame | (PAGE - 1)) + 1;
	t->bounds.lo = t->bounds.hi - t->stack_bytes / 2;
	t->start_routine = (uintptr_t)t->fn;
	atomic_store_explicit(&t->tid, ppa_sys_gettid(), memory_order_relaxed);
	/* The fields above are complete once LIVE is seen. */
	atomic_store(&t->state, PPA_THREAD_LIVE);
	if (atomic_load(&table.period_ns) && !may_wait)
		follow_period(t);
}

void ppa_threads_leave(struct ppa_thread *t)
{
	if (!t)
		return;
	if (atomic_load_explicit(&table.period_ns, memory_order_relaxed))
		ppa_cpu_thread_ends(t);
	atomic_store(&t->state, PPA_THREAD_LEAVING);
	if (!try_claim(t))
		return;
	ppa_timer_delete(t);
	push_free(t);
}

void ppa_threads_adopt_main(uintptr_t stack_top)
{
	/* The main stack grows on demand; nothing else is ever mapped this close below its top. */
	enum { VOUCHED_BYTES = 4 << 20 };
	struct ppa_thread *t = ppa_threads_reserve();

	if (!t)
		return;
	t->bounds.hi = (stack_top | (PAGE - 1)) + 1;
	t->bounds.lo = t->bounds.hi - VOUCHED_BYTES;
	t->is_main = true;
	atomic_store_explicit(&t->tid, ppa_sys_gettid(), memory_order_relaxed);
	ppa_self.slot = t;
	atomic_store(&t->state, PPA_THREAD_LIVE);
}

struct ppa_thread *ppa_threads_of_signal(const siginfo_t *si)
{
	uint64_t value = (uint64_t)(uintptr_t)si->si_value.sival_ptr;
	struct ppa_thread *t;
	uint32_t index, generation;

	if (!ppa_timer_unpack(value, &index, &generation) || index >= PPA_THREADS_MAX || !table.slots)
		return NULL;
	t = &table.slots[index];
	if (atomic_load_explicit(&t->state, memory_order_acquire) != PPA_THREAD_LIVE ||
	    (atomic_load_explicit(&t->generation, memory_order_relaxed) & PPA_TIMER_GENERATION_MASK) != generation)
		return NULL;
	return t;
}

void ppa_threads_set_period(uint64_t period_ns)
{
	atomic_store(&table.period_ns, period_ns);
}

uint64_t ppa_threads_period(void)
{
	return atomic_load_explicit(&table.period_ns, memory_order_relaxed);
}

uint32_t ppa_threads_used(void)
{
	return atomic_load_explicit(&table.high_water, memory_order_relaxed);
}

void ppa_threads_each(void (*visit)(struct ppa_thread *t, void *arg), void *arg)
{
	uint32_t n = atomic_load_explicit(&table.high_water, memory_order_relaxed);

	for (uint32_t i = 0; i < n && i < PPA_THREADS_MAX; i++)
		if (atomic_load(&table.slots[i].state) == PPA_THREAD_LIVE)
			visit(&table.slots[i], arg);
}

bool ppa_threads_is_birth_under_way(void)
{
	uint32_t n = atomic_load_explicit(&table.high_water, memory_order_relaxed);

	for (uint32_t i = 0; i < n && i < PPA_THREADS_MAX; i++)
		if (atomic_load(&table.slots[i].state) == PPA_THREAD_RESERVED)
			return true;
	return false;
}

void ppa_threads_retime(struct ppa_thread *t)
{
	follow_period(t);
}

void ppa_threads_retire(struct ppa_thread *t)
{
	uint32_t live = PPA_THREAD_LIVE;

	if (!try_claim(t))
		return;
	if (atomic_compare_exchange_strong(&t->state, &live, PPA_THREAD_LEAVING)) {
		ppa_timer_delete(t);
		push_free(t); /* the claim stays taken until the slot is reserved again */
		return;
	}
	unclaim(t);
}

void ppa_threads_reset(struct ppa_thread *caller)
{
	uint32_t n = atomic_load_explicit(&table.high_water, memory_order_relaxed);

	atomic_store(&table.period_ns, 0);
	for (uint32_t i = 0; i < n && i < PPA_THREADS_MAX; i++) {
		struct ppa_thread *t = &table.slots[i];

		atomic_store(&t->claim, 0);
		t->timer_id = -1;
		atomic_store(&t->period_ns, 0);
		if (t != caller && atomic_load(&t->state) != PPA_THREAD_FREE)
			push_free(t);
	}
	if (caller) {
		caller->timer_failed = false;
		atomic_store(&caller->tid, ppa_sys_gettid());
	}
}
