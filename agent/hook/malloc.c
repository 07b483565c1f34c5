/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocation family. In the common case a hook is a countdown (malloc) or one look at a byte (free) and a jump to
 * the genuine function, whose caller is then the target's code. operator new is left to the library that defines it and
 * comes here from there; strdup and its like come here from libc.
 *
 * A block is recorded after it was allocated and forgotten before it is freed; realloc forgets the old one when it has succeeded.
 * errno, alignment, usable size and failures are the genuine ones. free_sized and free_aligned_sized (C23) are free.
 * reallocarray is realloc after a check, as in every libc that has it; calling the genuine one would come back here.
 *
 * What a pair of malloc and free costs over a preload that only passes on (Zen 4, 32 cycles, of which the branch predictor
 * needs each: it delivers one run of instructions up to a known branch a cycle). A conditional jump is known once it was
 * taken, and an indirect one behind it needs a run of its own; what was never taken costs nothing, nor do the
 * instructions, while nobody shares the core. So sampling cost two cycles, 0.03 each (two threads, 0.07): the jump to
 * malloc_due and that to free_known, which a sample takes once in 8,000 pairs; and nothing where sampling was never on,
 * because there the count never runs out (heap/heap.c). Where sampling is on from the start, the two jumps of malloc,
 * calloc and free are made one (base/static_call.h), which overturns the tail call through a pointer of decision D7:
 * 0.00 on (two threads 0.005), 80 rounds, the control within 0.004. Where that cannot be done, and where sampling was switched on
 * later, it is as before. Rejected, as measured where a neighbour shares the core or at rest:
 *   instead of the jump a conditional move of the target, jump by register: 0.02 for malloc alone
 *   the jump behind it direct, or in another line                    0.03 to 0.04 for malloc alone
 *   free first asks whether there is a table, and jumps if there is  on 0.04, off 0.00
 *   free jumps through a pointer, which is libc's while off          on 0.05, off 0.00
 *   malloc jumps through a pointer, which is libc's while off        on 0.08, off 0.00
 *   free jumps through a table of functions instead of the filter    on 0.10, off 0.08
 *   sampled blocks from memalign(2048), known by test $0x7e0         on 0.05 (two threads 0.07), off 0.04
 *   the same, blocks below 1040 bytes not enlarged                   on 0.13 (tcache hands them out again at once)
 *   as compiled in the patched form, a jump to a jump through a pointer: off 0.06
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/self.h"
#include "agent/heap/allocator.h"
#include "agent/heap/heap.h"
#include "agent/heap/blocks.h"
#include "agent/heap/countdown_x86_64.h"
#include "agent/heap/own.h"

enum { PAGE_BYTES = 4096 };

#define CALLER ((uintptr_t)__builtin_return_address(0))
#define COLD __attribute__((noinline, cold))
/* The whole common case in one line of the instruction cache: across two a pair took 1 to 6 % more. */
#define ONE_LINE __attribute__((aligned(64)))

/* Count n bytes down; true if that is beyond the next sample point (or nobody knows where that is), and then the count is
 * as it was once undo has been called. (n + 1 wraps to 0 for a block that nobody has room for: the genuine function says
 * so.) */
static inline __attribute__((always_inline)) bool is_due(size_t n)
{
	return ppa_arch_count_down(&ppa_self.heap_left, (uint64_t)n + 1);
}

/* The same in the hooks that run most often, which a static call leaves: goto detour if it is due. */
#define COUNT_DOWN(n) PPA_ARCH_COUNT_DOWN(ppa_self.heap_left, (uint64_t)(n) + 1)

static void undo(size_t n)
{
	ppa_self.heap_left += (uint64_t)n + 1;
	/* A handler of the target's came in between and allocated. */
	if (ppa_self.heap_left > INT64_MAX)
		ppa_self.heap_left = 0;
}

/* ---- malloc, calloc ---- */

static COLD void *malloc_due(size_t n, uintptr_t caller)
{
	uint64_t rate;
	void *p;

	undo(n);
	if (ppa_allocator_serves_own())
		return ppa_allocator_own(n, false);
	if (!ppa_heap_decide(n, &rate))
		return ppa_allocator.malloc(n);
	p = ppa_allocator.malloc(n);
	if (p)
		ppa_heap_record(p, n, rate, caller);
	return p;
}

