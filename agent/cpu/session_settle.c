/* SPDX-License-Identifier: Apache-2.0
 *
 * Settling: what the threads' CPU clocks say against what was sampled. Three things are left over at the end.
 *
 *   Ended threads. Each left its total CPU time at its end. A thread shorter than the kernel's tick is often never
 *   interrupted, another is charged a whole period for less; both signs are summed by start routine and the sum is
 *   charged to [thread exit] under that routine. Sums of many short threads so are exact, not merely unbiased.
 *   Live threads. One thread's rest of a few periods and ticks is sampling's own uncertainty; more is time without a
 *   timer (refused, or before the scan met the thread): [not sampled]. Small rests are summed by start routine too: of
 *   very many threads that each ran for a moment the kernel's tick misses a part, always in the same direction, and
 *   that sum is charged once it is beyond what chance explains.
 *   Threads that ended unseen (cancelled, or by the bare system call): only the process's clock still knows them. What
 *   it has beyond all others goes to [thread exit] as well.
 *
 * Samples that were dropped inside the agent are charged to [lost samples] by weight. */
#include <time.h>

#include "agent/base/sys.h"
#include "agent/base/thread.h"
#include "agent/profile/marker.h"
#include "agent/cpu/session.h"
#include "agent/thread/threads.h"
#include "unwind/module/modules.h"

/* Beyond this a rest is no longer what delayed ticks explain: four ticks of CONFIG_HZ=100, or four periods. */
enum { LONGEST_TICK_NS = 10 * 1000 * 1000, TOLERANCE_TICKS_NS = 4 * LONGEST_TICK_NS, TOLERANCE_PERIODS = 4 };

static void charge(struct ppa_session *s, enum ppa_marker leaf, uintptr_t caller, uint32_t label, uint32_t tid,
		   int64_t ns)
{
	uintptr_t pcs[2] = {ppa_marker_address(leaf), caller};
	int64_t n = (ns + (int64_t)s->period_ns / 2) / (int64_t)s->period_ns;
	struct ppa_stack_key key = {
		.pcs = pcs,
		.npcs = caller ? 2 : 1,
		.label = label,
		.tid = s->label_tid ? tid : 0,
		.layout = s->ntables ? s->tables[s->ntables - 1]->layout : 0,
	};

	if (ns > 0 && n > 0)
		ppa_stacktab_add(&s->stacks, &key, n);
}

struct settling {
	struct ppa_session *s;
	int64_t tolerance_ns;
	int64_t lost_ns;  /* charged to [lost samples] already */
	int64_t known_ns; /* CPU time of every thread whose account is clear: what was offered, and the rests */
};

static void settle_live(struct ppa_thread *t, void *arg)
{
	struct settling *w = arg;
	uint32_t generation = atomic_load_explicit(&t->generation, memory_order_relaxed);
	uint64_t key = ppa_threads_key(ppa_threads_index(t), generation);
	struct ppa_session_thread *st = ppa_session_thread(w->s, key);
	pid_t tid = atomic_load_explicit(&t->tid, memory_order_relaxed);
	uint64_t now = ppa_sys_clock_ns(ppa_sys_thread_clock(tid));
	int64_t rest;

	if (!st || st->ended || !now)
		return;
	rest = (int64_t)(now - st->start_cpu_ns) - (int64_t)st->offered_ns;
	w->known_ns += rest;
	st->ended = true;
	if (rest > w->tolerance_ns + w->lost_ns)
		charge(w->s, PPA_MARKER_NOT_SAMPLED, t->start_routine, st->label, (uint32_t)tid, rest);
	else if (now != st->start_cpu_ns)
		ppa_session_account(w->s, PPA_MARKER_NOT_SAMPLED, t->start_routine, st->label, rest);
}

/* The rest of a live thread lies within about a period (or a tick, if that is longer) of zero either way; the sum of n
 * of them within three standard deviations, 3 * sqrt(n / 6) periods: two uniform phases, at the begin and at the end. */
static bool is_chance(const struct ppa_session *s, const struct ppa_session_account *a)
{
	double unit = (double)(s->period_ns > LONGEST_TICK_NS ? s->period_ns : LONGEST_TICK_NS);
	double units = (double)a->balance_ns / unit;

	return a->leaf == PPA_MARKER_NOT_SAMPLED && units * units < 4 + 1.5 * a->nthreads;
}

static void settle_accounts(struct ppa_session *s)
{
	for (size_t i = 0; i < s->naccounts; i++) {
		const struct ppa_session_account *a = &s->accounts[i];

		if (!is_chance(s, a))
			charge(s, a->leaf, a->start_routine, a->label, 0, a->balance_ns);
	}
}

void ppa_session_settle(struct ppa_session *s)
{
	struct settling w = {.s = s};
	int64_t unseen, lost;

	for (int i = 0; i < PPA_STAT_COUNT; i++)
		s->stats_end[i] = ppa_stat_get(i);
	w.tolerance_ns = TOLERANCE_PERIODS * (int64_t)s->period_ns;
	if (w.tolerance_ns < TOLERANCE_TICKS_NS)
		w.tolerance_ns = TOLERANCE_TICKS_NS;
	s->agent_cpu_ns = ppa_thread_cpu_ns() - s->agent_cpu_begin_ns;
	s->process_cpu_ns = ppa_sys_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - s->process_cpu_begin_ns;
	lost = (int64_t)(s->stats_end[PPA_STAT_LOST_NS] - s->stats_begin[PPA_STAT_LOST_NS] + s->failed_ns);
	charge(s, PPA_MARKER_LOST, 0, PPA_LABEL_NONE, 0, lost);
	w.known_ns = (int64_t)s->offered_ns;
	w.lost_ns = lost;
	for (size_t i = 0; i < s->naccounts; i++)
		w.known_ns += s->accounts[i].balance_ns; /* of ended threads so far */
	ppa_threads_each(settle_live, &w);
	settle_accounts(s);
	unseen = (int64_t)s->process_cpu_ns - (int64_t)s->agent_cpu_ns - w.known_ns;
	if (unseen > w.tolerance_ns && unseen > (int64_t)s->process_cpu_ns / 50)
		charge(s, PPA_MARKER_EXIT, 0, PPA_LABEL_NONE, 0, unseen);
}
