/* SPDX-License-Identifier: Apache-2.0 */
// link: agent/trace/trace.c agent/trace/buffer.c agent/thread/stack_here.c agent/thread/stack_known.c agent/thread/threads.c agent/thread/timer.c agent/thread/ask.c agent/cpu/cpu.c agent/thread/newborn.c agent/profile/random.c agent/profile/sites.c agent/profile/marker.c agent/profile/unloads.c agent/profile/tags.c @walker @unwind @backtrace @iberty @zlib
/* What a record of the trace costs the thread that leaves it, in nanoseconds: by itself (how long a wait took is decided,
 * the words are written), with the walk of a stack of twenty frames and its place in the table of stacks, and with a stack
 * that is known (which is what hooks of waits do: agent/thread/stack_known.h). A span is one wait: its record and its
 * waker's, each with its stack, and three looks at the clock; two of these the block profile takes of every wait, traced or
 * not: that is what untraced says. Waits above and below the limit of what is short are measured; the best of ROUNDS, because
 * other programs run as well. The memory is touched before, by the recorder in another thread: RECORDS fit in what it is
 * ahead by. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/budget.h"
#include "agent/base/sys.h"
#include "agent/thread/stack_here.h"
#include "agent/trace/buffer.h"
#include "agent/trace/trace.h"
#include "unwind/module/modules.h"
#include "unwind/walk/unwind.h"

enum { ROUNDS = 100, RECORDS = 2500, FRAMES = 20 };

static uint64_t now_ns(void)
{
	return ppa_sys_clock_ns(CLOCK_MONOTONIC);
}

enum how { ALONE, WALKED, KNOWN };

static __attribute__((noinline)) const struct ppa_site *find(void)
{
	struct ppa_stack_want want = {.table = &ppa_trace_sites};

	ppa_stack_find(&want, 1, 0, (uintptr_t)__builtin_return_address(0));
	return want.site;
}

static __attribute__((noinline)) const struct ppa_site *walk(void)
{
	struct ppa_stack_here stack;
	const struct ppa_site *s;

	ppa_stack_take((uintptr_t)__builtin_return_address(0), &stack);
	s = ppa_sites_find(&ppa_trace_sites, stack.pcs, stack.npcs, stack.origin, 0);
	ppa_stack_drop(&stack);
	return s;
}

/* One round: nanoseconds a record. */
static double records(uint64_t took_ns, enum how how)
{
	struct ppa_trace_wait w = {.kind = PPA_PARKED_SLEEP, .fd = PPA_TRACE_FD_NONE};
	uint64_t begin;

	if (ppa_trace_buffer_open(64 << 20))
		exit(1);
	begin = now_ns();
	for (int i = 0; i < RECORDS; i++) {
		/* Each in a period of its own: nothing is left out. */
		w.begin_ns = begin + (uint64_t)i * PPA_TRACE_SHORT_PERIOD_NS;
		w.end_ns = w.begin_ns + took_ns;
		if (ppa_trace_wants(&w))
			ppa_trace_wait(&w, how == WALKED ? walk() : how == KNOWN ? find() : NULL);
	}
	begin = now_ns() - begin;
	ppa_trace_buffer_close();
	return (double)begin / RECORDS;
}

static __attribute__((noinline)) double at_depth(int depth, uint64_t took_ns, enum how how)
{
	double best = depth > 1 ? at_depth(depth - 1, took_ns, how) : 1e9;

	for (int i = 0; depth == 1 && i < ROUNDS; i++) {
		double ns = records(took_ns, how);

		best = ns < best ? ns : best;
	}
	__asm__ volatile("" : "+m"(best));
	return best;
}

/* A wait and its waker, as the hooks tell them: two records, two stacks, three looks at the clock. */
static double spans(void)
{
	uint64_t begin, object;

	if (ppa_trace_buffer_open(64 << 20))
		exit(1);
	begin = now_ns();
	for (int i = 0; i < RECORDS; i++) {
		struct ppa_trace_wait w = {.kind = PPA_PARKED_SEMAPHORE, .fd = PPA_TRACE_FD_NONE, .object = &object};
		uint32_t watching = ppa_trace_watch(&object);

		w.begin_ns = now_ns();
		ppa_trace_woke(&object, ppa_trace_waking(), false, (uintptr_t)spans,
			       (uintptr_t)__builtin_return_address(0));
		w.end_ns = now_ns() + PPA_TRACE_SHORT_NS;
		ppa_trace_unwatch(&object, watching);
		if (ppa_trace_wants(&w))
			ppa_trace_wait(&w, find());
	}
	begin = now_ns() - begin;
	ppa_trace_buffer_close();
	return (double)begin / RECORDS;
}

/* What of that there is without a trace. */
static double untraced(void)
{
	uint64_t begin = now_ns(), longest = 0;

	for (int i = 0; i < RECORDS; i++) {
		uint64_t began = now_ns(), ns = now_ns() - began;

		longest = ns > longest ? ns : longest;
	}
	__asm__ volatile("" : "+r"(longest));
	return (double)(now_ns() - begin) / RECORDS;
}

static __attribute__((noinline)) double at_depth_span(int depth, double (*round)(void))
{
	double best = depth > 1 ? at_depth_span(depth - 1, round) : 1e9;

	for (int i = 0; depth == 1 && i < ROUNDS; i++) {
		double ns = round();

		best = ns < best ? ns : best;
	}
	__asm__ volatile("" : "+m"(best));
	return best;
}

int main(void)
{
	double alone, with_walk, known, short_alone, span, without;

	ppa_budget_set(64 << 20);
	if (ppa_threads_init())
		return 1;
	ppa_threads_adopt_main((uintptr_t)environ);
	if (ppa_modules_refresh(true) || ppa_unwind_init() || ppa_stack_init() || ppa_sites_init(&ppa_trace_sites))
		return 1;
	atomic_store(&ppa_trace_on, true);
	alone = at_depth(FRAMES, 50000, ALONE);
	short_alone = at_depth(FRAMES, 5000, ALONE);
	with_walk = at_depth(FRAMES, 50000, WALKED);
	known = at_depth(FRAMES, 50000, KNOWN);
	span = at_depth_span(FRAMES, spans);
	without = at_depth_span(FRAMES, untraced);
	printf("record %.1f\nshort %.1f\nwith-walk %.1f\nknown %.1f\nspan %.1f\nuntraced %.1f\n", alone, short_alone,
	       with_walk, known, span, without);
	return 0;
}
