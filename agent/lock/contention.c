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
#include "agent/trace/trace.h"

enum { CONTENTIONS, DELAY };
enum { FRACTION_BITS = 12, UNIT_BITS = 4, SCALE_MAX = UINT16_MAX };

PPA_SITES(ppa_block_sites, 0);
PPA_SITES(ppa_mutex_sites, 0);
_Atomic bool ppa_contention_on, ppa_contention_io;

static struct {
	_Atomic uint64_t block_rate; /* ns */
	_Atomic uint64_t mutex_fraction;
	uint64_t epoch_ns;	      /* set once */
	void (*turns[2])(bool is_on); /* set in constructors */
	_Atomic bool is_ready, wants_io, is_traced;
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

/* What block keeps of a wait of ns: contentions 0 is nothing. */
struct kept {
	uint64_t contentions, ns;
};

PPA_CTX_MALLOC static struct kept draw_block(uint64_t ns, bool is_io)
{
	uint64_t rate = atomic_load_explicit(&contention.block_rate, memory_order_relaxed);
	struct kept k = {1 << FRACTION_BITS, ns};

	if (!rate || (is_io && !atomic_load_explicit(&contention.wants_io, memory_order_relaxed)))
		return (struct kept){0, 0};
	if (ns >= rate)
		return k;
	/* Kept with probability ns / rate. */
	if ((uint64_t)(((unsigned __int128)ppa_random_next() * rate) >> 64) >= ns)
		return (struct kept){0, 0};
	k.contentions = (rate << FRACTION_BITS) / ns;
	k.ns = rate;
	return k;
}

/* A wait of ns for block is over, and what it is to the trace. One look at the stack serves both. */
PPA_CTX_MALLOC static void charge_waiter(const struct ppa_wait *w, uint64_t ns, const struct ppa_trace_wait *trace,
					 uintptr_t function, uintptr_t caller)
{
	bool is_traced = ppa_unlikely(ppa_trace_is_on()) && ppa_trace_wants(trace);
	struct kept k = draw_block(ns, w->is_io);
	struct ppa_stack_want wants[2];
	size_t n = 0;

	if (is_traced)
		wants[n++] = (struct ppa_stack_want){.table = &ppa_trace_sites};
	if (k.contentions)
		wants[n++] = (struct ppa_stack_want){
			.table = &ppa_block_sites,
			.above = w->is_io ? ppa_marker_address(PPA_MARKER_IO) : 0,
		};
	if (!n)
		return;
	ppa_stack_find(wants, n, function, caller);
	if (is_traced)
		ppa_trace_wait(trace, wants[0].site);
	if (k.contentions)
		charge(wants[n - 1].site, k.contentions, k.ns);
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

/* Whom signals and posts wake is found by what they are for. Locks have their own watch. */
PPA_CTX_MALLOC static bool is_woken(enum ppa_parked_kind kind)
{
	return kind == PPA_PARKED_CONDITION || kind == PPA_PARKED_SEMAPHORE || kind == PPA_PARKED_FUTEX;
}

PPA_CTX_MALLOC static void unwatch(struct ppa_wait *w)
{
	if (w->is_watched)
		ppa_trace_unwatch(w->object, w->watching);
	w->is_watched = false;
}

PPA_CTX_MALLOC static struct ppa_trace_wait trace_of(const struct ppa_wait *w, uint64_t end_ns,
						     enum ppa_wait_outcome outcome)
{
	return (struct ppa_trace_wait){w->kind, w->fd, w->object, w->begin_ns, end_ns, outcome != PPA_WAIT_GOT};
}

void ppa_wait_begin(struct ppa_wait *w, const void *lock, enum ppa_parked_kind kind, const void *object)
{
	bool is_traced = ppa_trace_is_on();

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
	w->kind = kind;
	w->object = object;
	w->fd = PPA_TRACE_FD_NONE;
	w->is_watched = ppa_unlikely(is_traced) && is_woken(kind);
	if (w->is_watched)
		w->watching = ppa_trace_watch(object);
	w->is_for_lock = lock && (is_traced || atomic_load_explicit(&contention.mutex_fraction, memory_order_relaxed));
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
	struct ppa_trace_wait trace;

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
	unwatch(w);
	if (outcome == PPA_WAIT_REFUSED)
		return;
	charge_debt(&debt);
	trace = trace_of(w, ns, outcome);
	charge_waiter(w, (debt.end - began) << UNIT_BITS, &trace, function, caller);
}

/* The unwinder's frames are on the stack, too. */
static void trace_left(const struct ppa_trace_wait *trace)
{
	struct ppa_stack_want want = {.table = &ppa_trace_sites};

	ppa_stack_find(&want, 1, 0, (uintptr_t)__builtin_return_address(0));
	ppa_trace_wait(trace, want.site);
}

/* What the unwinder asks for each frame of a hook (Itanium C++ ABI, 1.6.2): nothing here catches; while frames are
 * being left (phase 2), the wait is over. */
int ppa_wait_personality(int version, int actions, uint64_t class, void *exception, void *context) PPA_CTX_ANY;
int ppa_wait_personality(int version, int actions, uint64_t class, void *exception, void *context)
{
	enum { CLEANUP_PHASE = 2, CONTINUE_UNWIND = 8 };
	struct ppa_wait *left; /* its frame is being left, and still there */
	struct ppa_trace_wait trace;

	(void)version, (void)class, (void)exception, (void)context;
	if (actions & CLEANUP_PHASE && ppa_waiting.frame) {
		left = (struct ppa_wait *)ppa_waiting.frame;
		give_up();
		unwatch(left);
		trace = trace_of(left, now_ns(), PPA_WAIT_VAIN);
		if (ppa_trace_is_on() && ppa_trace_wants(&trace))
			trace_left(&trace);
	}
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
	r->lock = lock;
	/* Anew: the books took a moment, which the woken thread did not wait for. */
	r->trace_ns = ppa_trace_is_on() ? now_ns() : 0;
	r->scale = draw_mutex_scale();
	if (!may_have_sleepers && r->release.time > FALLING_ASLEEP_NS >> UNIT_BITS) {
		charge_unknown(0, r->release.time * r->scale);
		r->release.time = 0;
	}
	/* Nobody has to wait for the stack of a release that is not kept. */
	if (!r->scale) {
		struct ppa_debt unused;

		ppa_contended_settle(&r->release, 0, 0, &unused);
		return r->trace_ns != 0;
	}
	return true;
}

/* Who it was, to the mutex profile; site: NULL if it was not released after all. */
PPA_CTX_MALLOC static void settle(struct ppa_releasing *r, struct ppa_site *site)
{
	struct ppa_debt debt;

	if (site)
		charge(site, 0, (r->release.time * r->scale) << UNIT_BITS);
	else
		charge_unknown(0, r->release.time * r->scale);
	ppa_contended_settle(&r->release, (uintptr_t)site, (uint16_t)r->scale, &debt);
	charge_debt(&debt);
}

void ppa_release_end(struct ppa_releasing *r, bool is_released, uintptr_t function, uintptr_t caller)
{
	struct ppa_stack_want wants[2];
	size_t n = 0;

	if (!is_released) {
		if (r->scale)
			settle(r, NULL);
		return;
	}
	if (r->scale)
		wants[n++] = (struct ppa_stack_want){.table = &ppa_mutex_sites};
	if (ppa_unlikely(r->trace_ns))
		wants[n++] = (struct ppa_stack_want){.table = &ppa_trace_sites};
	ppa_stack_find(wants, n, function, caller);
	if (r->scale)
		settle(r, wants[0].site);
	if (ppa_unlikely(r->trace_ns))
		ppa_trace_wake_at(r->lock, r->trace_ns, false, wants[n - 1].site);
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
	bool has_io = atomic_load_explicit(&contention.wants_io, memory_order_relaxed) && ppa_contention_block_rate();
	bool is_traced = atomic_load_explicit(&contention.is_traced, memory_order_relaxed);
	bool is_on = atomic_load_explicit(&contention.is_ready, memory_order_relaxed) &&
		     (ppa_contention_block_rate() || ppa_contention_mutex_fraction() || is_traced);

	atomic_store_explicit(&ppa_contention_on, is_on, memory_order_relaxed);
	atomic_store_explicit(&ppa_contention_io, is_on && (has_io || is_traced), memory_order_relaxed);
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

void ppa_contention_set_trace(bool is_on)
{
	atomic_store_explicit(&contention.is_traced, is_on, memory_order_relaxed);
	turn();
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