PPA_EXPORT ONE_LINE void *malloc(size_t n)
{
	COUNT_DOWN(n);
	return ppa_allocator.malloc(n);
detour:
	return malloc_due(n, CALLER);
}

static COLD void *calloc_due(size_t n, size_t size, uintptr_t caller)
{
	uint64_t rate;
	void *p;

	undo(n * size);
	if (ppa_allocator_serves_own())
		return ppa_allocator_own(n * size, true);
	if (!ppa_heap_decide(n * size, &rate))
		return ppa_allocator.calloc(n, size);
	p = ppa_allocator.calloc(n, size);
	if (p)
		ppa_heap_record(p, n * size, rate, caller);
	return p;
}

/* Apart, so that no jump of the hook leads to the one that ends its static call. */
static COLD void *calloc_uncounted(size_t n, size_t size)
{
	return ppa_allocator.calloc(n, size);
}

PPA_EXPORT ONE_LINE void *calloc(size_t n, size_t size)
{
	size_t total;

	if (ppa_unlikely(__builtin_mul_overflow(n, size, &total) || ppa_allocator.nests))
		return calloc_uncounted(n, size);
	COUNT_DOWN(total);
	return ppa_allocator.calloc(n, size);
detour:
	return calloc_due(n, size, CALLER);
}

/* ---- free ---- */

static COLD void free_known(void *p)
{
	struct ppa_block l;

	if (ppa_blocks_remove(p, &l)) {
		if (l.site == PPA_BLOCK_OWN)
			ppa_own_free(p, l.bytes);
		if (l.site == PPA_BLOCK_OWN || l.site == PPA_BLOCK_ORPHAN)
			return;
		ppa_heap_forget(&l);
	}
	ppa_allocator.free(p);
}

PPA_EXPORT ONE_LINE void free(void *p)
{
	PPA_ARCH_IF_SET(ppa_blocks_filter_byte(p));
	ppa_allocator.free(p);
	return;
detour:
	free_known(p);
}

PPA_EXPORT void free_sized(void *p, size_t n);
PPA_EXPORT void free_sized(void *p, size_t n)
{
	(void)n;
	free(p);
}

PPA_EXPORT void free_aligned_sized(void *p, size_t alignment, size_t n);
PPA_EXPORT void free_aligned_sized(void *p, size_t alignment, size_t n)
{
	(void)alignment;
	(void)n;
	free(p);
}

/* ---- realloc ---- */

/* A block of the agent's heap becomes one of whoever the caller is. */
static void *move_own(void *p, size_t n, struct ppa_block_place *place, const struct ppa_block *l)
{
	void *q = n ? malloc(n) : NULL;

	if (n && !q) {
		ppa_blocks_restore(place, p);
		return NULL;
	}
	if (q)
		memcpy(q, p, n < l->bytes ? n : l->bytes);
	ppa_blocks_drop(place, p, l);
	if (l->site == PPA_BLOCK_OWN)
		ppa_own_free(p, l->bytes);
	return q;
}

/* The genuine one, and whether p is gone: realloc to nothing may free and return NULL. */
static void *realloc_telling(void *p, size_t n, bool *gone)
{
	int saved = errno;
	void *q;

	if (n) {
		q = ppa_allocator.realloc(p, n);
		*gone = q != NULL;
		return q;
	}
	errno = 0;
	q = ppa_allocator.realloc(p, n);
	*gone = q || errno != ENOMEM;
	if (!errno)
		errno = saved;
	return q;
}

static COLD void *realloc_due(void *p, size_t n, uintptr_t caller)
{
	struct ppa_block l;
	struct ppa_block_place *place = ppa_blocks_may_have(p) ? ppa_blocks_hide(p, &l) : NULL;
	bool is_sampled, gone;
	uint64_t rate;
	void *q;

	undo(n);
	if (place && (l.site == PPA_BLOCK_OWN || l.site == PPA_BLOCK_ORPHAN))
		return move_own(p, n, place, &l);
	if (!p && ppa_allocator_serves_own())
		return ppa_allocator_own(n, false);
	is_sampled = !ppa_allocator_serves_own() && ppa_heap_decide(n, &rate);
	q = realloc_telling(p, n, &gone);
	if (place && gone) {
		ppa_heap_forget(&l);
		ppa_blocks_drop(place, p, &l);
	} else if (place) {
		ppa_blocks_restore(place, p);
	}
	if (q && is_sampled)
		ppa_heap_record(q, n, rate, caller);
	return q;
}

