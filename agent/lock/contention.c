/* SPDX-License-Identifier: Apache-2.0
 *
 * Times are kept in units of 16 ns since the start, which is finer than the clock and lets an entry's words hold two
 * years. Delays of both profiles are whole units of the same readings, so their sums agree.
 *
 * Contentions are counted in fractions, because a kept event may stand for 1.5 of them. */
#include "agent/lock/contention.h"

#include <time.h>

#include "agent/base/self.h"
#include "agent/base/sys.h"
#include "agent/profile/marker.h"
#include "agent/profile/random.h"
#include "agent/thread/stack_here.h"

enum { CONTENTIONS, DELAY };
enum { FRACTION_BITS = 12, UNIT_BITS = 4, SCALE_MAX = UINT16_MAX };

struct ppa_sites ppa_block_sites, ppa_mutex_sites;
_Atomic bool ppa_contention_on, ppa_contention_io;

static struct {
	_Atomic uint64_t block_rate; /* ns */
	_Atomic uint64_t mutex_fraction;
	uint64_t epoch_ns;	      /* set once */
	void (*turns[2])(bool is_on); /* set in constructors */
	_Atomic bool is_ready, wants_io;
} contention;

PPA_CTX_MALLOC static ppa_stamp stamp_of(uint64_t ns)
{
	return ((ns - contention.epoch_ns) >> UNIT_BITS) + 1;
}

PPA_CTX_MALLOC static uint64_t now_ns(void)
{
	return ppa_sys_clock_ns(CLOCK_MONOTONIC);
}

/* ---- charging ---- */

PPA_CTX_MALLOC static void charge(struct ppa_site *s, uint64_t contentions, uint64_t ns)
{
	ppa_site_add(s, CONTENTIONS, contentions);
	ppa_site_add(s, DELAY, ns);
}

PPA_CTX_MALLOC static struct ppa_site *find_site(struct ppa_sites *table, uintptr_t function, bool is_io,
						 uintptr_t caller)
{
	struct ppa_stack_here stack;
	struct ppa_site *s;

	ppa_stack_take(caller, &stack);
	ppa_stack_add_leaf(&stack, function);
	if (is_io)
		ppa_stack_add_leaf(&stack, ppa_marker_address(PPA_MARKER_IO));
	s = ppa_sites_find(table, stack.pcs, stack.npcs, stack.origin, 0);
	ppa_stack_drop(&stack);
	return s;
}

/* How much an event of the mutex profile counts; 0: it is not kept. */
PPA_CTX_MALLOC static uint64_t draw_mutex_scale(void)
{
	uint64_t n = atomic_load_explicit(&contention.mutex_fraction, memory_order_relaxed);

	if (n <= 1)
		return n;
	return ppa_random_next() <= UINT64_MAX / n ? n : 0;
}

PPA_CTX_MALLOC static void charge_unknown(uint64_t waiters, uint64_t time)
{
	uintptr_t pc = ppa_marker_address(PPA_MARKER_UNKNOWN_HOLDER);

	if (waiters || time)
		charge(ppa_sites_find(&ppa_mutex_sites, &pc, 1, 0, 0), waiters << FRACTION_BITS, time << UNIT_BITS);
}

/* What a waiter's last piece is worth to whoever it belongs to. */
PPA_CTX_MALLOC static void charge_debt(const struct ppa_debt *d)
{
	uint64_t scale = d->scale;

	if (d->whose == PPA_DEBT_UNKNOWN) {
		scale = draw_mutex_scale();
		charge_unknown(d->waiters * scale, d->time * scale);
	} else if (d->whose == PPA_DEBT_HOLDER && d->holder) {
		charge((struct ppa_site *)(uintptr_t)d->holder, (d->waiters * scale) << FRACTION_BITS,
		       (d->time * scale) << UNIT_BITS);
	}
}

PPA_CTX_MALLOC static void charge_waiter(uint64_t ns, uintptr_t function, bool is_io, uintptr_t caller)
{
	uint64_t rate = atomic_load_explicit(&contention.block_rate, memory_order_relaxed);
	uint64_t contentions = 1 << FRACTION_BITS;

	if (!rate)
		return;
	if (ns < rate) {
		/* Kept with probability ns / rate. */
		if ((uint64_t)(((unsigned __int128)ppa_random_next() * rate) >> 64) >= ns)
			return;
		contentions = (rate << FRACTION_BITS) / ns;
		ns = rate;
	}
	charge(find_site(&ppa_block_sites, function, is_io, caller), contentions, ns);
}

