/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool of walk buffers, taken by a try; a thread that finds none loses the stack of one event, not the event. A handler
 * of the target that jumps out of a walk (siglongjmp) leaves a buffer behind; its thread finds that again, because it is
 * further up the same stack by then. */
#include "agent/thread/stack_here.h"

#include <errno.h>
#include <stdatomic.h>

#include "agent/base/self.h"
#include "agent/base/sys.h"
#include "agent/profile/marker.h"
#include "agent/profile/sites.h"
#include "agent/profile/unloads.h"
#include "agent/thread/stack_known.h"
#include "agent/thread/threads.h"
#include "unwind/module/modules.h"
#include "unwind/walk/unwind.h"

enum { BUFFERS = 64 };

struct buffer {
	_Atomic int busy;
	/* written by the holder, who alone recognises them */
	const void *_Atomic owner; /* its ppa_self */
	_Atomic uintptr_t frame;   /* on its own stack; 0 elsewhere */
	uintptr_t alone;	   /* the one frame, where there is no walk */
	struct ppa_unwind_buf walk;
	struct ppa_unwind_trail trail;
};

static struct {
	_Atomic(struct buffer *) buffers; /* set once */
	_Atomic int tried;		  /* so many of them were ever asked for: the first ones */
	uintptr_t lost;			  /* address of the marker [lost samples] */
} pool;

/* This library's own extent, from the linker. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

PPA_CTX_MALLOC static bool is_own(uintptr_t pc)
{
	return pc >= (uintptr_t)__ehdr_start && pc < (uintptr_t)_end;
}

/* Did this thread jump out of the walk that holds b? */
PPA_CTX_MALLOC static bool is_left_behind(const struct buffer *b, uintptr_t frame)
{
	return frame && atomic_load_explicit(&b->owner, memory_order_relaxed) == &ppa_self &&
	       atomic_load_explicit(&b->frame, memory_order_relaxed) &&
	       atomic_load_explicit(&b->frame, memory_order_relaxed) < frame;
}

/* Our frame, if it lies on the thread's own stack: on others depth tells nothing. */
PPA_CTX_MALLOC static uintptr_t own_frame(uintptr_t frame)
{
	const struct ppa_stack_bounds *s = ppa_self.slot ? &ppa_self.slot->bounds : NULL;

	return s && frame >= s->lo && frame < s->hi ? frame : 0;
}

PPA_CTX_MALLOC static void note_tried(int n)
{
	int most = atomic_load_explicit(&pool.tried, memory_order_relaxed);

	while (ppa_unlikely(most < n) && !atomic_compare_exchange_weak_explicit(
						 &pool.tried, &most, n, memory_order_relaxed, memory_order_relaxed))
		;
}

PPA_CTX_MALLOC static struct buffer *take_buffer(uintptr_t frame)
{
	/* acquire: pairs with the release in ppa_stack_init. */
	struct buffer *b = atomic_load_explicit(&pool.buffers, memory_order_acquire);

	for (int i = 0; b && i < BUFFERS; i++, b++) {
		int zero = 0;

		note_tried(i + 1); /* before it is taken, so that a child of a fork knows of all that may be */
		/* acquire: the last walk's writes come before ours; pairs with the release in ppa_stack_drop. */
		if (!is_left_behind(b, frame) &&
		    (atomic_load_explicit(&b->busy, memory_order_relaxed) ||
		     !atomic_compare_exchange_strong_explicit(&b->busy, &zero, 1, memory_order_acquire,
							      memory_order_relaxed)))
			continue;
		atomic_store_explicit(&b->owner, &ppa_self, memory_order_relaxed);
		atomic_store_explicit(&b->frame, frame, memory_order_relaxed);
		return b;
	}
	return NULL;
}

/* The serials of all modules on the stack that can be unloaded, in order, as one number. */
PPA_CTX_MALLOC static uint64_t origin_of(const uintptr_t *pcs, uint32_t npcs)
{
	unsigned token = ppa_modules_read_begin();
	struct ppa_code code;
	uint64_t h = 0;

	for (uint32_t i = 0; i < npcs; i++)
		if (ppa_modules_find(pcs[i], &code) && !code.stays)
			h = ppa_origin_add(h, code.serial ? code.serial : ppa_unloads_note_unknown());
	ppa_modules_read_end(token);
	return h;
}

