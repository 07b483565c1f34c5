/* SPDX-License-Identifier: Apache-2.0
 *
 * What a thread says of itself before it goes to sleep inside a wrapper of ours: which registers its caller counts on,
 * what it waits for and since when. Whoever dumps threads learns from the kernel where a sleeper stands, but not these
 * registers.
 *
 * The words lie in the thread's slot, so they stay readable when the thread is gone. An odd sequence number says that
 * they hold; a reader that sees it change, or even, has nothing. Nobody has to tidy up: who leaves a wait by a jump or
 * an exception leaves them standing, and they are believed only where the walk finds the very frame that wrote them. A
 * handler that waits itself overwrites them, and its outer wait is then unpublished. */
#ifndef PPA_THREAD_PARKED_H
#define PPA_THREAD_PARKED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/base/self.h"
#include "agent/thread/threads.h"
#include "unwind/walk/arch.h"

/* The calling function, which must not be inlined into the target, goes to sleep in the next call it makes. object:
 * what it waits for, 0 if nothing in memory; since_ns: CLOCK_MONOTONIC. Inlined, so that the registers are those of the
 * caller's frame. No-op for a thread without a slot. Context: malloc. */
static inline __attribute__((always_inline)) void ppa_parked_enter(enum ppa_parked_kind kind, const void *object,
								   uint64_t since_ns)
{
	static const uint8_t saved[PPA_NSAVED] = PPA_SAVED_REGS;
	struct ppa_thread *t = ppa_self.slot;
	struct ppa_parked *p;
	struct ppa_regs regs;
	uint32_t seq;

	if (!t)
		return;
	p = &t->parked;
	seq = atomic_load_explicit(&p->seq, memory_order_relaxed) | 1;
	/* Even while they are being written. release fence: pairs with the acquire fence in ppa_parked_read. */
	atomic_store_explicit(&p->seq, seq + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	ppa_arch_capture(&regs);
	atomic_store_explicit(&p->sp, regs.r[PPA_REG_SP], memory_order_relaxed);
	for (int i = 0; i < PPA_NSAVED; i++)
		atomic_store_explicit(&p->regs[i], regs.r[saved[i]], memory_order_relaxed);
	atomic_store_explicit(&p->kind, kind, memory_order_relaxed);
	atomic_store_explicit(&p->object, (uintptr_t)object, memory_order_relaxed);
	atomic_store_explicit(&p->since_ns, since_ns, memory_order_relaxed);
	/* release: the words are complete; pairs with the acquire in ppa_parked_read. */
	atomic_store_explicit(&p->seq, seq + 2, memory_order_release);
}

/* Awake again. Context: malloc. */
static inline __attribute__((always_inline)) void ppa_parked_leave(void)
{
	struct ppa_thread *t = ppa_self.slot;
	uint32_t seq;

	if (!t)
		return;
	seq = atomic_load_explicit(&t->parked.seq, memory_order_relaxed);
	atomic_store_explicit(&t->parked.seq, seq + (seq & 1), memory_order_relaxed);
}

/* A copy of what a thread published. */
struct ppa_parked_copy {
	uintptr_t sp;
	uintptr_t regs[PPA_NSAVED]; /* in the order of PPA_SAVED_REGS */
	enum ppa_parked_kind kind;
	uintptr_t object;
	uint64_t since_ns;
};

/* false: it is not parked, or moving. Context: server. */
static inline bool ppa_parked_read(const struct ppa_thread *t, struct ppa_parked_copy *out)
{
	const struct ppa_parked *p = &t->parked;
	uint32_t seq = atomic_load_explicit(&p->seq, memory_order_acquire);

	if (!(seq & 1))
		return false;
	out->sp = atomic_load_explicit(&p->sp, memory_order_relaxed);
	for (int i = 0; i < PPA_NSAVED; i++)
		out->regs[i] = atomic_load_explicit(&p->regs[i], memory_order_relaxed);
	out->kind = (enum ppa_parked_kind)atomic_load_explicit(&p->kind, memory_order_relaxed);
	out->object = atomic_load_explicit(&p->object, memory_order_relaxed);
	out->since_ns = atomic_load_explicit(&p->since_ns, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&p->seq, memory_order_relaxed) == seq;
}

#endif