/* ---- waits ---- */

__thread struct ppa_waiting ppa_waiting __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The wait in this thread's record was left, and nobody knows when: it is charged to nobody. */
PPA_CTX_MALLOC static void give_up(void)
{
	struct ppa_stay stay = ppa_waiting.stay;
	struct ppa_debt unused;

	ppa_waiting.frame = 0;
	if (stay.at)
		ppa_contended_leave(&stay, stamp_of(now_ns()), false, &unused);
}

void ppa_wait_begin(struct ppa_wait *w, const void *lock)
{
	w->begin_ns = now_ns();
	/* The stack grows down: a wait that this one interrupts is in a higher frame, any other was left by a jump. But a
	 * handler may run on an alternate stack: gone tells the other wait, should it come back. */
	if (ppa_unlikely(ppa_waiting.frame && ppa_waiting.frame <= (uintptr_t)w)) {
		ppa_waiting.gone = ppa_waiting.frame;
		give_up();
	}
	if (ppa_unlikely(ppa_waiting.gone == (uintptr_t)w))
		ppa_waiting.gone = 0;
	w->outer.frame = ppa_waiting.frame;
	w->outer.stay = ppa_waiting.stay;
	w->stay.at = NULL;
	w->is_io = false;
	w->is_for_lock = lock && atomic_load_explicit(&contention.mutex_fraction, memory_order_relaxed);
	if (w->is_for_lock)
		ppa_contended_enter(lock, stamp_of(w->begin_ns), &w->stay);
	ppa_waiting.stay = w->stay;
	/* A handler sees a frame only with its own stay. */
	atomic_signal_fence(memory_order_seq_cst);
	ppa_waiting.frame = (uintptr_t)w;
}

void ppa_wait_end(struct ppa_wait *w, enum ppa_wait_outcome outcome, uintptr_t function, uintptr_t caller)
{
	uint64_t ns = now_ns(), began = stamp_of(w->begin_ns);
	struct ppa_debt debt = {.whose = PPA_DEBT_NONE, .end = stamp_of(ns)};

	/* First: a registration is never ended twice. */
	ppa_waiting.frame = 0;
	atomic_signal_fence(memory_order_seq_cst);
	ppa_waiting.stay = w->outer.stay;
	atomic_signal_fence(memory_order_seq_cst);
	ppa_waiting.frame = w->outer.frame;
	if (ppa_unlikely(ppa_waiting.gone == (uintptr_t)w))
		ppa_waiting.gone = 0;
	else if (w->is_for_lock)
		ppa_contended_leave(&w->stay, stamp_of(ns), outcome == PPA_WAIT_GOT, &debt);
	if (outcome == PPA_WAIT_REFUSED)
		return;
	charge_debt(&debt);
	charge_waiter((debt.end - began) << UNIT_BITS, function, w->is_io, caller);
}

/* What the unwinder asks for each frame of a hook (Itanium C++ ABI, 1.6.2): nothing here catches; while frames are
 * being left (phase 2), the wait is over. */
int ppa_wait_personality(int version, int actions, uint64_t class, void *exception, void *context) PPA_CTX_ANY;
int ppa_wait_personality(int version, int actions, uint64_t class, void *exception, void *context)
{
	enum { CLEANUP_PHASE = 2, CONTINUE_UNWIND = 8 };

	(void)version, (void)class, (void)exception, (void)context;
	if (actions & CLEANUP_PHASE && ppa_waiting.frame)
		give_up();
	return CONTINUE_UNWIND;
}

/* ---- releases ---- */

/* Longer than anybody needs from being registered to going to sleep. */
enum { FALLING_ASLEEP_NS = 50000 };