/* floor: of the trail that is wanted, 0: none. */
PPA_CTX_MALLOC static void take(uintptr_t caller, uintptr_t floor, struct ppa_stack_here *out)
{
	struct buffer *b = take_buffer(own_frame((uintptr_t)__builtin_frame_address(0)));
	const struct ppa_stack_bounds *bounds = ppa_self.slot ? &ppa_self.slot->bounds : NULL;
	uint32_t own = 0;

	*out = (struct ppa_stack_here){&pool.lost, 1, 0, b};
	if (ppa_unlikely(!b))
		return;
	b->trail.floor = floor;
	if (floor)
		ppa_unwind_here_trailed(bounds, &b->walk, &b->trail);
	else
		ppa_unwind_here(bounds, &b->walk);
	while (own < b->walk.npcs && is_own(b->walk.pcs[own]))
		own++;
	if (ppa_unlikely(own == b->walk.npcs)) {
		b->alone = caller - 1;
		b->trail.holds = false;
		out->pcs = &b->alone;
		return;
	}
	out->pcs = b->walk.pcs + own;
	out->npcs = b->walk.npcs - own;
	if (b->walk.may_go)
		out->origin = origin_of(out->pcs, out->npcs);
}

void ppa_stack_take(uintptr_t caller, struct ppa_stack_here *out)
{
	take(caller, 0, out);
}

PPA_CTX_MALLOC static void find_by_walk(const struct ppa_stack_key *key, struct ppa_stack_want *wants, size_t n)
{
	struct ppa_stack_here s;
	struct buffer *b;
	bool is_kept = true;

	take(key->caller, key->room ? key->frame : 0, &s);
	b = s.buffer;
	if (key->function)
		ppa_stack_add_leaf(&s, key->function);
	for (size_t i = 0; i < n; i++) {
		struct ppa_stack_here more = s;

		if (wants[i].above)
			ppa_stack_add_leaf(&more, wants[i].above);
		wants[i].site = ppa_sites_find(wants[i].table, more.pcs, more.npcs, more.origin, wants[i].label);
		/* What finds no room is counted each time. */
		is_kept &= wants[i].site != atomic_load_explicit(&wants[i].table->other, memory_order_relaxed);
		is_kept &=
			!wants[i].is_sampled || atomic_load_explicit(&wants[i].site->counters[0], memory_order_relaxed);
	}
	if (is_kept && key->room && b && b->trail.holds)
		ppa_stack_known_keep(key, &b->trail, b->walk.may_go, wants, n);
	ppa_stack_drop(&s);
}

/* What is known is the stack; the site may be that of another label. */
PPA_CTX_MALLOC static void relabel(struct ppa_stack_want *wants, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct ppa_site *s = wants[i].site;

		if (s->label != wants[i].label)
			wants[i].site = ppa_sites_find(wants[i].table, s->pcs, s->npcs, s->origin, wants[i].label);
	}
}

void ppa_stack_find(struct ppa_stack_want *wants, size_t n, uintptr_t function, uintptr_t caller)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	/* Of stacks that are not the thread's own nobody knows where they end. */
	bool is_own_stack = own_frame(frame) != 0;
	struct ppa_stack_key key = {frame, is_own_stack ? ppa_self.slot->bounds.hi - frame : 0, caller, function};

	if (is_own_stack && ppa_stack_known_find(&key, wants, n))
		relabel(wants, n);
	else
		find_by_walk(&key, wants, n);
}

void ppa_stack_add_leaf(struct ppa_stack_here *s, uintptr_t pc)
{
	struct buffer *b = s->buffer;

	/* A stack of one frame, not walked, lies before the walk. */
	if (!b || s->pcs <= b->walk.pcs)
		return;
	b->walk.pcs[s->pcs - b->walk.pcs - 1] = pc;
	s->pcs--;
	s->npcs++;
}

void ppa_stack_drop(struct ppa_stack_here *s)
{
	struct buffer *b = s->buffer;

	if (!b)
		return;
	atomic_store_explicit(&b->owner, NULL, memory_order_relaxed);
	/* release: pairs with the acquire in take_buffer */
	atomic_store_explicit(&b->busy, 0, memory_order_release);
}

int ppa_stack_init(void)
{
	struct buffer *b;

	pool.lost = ppa_marker_address(PPA_MARKER_LOST);
	if (atomic_load_explicit(&pool.buffers, memory_order_relaxed))
		return 0;
	b = ppa_sys_map(BUFFERS * sizeof(*b));
	if (!b)
		return -ENOMEM;
	atomic_store_explicit(&pool.buffers, b, memory_order_release);
	ppa_stack_known_init();
	return 0;
}

void ppa_stack_reset(void)
{
	struct buffer *b = atomic_load_explicit(&pool.buffers, memory_order_relaxed);
	int n = atomic_load_explicit(&pool.tried, memory_order_relaxed);

	/* Each lies on pages of its own, which a child of a fork would have to be given. */
	for (int i = 0; b && i < n; i++)
		if (atomic_load_explicit(&b[i].busy, memory_order_relaxed))
			atomic_store_explicit(&b[i].busy, 0, memory_order_relaxed);
}
