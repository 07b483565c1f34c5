/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampling decision, and what is done with a sampled block. The common case, a block that is not sampled, ends in
 * the hook itself (hook/malloc.c): one subtraction.
 *
 * A thread whose count ran out draws the distance to its next point with the rate of then and keeps that rate with the
 * distance, so a point is always weighed with the rate that made it. While sampling is switched off a thread counts down an
 * idle distance and looks again. The process forgets, so starting over at any moment biases nothing.
 *
 * Where the agent, or only sampling, is off since the start a thread's count never runs out: a branch that was never taken
 * costs nothing, one that is taken once a MiB costs a cycle of each pair (see hook/malloc.c). Whoever switches sampling on
 * then has the threads ask (ppa_allocator_ask_threads).
 *
 * When half the room for live blocks is used up, the rate is doubled, again with each thirty-second more, and for each
 * block that is refused all the same: the weights keep the sums true. */
#include "agent/heap/heap.h"

#include <time.h>

#include "agent/base/self.h"
#include "agent/base/sys.h"
#include "agent/heap/allocator.h"
#include "agent/heap/blocks.h"
#include "agent/heap/own.h"
#include "agent/heap/poisson.h"
#include "agent/profile/random.h"
#include "agent/thread/stack_here.h"
#include "agent/thread/threads.h"

enum {
	IDLE_BYTES = 1 << 20,
	FEW = 256,     /* blocks for which there always is room */
	THINNEST = 32, /* doublings of the rate */
	STEPS = 32,    /* of the room for blocks: each holds as many samples, so all are equally true */
	SMALLEST_CLASS = 16,
};
#define NEVER (UINT64_C(1) << 62)
#define LARGEST_CLASS (UINT64_C(1) << (PPA_HEAP_TAGS_SHIFT - 1))

PPA_SITES(ppa_heap_sites, 0);

static struct {
	_Atomic uint64_t rate; /* 0: off */
	_Atomic bool is_ready; /* stacks can be recorded */
	_Atomic bool is_entered;
	_Atomic bool is_endless; /* known to be off, and never was on: counts do not run out */
	_Atomic uint64_t samples, lost;
	_Atomic unsigned refused; /* blocks for which there was no room, since there last was enough */
} heap;

/* How often the rate is doubled for want of room. */
PPA_CTX_MALLOC static unsigned doublings(void)
{
	unsigned refused = atomic_load_explicit(&heap.refused, memory_order_relaxed), n = 0;
	uint64_t room, step, used = ppa_blocks_count();

	/* The usual case, and each new thread comes by. */
	if (ppa_likely(!refused && used < FEW))
		return 0;
	room = ppa_blocks_room();
	step = room / STEPS;
	if (refused && used < room / 2)
		atomic_store_explicit(&heap.refused, refused = 0, memory_order_relaxed);
	if (used >= room / 2)
		n = step ? (unsigned)((used - room / 2) / step) + 1 : THINNEST;
	/* A full group refuses by chance; only many more refusals than before say that this was not thin enough. */
	if (refused)
		n += 32 - (unsigned)__builtin_clz(refused);
	return n < THINNEST ? n : THINNEST;
}

PPA_CTX_MALLOC static uint64_t rate_now(void)
{
	uint64_t rate = atomic_load_explicit(&heap.rate, memory_order_relaxed);
	unsigned n = doublings();

	return rate < PPA_POISSON_RATE_MAX >> n ? rate << n : PPA_POISSON_RATE_MAX;
}

/* A new distance. */
PPA_CTX_MALLOC static void draw(void)
{
	/* acquire: what is_ready promises. */
	uint64_t rate = atomic_load_explicit(&heap.is_ready, memory_order_acquire) ? rate_now() : 0;

	if (!atomic_load_explicit(&heap.is_entered, memory_order_relaxed))
		atomic_store_explicit(&heap.is_entered, true, memory_order_relaxed);
	ppa_self.heap_rate = rate;
	if (!rate)
		ppa_self.heap_left = atomic_load_explicit(&heap.is_endless, memory_order_relaxed) ? NEVER : IDLE_BYTES;
	else
		ppa_self.heap_left = rate == 1 ? 0 : ppa_poisson_gap(ppa_random_next(), rate);
}

