/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/thread/newborn.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "agent/base/sys.h"
#include "agent/profile/random.h"
#include "agent/thread/threads.h"

enum {
	/* A timer takes three system calls, about 1.3 us; a round of the sampler about 6 us of CPU (both measured on
	 * kernel 6.18). Half the timers of so many births a round pay for it with room to spare. */
	BIRTHS_A_ROUND = 8,
	ROUND_SHARE = 50, /* a round may take one part in so many of the time */
	ROUNDS_A_PERIOD = 8,
	ROUND_NS = 1000 * 1000, /* at least */
	/* Newborns' visits: a look at so many slots takes less than a microsecond. */
	VISIT_NS = ROUND_NS / BIRTHS_A_ROUND,
	VISITED_SLOTS_MAX = 256,
};

/* The sampler's rounds; 0 where the period leaves no room for any, nor for newborns' visits. */
static uint64_t round_of(uint64_t period_ns)
{
	uint64_t round_ns = period_ns / ROUNDS_A_PERIOD;

	if (period_ns < 4 * ROUND_NS && (period_ns < 4 * VISIT_NS || ppa_threads_used() > VISITED_SLOTS_MAX))
		return 0;
	return round_ns >= ROUND_NS ? round_ns : ROUND_NS;
}

static bool needs_visits(uint64_t period_ns)
{
	return period_ns < 4 * ROUND_NS;
}

static struct {
	/* any thread */
	_Atomic uint64_t births;
	_Atomic uint64_t wait_from_ns; /* whose first moment lies at least so late may wait; 0: nobody */
	_Atomic uint64_t visit_at_ns; /* CLOCK_MONOTONIC, when newborns are to look after those before them; 0: never */
	/* the sampler's */
	uint64_t births_before, last_ns;
} newborn;

static void retime(struct ppa_thread *t, void *unused)
{
	(void)unused;
	if (!atomic_load_explicit(&t->period_ns, memory_order_relaxed))
		ppa_threads_retime(t);
}

/* A slot that somebody else works on is left to him. */
static void visit(void)
{
	uint64_t at = atomic_load_explicit(&newborn.visit_at_ns, memory_order_relaxed);
	uint64_t now = ppa_sys_clock_ns(CLOCK_MONOTONIC);

	if (at && now >= at &&
	    atomic_compare_exchange_strong_explicit(&newborn.visit_at_ns, &at, now + VISIT_NS, memory_order_relaxed,
						    memory_order_relaxed))
		ppa_threads_each(retime, NULL);
}

bool ppa_newborn_may_wait(struct ppa_thread *t, uint64_t period_ns)
{
	uint64_t from = atomic_load_explicit(&newborn.wait_from_ns, memory_order_relaxed);

	atomic_fetch_add_explicit(&newborn.births, 1, memory_order_relaxed);
	t->first_ns = 1 + ppa_random_below(period_ns);
	t->first_period_ns = period_ns;
	if (atomic_load_explicit(&newborn.visit_at_ns, memory_order_relaxed))
		visit();
	return from && t->first_ns >= from;
}

static void set_waiting(bool is_on, uint64_t period_ns, uint64_t now)
{
	bool is_visited = is_on && needs_visits(period_ns);
	uint64_t from_ns = 2 * (is_visited ? VISIT_NS : round_of(period_ns));

	atomic_store_explicit(&newborn.visit_at_ns, is_visited ? now + VISIT_NS : 0, memory_order_relaxed);
	atomic_store_explicit(&newborn.wait_from_ns, is_on ? from_ns : 0, memory_order_relaxed);
}

uint64_t ppa_newborn_tick(uint64_t period_ns)
{
	uint64_t now = ppa_sys_clock_ns(CLOCK_MONOTONIC), round_ns = round_of(period_ns);
	uint64_t births = atomic_load_explicit(&newborn.births, memory_order_relaxed);
	bool was_on = atomic_load_explicit(&newborn.wait_from_ns, memory_order_relaxed) != 0;
	/* Twice as many to begin as to go on, lest it goes to and fro. */
	uint64_t enough = was_on ? BIRTHS_A_ROUND / 2 : BIRTHS_A_ROUND;
	bool is_on = round_ns && (births - newborn.births_before) * round_ns >= enough * (now - newborn.last_ns);

	newborn.births_before = births;
	newborn.last_ns = now;
	set_waiting(is_on, period_ns, now);
	if (!was_on && !is_on)
		return UINT64_MAX;
	/* A newborn that read the old value and was not yet LIVE is left to the next scan. */
	ppa_threads_each(retime, NULL);
	if (is_on && (ppa_sys_clock_ns(CLOCK_MONOTONIC) - now) * ROUND_SHARE > round_ns) {
		set_waiting(false, period_ns, now);
		ppa_threads_each(retime, NULL);
	}
	return is_on ? round_ns : UINT64_MAX;
}

void ppa_newborn_reset(void)
{
	memset(&newborn, 0, sizeof(newborn));
}
