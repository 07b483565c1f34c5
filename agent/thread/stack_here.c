/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool of walk buffers, taken by a try; a thread that finds none loses the stack of one event, not the event. */
#include "agent/thread/stack_here.h"

#include <errno.h>
#include <stdatomic.h>

#include "agent/base/self.h"
#include "agent/base/sys.h"
#include "agent/profile/marker.h"
#include "agent/profile/unloads.h"
#include "agent/thread/threads.h"
#include "unwind/modules.h"
#include "unwind/unwind.h"

enum { BUFFERS = 64 };

struct buffer {
	_Atomic int busy;
	uintptr_t alone; /* the one frame, where there is no walk */
	struct ppa_unwind_buf walk;
};

static struct {
	_Atomic(struct buffer *) buffers; /* set once */
	uintptr_t lost;			  /* address of the marker [lost samples] */
} pool;

/* This library's own extent, from the linker. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

PPA_CTX_MALLOC static bool is_own(uintptr_t pc)
{
	return pc >= (uintptr_t)__ehdr_start && pc < (uintptr_t)_end;
}

PPA_CTX_MALLOC static struct buffer *take_buffer(void)
{
	/* acquire: pairs with the release in ppa_stack_init. */
	struct buffer *b = atomic_load_explicit(&pool.buffers, memory_order_acquire);

	for (int i = 0; b && i < BUFFERS; i++, b++) {
		int zero = 0;

		/* acquire: the last walk's writes come before ours; pairs with the release in ppa_stack_drop. */
		if (!atomic_load_explicit(&b->busy, memory_order_relaxed) &&
		    atomic_compare_exchange_strong_explicit(&b->busy, &zero, 1, memory_order_acquire,
							    memory_order_relaxed))
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

void ppa_stack_take(uintptr_t caller, struct ppa_stack_here *out)
{
	struct buffer *b = take_buffer();
	uint32_t own = 0;

	*out = (struct ppa_stack_here){&pool.lost, 1, 0, b};
	if (ppa_unlikely(!b))
		return;
	ppa_unwind_here(ppa_self.slot ? &ppa_self.slot->bounds : NULL, &b->walk);
	while (own < b->walk.npcs && is_own(b->walk.pcs[own]))
		own++;
	if (ppa_unlikely(own == b->walk.npcs)) {
		b->alone = caller - 1;
		out->pcs = &b->alone;
		return;
	}
	out->pcs = b->walk.pcs + own;
	out->npcs = b->walk.npcs - own;
	if (b->walk.may_go)
		out->origin = origin_of(out->pcs, out->npcs);
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

	if (b) /* release: pairs with the acquire in take_buffer */
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
	return 0;
}

void ppa_stack_reset(void)
{
	struct buffer *b = atomic_load_explicit(&pool.buffers, memory_order_relaxed);

	for (int i = 0; b && i < BUFFERS; i++)
		atomic_store_explicit(&b[i].busy, 0, memory_order_relaxed);
}