bool ppa_heap_decide(size_t n, uint64_t *rate)
{
	if (!ppa_self.heap_rate)
		draw();
	*rate = ppa_self.heap_rate;
	if (n < ppa_self.heap_left) {
		ppa_self.heap_left -= n + 1;
		return false;
	}
	/* The points before this block do not tell about those behind it. */
	draw();
	return *rate != 0;
}

/* Sizes are told apart in steps of a half: two classes a doubling. */
PPA_CTX_MALLOC static uint64_t class_of(uint64_t n)
{
	uint64_t top;

	if (n <= SMALLEST_CLASS)
		return SMALLEST_CLASS;
	/* Nobody has that much memory. */
	if (n > LARGEST_CLASS)
		return LARGEST_CLASS;
	top = UINT64_C(1) << (63 - __builtin_clzll(n - 1));
	return n <= top + top / 2 ? top + top / 2 : 2 * top;
}

PPA_CTX_MALLOC static uint64_t site_label(size_t n)
{
	uint64_t tags = ppa_self.slot ? atomic_load_explicit(&ppa_self.slot->tags, memory_order_relaxed) : 0;

	return class_of(n) | tags << PPA_HEAP_TAGS_SHIFT;
}

PPA_CTX_MALLOC static uint64_t bytes_of(const struct ppa_block *l)
{
	return (uint64_t)(((unsigned __int128)l->bytes * l->weight + (1 << (PPA_HEAP_FRACTION - 1))) >>
			  PPA_HEAP_FRACTION);
}

void ppa_heap_record(const void *p, size_t n, uint64_t rate, uintptr_t caller)
{
	struct ppa_block l = {.bytes = n, .weight = ppa_poisson_weight((uint64_t)n + 1, rate)}, stale;
	struct ppa_stack_want want = {.table = &ppa_heap_sites, .label = site_label(n), .is_sampled = true};
	bool has_stale;

	l.born_s = ppa_sys_clock_ns(CLOCK_MONOTONIC) / 1000000000;
	ppa_stack_find(&want, 1, 0, caller);
	l.site = want.site;
	/* Before it can be freed. */
	ppa_site_add(l.site, PPA_HEAP_ALLOC_OBJECTS, l.weight);
	ppa_site_add(l.site, PPA_HEAP_ALLOC_BYTES, bytes_of(&l));
	atomic_fetch_add_explicit(&heap.samples, 1, memory_order_relaxed);
	if (!ppa_blocks_add(p, &l, &stale, &has_stale)) {
		ppa_heap_forget(&l);
		atomic_fetch_add_explicit(&heap.lost, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&heap.refused, 1, memory_order_relaxed);
	}
	if (has_stale)
		ppa_heap_forget(&stale);
}

void ppa_heap_forget(const struct ppa_block *l)
{
	if (l->site == PPA_BLOCK_OWN || l->site == PPA_BLOCK_ORPHAN)
		return;
	ppa_site_add(l->site, PPA_HEAP_FREE_OBJECTS, l->weight);
	/* release: whoever sees this free sees the allocation; pairs with ppa_heap_read. */
	atomic_fetch_add_explicit(&l->site->counters[PPA_HEAP_FREE_BYTES], bytes_of(l), memory_order_release);
}

