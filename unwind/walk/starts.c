/* SPDX-License-Identifier: Apache-2.0
 *
 * Function starts as one bit a byte of text, for segments with next to no unwind tables: 50 KiB for musl's libc, nothing
 * where every library has its tables. starts_learn.c fills them; a few segments are more than any program has.
 *
 * Segments are published by count and never change or go away; children of a fork keep them. A static function that is
 * only called through pointers has no bit, and a pc in it is ascribed to the function before: callers verify. */
#include "unwind/walk/starts.h"

#include <stdatomic.h>

enum { SEGMENTS_MAX = 4, FUNCTION_BYTES_MAX = 32 << 10 };

struct segment {
	uintptr_t lo, hi;
	const uint64_t *bits;
};

static struct {
	/* release: the segments below it are complete; pairs with the acquire in ppa_starts_find. */
	_Atomic unsigned n;
	struct segment segments[SEGMENTS_MAX];
	/* Written before the first handler runs. */
	uintptr_t agent_lo, agent_hi;
} starts;

bool ppa_starts_add(uintptr_t lo, uintptr_t hi, const uint64_t *bits)
{
	unsigned n = atomic_load_explicit(&starts.n, memory_order_relaxed);

	if (n == SEGMENTS_MAX)
		return false;
	starts.segments[n] = (struct segment){lo, hi, bits};
	atomic_store_explicit(&starts.n, n + 1, memory_order_release);
	return true;
}

void ppa_starts_set_agent(uintptr_t lo, uintptr_t hi)
{
	starts.agent_lo = lo;
	starts.agent_hi = hi;
}

bool ppa_starts_is_agent(uintptr_t pc)
{
	return pc >= starts.agent_lo && pc < starts.agent_hi;
}

PPA_CTX_SIGNAL static uintptr_t last_bit(const struct segment *s, uintptr_t at)
{
	uintptr_t word = at / 64, first = at > FUNCTION_BYTES_MAX ? (at - FUNCTION_BYTES_MAX) / 64 : 0;
	uint64_t bits = s->bits[word] & (UINT64_MAX >> (63 - at % 64));

	while (!bits && word > first)
		bits = s->bits[--word];
	return bits ? s->lo + word * 64 + 63 - (unsigned)__builtin_clzll(bits) : 0;
}

uintptr_t ppa_starts_find(uintptr_t pc)
{
	unsigned n = atomic_load_explicit(&starts.n, memory_order_acquire);

	for (unsigned i = 0; i < n; i++)
		if (pc >= starts.segments[i].lo && pc < starts.segments[i].hi)
			return last_bit(starts.segments + i, pc - starts.segments[i].lo);
	return 0;
}
