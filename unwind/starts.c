/* SPDX-License-Identifier: Apache-2.0
 *
 * Function starts as one bit a byte of text, for segments with next to no unwind tables: 50 KiB for musl's libc, nothing
 * where every library has its tables. A bit is set by each direct call into the segment (E8 and a distance; what merely
 * looks like one goes astray mostly) and by each function the module exports. So static functions that are only called
 * through pointers are missing, and a pc in one is ascribed to the function before it: callers verify.
 *
 * Segments are published by count and never change or go away; children of a fork keep them. */
#include "unwind/starts.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "unwind/dynsyms.h"
#include "unwind/modules.h"
#include "unwind/symtab.h"

enum {
	SEGMENTS_MAX = 4,
	TEXT_MAX = 8 << 20,
	PIECE = 16 << 10,
	CALL_BYTES = 5,
	FUNCTION_BYTES_MAX = 32 << 10,
	HDR_BYTES = 12,		      /* of .eh_frame_hdr before its index */
	INDEX_BYTES = 8,	      /* an entry */
	MANY_BYTES_A_ENTRY = 8 << 10, /* more text than this a description: most functions have none */
};

struct segment {
	uintptr_t lo, hi;
	uint64_t *bits;
};

static struct {
	bool done; /* of the server's, under the sampler's lock */
	/* release: the segments below it are complete; pairs with the acquire in ppa_starts_find. */
	_Atomic unsigned n;
	struct segment segments[SEGMENTS_MAX];
} starts;

static void mark(struct segment *s, uintptr_t at)
{
	if (at >= s->lo && at < s->hi)
		s->bits[(at - s->lo) / 64] |= UINT64_C(1) << ((at - s->lo) % 64);
}

static void mark_called(struct segment *s)
{
	uint8_t *buf = ppa_vheap_malloc(PIECE);
	uintptr_t at = s->lo;
	long n;

	while (buf && at < s->hi &&
	       (n = ppa_sys_read_memory(buf, at, s->hi - at < PIECE ? s->hi - at : PIECE)) > CALL_BYTES) {
		for (long i = 0; i + CALL_BYTES <= n; i++) {
			int32_t distance;

			if (buf[i] != 0xe8)
				continue;
			memcpy(&distance, buf + i + 1, sizeof(distance));
			mark(s, at + (uintptr_t)i + CALL_BYTES + (uintptr_t)(intptr_t)distance);
		}
		at += (uintptr_t)n - (CALL_BYTES - 1);
	}
	ppa_vheap_free(buf);
}

static void mark_exported(struct segment *s, const struct ppa_module *m)
{
	struct ppa_symtab_builder b;
	struct ppa_symtab t;

	ppa_symtab_begin(&b);
	ppa_dynsyms_add(&b, m);
	if (ppa_symtab_finish(&b, &t))
		return;
	for (uint32_t i = 0; i < t.nentries; i++)
		mark(s, m->bias + t.entries[i].value);
	ppa_symtab_free(&t);
}

static bool lacks_tables(const struct ppa_text_segment *t)
{
	const struct ppa_module *m = t->module;
	size_t entries = m->eh_frame_hdr_len > HDR_BYTES ? (m->eh_frame_hdr_len - HDR_BYTES) / INDEX_BYTES : 0;

	return m->at_startup && !m->is_agent && t->end - t->start <= TEXT_MAX &&
	       (t->end - t->start) / (entries + 1) > MANY_BYTES_A_ENTRY;
}

void ppa_starts_learn(void)
{
	const struct ppa_module_table *table;
	unsigned n = 0;

	if (starts.done)
		return;
	starts.done = true;
	table = ppa_modules_hold();
	for (size_t i = 0; i < table->nsegs && n < SEGMENTS_MAX; i++) {
		const struct ppa_text_segment *t = table->segs + i;
		struct segment *s = starts.segments + n;

		if (!lacks_tables(t))
			continue;
		s->lo = t->start;
		s->hi = t->end;
		s->bits = ppa_sys_map((t->end - t->start + 63) / 64 * sizeof(*s->bits));
		if (!s->bits)
			continue;
		mark_called(s);
		mark_exported(s, t->module);
		n++;
	}
	ppa_modules_release(table);
	atomic_store_explicit(&starts.n, n, memory_order_release);
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
