/* SPDX-License-Identifier: Apache-2.0
 *
 * A question is a word: generation << 2 | state. The handler may write where it changed the word from ASKED to
 * ANSWERING; the server takes back what is still ASKED, and leaves a question alone for ever whose handler is not done.
 * The memory is mapped once and stays mapped, so that a late handler finds it.
 *
 * Where more threads run than there are processors an answer takes two turns, not one: the tick that finds the thread's
 * clock run out ends its turn as well, and the kernel looks at that first, so the signal comes when the thread is back.
 * A signal sent straight to it would come with the first, but wake it if it went to sleep meanwhile. (Nine spinners, two
 * processors, kernel 6.18 with ticks of 4 ms: the last one answers after 32 to 48 ms; a signal takes 12 to 20.) */
#include "agent/thread/ask.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/sys.h"
#include "agent/thread/timer.h"

enum { FREE = 0, ASKED = 1, ANSWERING = 2, ANSWERED = 3, STATE_MASK = 3, STATE_BITS = 2, GENERATION_MASK = 0xffff };
#define MAGIC 0x9ba8ULL

struct question {
	_Atomic uint32_t word;
	/* written by the server before ASKED */
	int timer_id;
	struct ppa_stack_bounds bounds;
	/* written by the handler while ANSWERING */
	struct ppa_unwind_buf walk;
};

static struct {
	_Atomic(struct question *) questions; /* set once */
	uint32_t generation;		      /* the round's */
	_Atomic int
		n; /* questions of the round, free ones between them included; beyond PPA_ASK_MAX: refused ones, too */
} ask;

bool ppa_ask_owns(uint64_t value)
{
	return value >> 48 == MAGIC;
}

int ppa_ask_open(void)
{
	struct question *q = atomic_load_explicit(&ask.questions, memory_order_relaxed);

	if (!q)
		q = ppa_sys_map(PPA_ASK_MAX * sizeof(*q));
	if (!q)
		return -ENOMEM;
	/* release: pairs with the acquire in ppa_ask_answer. */
	atomic_store_explicit(&ask.questions, q, memory_order_release);
	ask.generation = (ask.generation + 1) & GENERATION_MASK;
	atomic_store_explicit(&ask.n, 0, memory_order_relaxed);
	return 0;
}

static struct question *next_free(int *index)
{
	struct question *q = atomic_load_explicit(&ask.questions, memory_order_relaxed);

	while (atomic_load_explicit(&ask.n, memory_order_relaxed) < PPA_ASK_MAX) {
		*index = atomic_fetch_add_explicit(&ask.n, 1, memory_order_relaxed);
		if (*index >= PPA_ASK_MAX)
			break;
		if ((atomic_load_explicit(&q[*index].word, memory_order_acquire) & STATE_MASK) != ANSWERING)
			return &q[*index];
	}
	return NULL;
}

int ppa_ask_start(pid_t tid, const struct ppa_stack_bounds *bounds)
{
	struct itimerspec soon = {.it_value = {0, 1}};
	int index, id;
	struct question *q = next_free(&index);

	if (!q)
		return -EBUSY;
	id = ppa_timer_make(tid, MAGIC << 48 | (uint64_t)ask.generation << 32 | (uint32_t)index);
	if (id < 0) {
		atomic_store_explicit(&q->word, FREE, memory_order_relaxed);
		return id;
	}
	q->timer_id = id;
	q->bounds = bounds ? *bounds : (struct ppa_stack_bounds){0, 0};
	/* release: bounds are written; pairs with the acquire of the handler. */
	atomic_store_explicit(&q->word, ask.generation << STATE_BITS | ASKED, memory_order_release);
	ppa_syscall(SYS_timer_settime, id, 0, (long)&soon, 0, 0, 0);
	return index;
}

void ppa_ask_answer(const siginfo_t *si, const void *ucontext)
{
	uint64_t value = (uint64_t)(uintptr_t)si->si_value.sival_ptr;
	uint32_t index = (uint32_t)value, generation = (uint32_t)(value >> 32) & GENERATION_MASK;
	uint32_t asked = generation << STATE_BITS | ASKED;
	struct question *q = atomic_load_explicit(&ask.questions, memory_order_acquire);

	if (!q || index >= PPA_ASK_MAX)
		return;
	q += index;
	if (!atomic_compare_exchange_strong_explicit(&q->word, &asked, generation << STATE_BITS | ANSWERING,
						     memory_order_acquire, memory_order_relaxed))
		return; /* late */
	ppa_unwind_context(ucontext, &q->bounds, &q->walk);
	/* release: the walk is complete; pairs with the acquire in ppa_ask_get. */
	atomic_store_explicit(&q->word, generation << STATE_BITS | ANSWERED, memory_order_release);
}

const struct ppa_unwind_buf *ppa_ask_get(int question)
{
	struct question *q = atomic_load_explicit(&ask.questions, memory_order_relaxed) + question;
	uint32_t word = atomic_load_explicit(&q->word, memory_order_acquire);

	return word == (ask.generation << STATE_BITS | ANSWERED) ? &q->walk : NULL;
}

void ppa_ask_close(void)
{
	struct question *q = atomic_load_explicit(&ask.questions, memory_order_relaxed);
	int n = atomic_load_explicit(&ask.n, memory_order_relaxed);
	bool is_quiet = true;

	n = n < PPA_ASK_MAX ? n : PPA_ASK_MAX;
	for (int i = 0; i < n; i++) {
		uint32_t word = atomic_load_explicit(&q[i].word, memory_order_relaxed);

		if ((word & STATE_MASK) == FREE || word >> STATE_BITS != ask.generation) {
			is_quiet &= (word & STATE_MASK) != ANSWERING;
			continue;
		}
		ppa_syscall(SYS_timer_delete, q[i].timer_id, 0, 0, 0, 0, 0);
		if ((word & STATE_MASK) == ASKED)
			atomic_compare_exchange_strong_explicit(&q[i].word, &word, FREE, memory_order_relaxed,
								memory_order_relaxed);
		is_quiet &= (word & STATE_MASK) != ANSWERING;
	}
	if (is_quiet && n)
		ppa_syscall(SYS_madvise, (long)q, PPA_ASK_MAX * sizeof(*q), MADV_DONTNEED, 0, 0, 0);
	atomic_store_explicit(&ask.n, 0, memory_order_relaxed);
}

void ppa_ask_reset(void)
{
	struct question *q = atomic_load_explicit(&ask.questions, memory_order_relaxed);

	for (int i = 0; q && i < PPA_ASK_MAX; i++)
		atomic_store_explicit(&q[i].word, FREE, memory_order_relaxed);
	atomic_store_explicit(&ask.n, 0, memory_order_relaxed);
}