struct ppa_heap_values ppa_heap_read(const struct ppa_site *s)
{
	uint64_t freed_bytes = atomic_load_explicit(&s->counters[PPA_HEAP_FREE_BYTES], memory_order_acquire);
	uint64_t freed = atomic_load_explicit(&s->counters[PPA_HEAP_FREE_OBJECTS], memory_order_acquire);
	uint64_t bytes = atomic_load_explicit(&s->counters[PPA_HEAP_ALLOC_BYTES], memory_order_acquire);
	uint64_t objects = atomic_load_explicit(&s->counters[PPA_HEAP_ALLOC_OBJECTS], memory_order_acquire);
	uint64_t half = 1 << (PPA_HEAP_FRACTION - 1);

	return (struct ppa_heap_values){
		.alloc_objects = (int64_t)((objects + half) >> PPA_HEAP_FRACTION),
		.alloc_bytes = (int64_t)bytes,
		.inuse_objects = (int64_t)((objects - freed + half) >> PPA_HEAP_FRACTION),
		.inuse_bytes = (int64_t)(bytes - freed_bytes),
	};
}

struct visitor {
	void (*visit)(const struct ppa_heap_block *b, void *arg);
	void *arg;
};

static void visit_block(const struct ppa_block *l, void *arg)
{
	const struct visitor *v = arg;
	struct ppa_heap_block b = {.site = l->site,
				   .bytes = l->bytes,
				   .objects = l->weight,
				   .total_bytes = bytes_of(l),
				   .born_s = l->born_s};

	if (l->site != PPA_BLOCK_OWN && l->site != PPA_BLOCK_ORPHAN)
		v->visit(&b, v->arg);
}

void ppa_heap_each_block(void (*visit)(const struct ppa_heap_block *b, void *arg), void *arg)
{
	struct visitor v = {visit, arg};

	ppa_blocks_each(visit_block, &v);
}

uint64_t ppa_heap_rate(void)
{
	return atomic_load_explicit(&heap.rate, memory_order_relaxed);
}

static void set_rate(uint64_t bytes)
{
	atomic_store_explicit(&heap.rate, bytes < PPA_POISSON_RATE_MAX ? bytes : PPA_POISSON_RATE_MAX,
			      memory_order_relaxed);
}

void ppa_heap_set_rate(uint64_t bytes)
{
	set_rate(bytes);
	/* A thread that saw the old rate and counts to NEVER just now is asked as well: the way to ask it stays. */
	if (bytes && atomic_exchange_explicit(&heap.is_endless, false, memory_order_relaxed))
		ppa_allocator_ask_threads();
}

void ppa_heap_stay_off(void)
{
	atomic_store_explicit(&heap.is_endless, true, memory_order_relaxed);
}

void ppa_heap_ask_again(void)
{
	/* No rate draws a distance like that; blocks that nobody had room for may have shortened it. */
	if (ppa_unlikely(ppa_self.heap_left > NEVER / 4))
		ppa_self.heap_left = 0;
}

struct ppa_heap_state ppa_heap_get_state(void)
{
	return (struct ppa_heap_state){
		.samples = atomic_load_explicit(&heap.samples, memory_order_relaxed),
		.lost = atomic_load_explicit(&heap.lost, memory_order_relaxed),
		.live = ppa_blocks_sampled(),
		.rate_now = rate_now(),
	};
}

bool ppa_heap_is_entered(void)
{
	return atomic_load_explicit(&heap.is_entered, memory_order_relaxed);
}

int ppa_heap_start(uint64_t rate)
{
	int err = ppa_sites_init(&ppa_heap_sites);

	if (!err)
		err = ppa_stack_init();
	if (err)
		return err;
	set_rate(rate);
	if (!rate)
		ppa_heap_stay_off();
	/* release: sites and buffers are there; pairs with the acquire in draw. */
	atomic_store_explicit(&heap.is_ready, true, memory_order_release);
	/* The thread that got here may have drawn an idle distance before. */
	ppa_self.heap_left = ppa_self.heap_rate = 0;
	return 0;
}

void ppa_heap_reset(void)
{
	ppa_blocks_reset();
	ppa_own_reset();
	ppa_stack_reset();
	ppa_heap_unseen_reset();
}