static inline __attribute__((always_inline)) void *realloc_from(void *p, size_t n, uintptr_t caller)
{
	if (ppa_unlikely(is_due(n) || ppa_blocks_may_have(p)))
		return realloc_due(p, n, caller);
	return ppa_allocator.realloc(p, n);
}

PPA_EXPORT void *realloc(void *p, size_t n)
{
	return realloc_from(p, n, CALLER);
}

PPA_EXPORT void *reallocarray(void *p, size_t n, size_t size)
{
	size_t total;

	if (ppa_unlikely(__builtin_mul_overflow(n, size, &total))) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc_from(p, total, CALLER);
}

/* ---- aligned blocks ---- */

static COLD int posix_memalign_due(void **out, size_t alignment, size_t n, uintptr_t caller)
{
	uint64_t rate;
	int err;

	undo(n);
	if (ppa_allocator_serves_own() || !ppa_heap_decide(n, &rate))
		return ppa_allocator.posix_memalign(out, alignment, n);
	err = ppa_allocator.posix_memalign(out, alignment, n);
	if (!err && *out)
		ppa_heap_record(*out, n, rate, caller);
	return err;
}

PPA_EXPORT int posix_memalign(void **out, size_t alignment, size_t n)
{
	if (ppa_unlikely(!ppa_allocator.nests && is_due(n)))
		return posix_memalign_due(out, alignment, n, CALLER);
	return ppa_allocator.posix_memalign(out, alignment, n);
}

static COLD void *aligned_due(void *(*genuine)(size_t, size_t), size_t alignment, size_t n, uintptr_t caller)
{
	uint64_t rate;
	void *p;

	undo(n);
	if (ppa_allocator_serves_own() || !ppa_heap_decide(n, &rate))
		return genuine(alignment, n);
	p = genuine(alignment, n);
	if (p)
		ppa_heap_record(p, n, rate, caller);
	return p;
}

PPA_EXPORT void *aligned_alloc(size_t alignment, size_t n)
{
	if (ppa_unlikely(is_due(n)))
		return aligned_due(ppa_allocator.aligned_alloc, alignment, n, CALLER);
	return ppa_allocator.aligned_alloc(alignment, n);
}

PPA_EXPORT void *memalign(size_t alignment, size_t n)
{
	if (ppa_unlikely(!ppa_allocator.nests && is_due(n)))
		return aligned_due(ppa_allocator.memalign, alignment, n, CALLER);
	return ppa_allocator.memalign(alignment, n);
}

static COLD void *paged_due(void *(*genuine)(size_t), size_t n, uintptr_t caller)
{
	uint64_t rate;
	void *p;

	undo(n);
	if (ppa_allocator_serves_own() || !ppa_heap_decide(n, &rate))
		return genuine(n);
	p = genuine(n);
	if (p)
		ppa_heap_record(p, n, rate, caller);
	return p;
}

PPA_EXPORT void *valloc(size_t n)
{
	if (ppa_unlikely(!ppa_allocator.nests && is_due(n)))
		return paged_due(ppa_allocator.valloc, n, CALLER);
	return ppa_allocator.valloc(n);
}

PPA_EXPORT void *pvalloc(size_t n)
{
	if (ppa_unlikely(!ppa_allocator.nests && is_due(n)))
		return paged_due(ppa_allocator.pvalloc, n, CALLER);
	return ppa_allocator.pvalloc(n);
}

/* ---- what is no allocation ---- */

/* By its own name the loader might find somebody else's. */
extern void *own_malloc(size_t n)
	__attribute__((alias("malloc"), visibility("hidden"), leaf, malloc, nothrow, alloc_size(1)));

uintptr_t ppa_heap_hook_address(void)
{
	return (uintptr_t)own_malloc;
}

static COLD size_t own_usable_size(void *p)
{
	struct ppa_block l;

	return ppa_blocks_find(p, &l) ? l.bytes : 0;
}

/* redis asks 18 times a request. */
PPA_EXPORT ONE_LINE size_t malloc_usable_size(void *p)
{
	PPA_ARCH_IF_LESS(ppa_own_offset(p), PPA_OWN_RANGE_BYTES);
	return ppa_allocator.malloc_usable_size(p);
detour:
	return own_usable_size(p);
}