bool ppa_release_begin(struct ppa_releasing *r, const void *lock, bool may_have_sleepers)
{
	uint64_t now;

	if (ppa_unlikely(ppa_self.is_ours))
		return false;
	now = now_ns();
	if (!ppa_contended_release(lock, stamp_of(now), &r->release))
		return false;
	r->scale = draw_mutex_scale();
	if (!may_have_sleepers && r->release.time > FALLING_ASLEEP_NS >> UNIT_BITS) {
		charge_unknown(0, r->release.time * r->scale);
		r->release.time = 0;
	}
	/* Nobody has to wait for the stack of a release that is not kept. */
	if (!r->scale) {
		struct ppa_debt unused;

		ppa_contended_settle(&r->release, 0, 0, &unused);
		return false;
	}
	return true;
}

void ppa_release_end(struct ppa_releasing *r, bool is_released, uintptr_t function, uintptr_t caller)
{
	struct ppa_site *s = NULL;
	struct ppa_debt debt;

	if (is_released) {
		s = find_site(&ppa_mutex_sites, function, false, caller);
		charge(s, 0, (r->release.time * r->scale) << UNIT_BITS);
	} else {
		charge_unknown(0, r->release.time * r->scale);
	}
	ppa_contended_settle(&r->release, (uintptr_t)s, (uint16_t)r->scale, &debt);
	charge_debt(&debt);
}

/* ---- the rest ---- */

struct ppa_contention_values ppa_contention_read(const struct ppa_site *s)
{
	uint64_t contentions = atomic_load_explicit(&s->counters[CONTENTIONS], memory_order_relaxed);

	return (struct ppa_contention_values){
		.contentions = (int64_t)((contentions + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS),
		.delay_ns = (int64_t)atomic_load_explicit(&s->counters[DELAY], memory_order_relaxed),
	};
}

static void turn(void)
{
	bool has_io = atomic_load_explicit(&contention.wants_io, memory_order_relaxed);
	bool is_on = atomic_load_explicit(&contention.is_ready, memory_order_relaxed) &&
		     (ppa_contention_block_rate() || ppa_contention_mutex_fraction());

	atomic_store_explicit(&ppa_contention_on, is_on, memory_order_relaxed);
	atomic_store_explicit(&ppa_contention_io, is_on && has_io && ppa_contention_block_rate(), memory_order_relaxed);
	for (size_t i = 0; i < PPA_ARRAY_LEN(contention.turns) && contention.turns[i]; i++)
		contention.turns[i](is_on);
}

void ppa_contention_on_turn(void (*f)(bool is_on))
{
	size_t i = 0;

	while (i < PPA_ARRAY_LEN(contention.turns) && contention.turns[i])
		i++;
	if (i < PPA_ARRAY_LEN(contention.turns))
		contention.turns[i] = f;
	turn();
}

void ppa_contention_set_block_rate(uint64_t ns)
{
	atomic_store_explicit(&contention.block_rate, ns, memory_order_relaxed);
	turn();
}

void ppa_contention_set_mutex_fraction(uint64_t n)
{
	atomic_store_explicit(&contention.mutex_fraction, n < SCALE_MAX ? n : SCALE_MAX, memory_order_relaxed);
	turn();
}

void ppa_contention_set_io(bool is_on)
{
	atomic_store_explicit(&contention.wants_io, is_on, memory_order_relaxed);
	turn();
}

bool ppa_contention_wants_io(void)
{
	return atomic_load_explicit(&contention.wants_io, memory_order_relaxed);
}

uint64_t ppa_contention_block_rate(void)
{
	return atomic_load_explicit(&contention.block_rate, memory_order_relaxed);
}

uint64_t ppa_contention_mutex_fraction(void)
{
	return atomic_load_explicit(&contention.mutex_fraction, memory_order_relaxed);
}

int ppa_contention_start(uint64_t block_rate, uint64_t mutex_fraction)
{
	int err = ppa_sites_init(&ppa_block_sites);

	if (!err)
		err = ppa_sites_init(&ppa_mutex_sites);
	if (!err)
		err = ppa_stack_init();
	if (err)
		return err;
	contention.epoch_ns = now_ns();
	atomic_store_explicit(&contention.is_ready, true, memory_order_relaxed);
	ppa_contention_set_mutex_fraction(mutex_fraction);
	ppa_contention_set_block_rate(block_rate);
	return 0;
}

void ppa_contention_reset(void)
{
	ppa_contended_reset();
	ppa_stack_reset();
}
