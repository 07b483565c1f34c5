/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning where functions begin: each direct call into the segment (E8 and a distance; what merely looks like one goes
 * astray mostly) and each function the module exports sets a bit. Text is read with process_vm_readv, so code that may
 * only be executed costs the guesses their help and nothing else. */
#include <stdbool.h>
#include <string.h>

#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "unwind/dynsyms.h"
#include "unwind/modules.h"
#include "unwind/starts.h"
#include "unwind/symtab.h"

enum {
	TEXT_MAX = 8 << 20,
	PIECE = 16 << 10,
	CALL_BYTES = 5,
	HDR_BYTES = 12,		   /* of .eh_frame_hdr before its index */
	INDEX_BYTES = 8,	   /* an entry */
	MANY_BYTES_EACH = 8 << 10, /* more text than this a description: most functions have none */
};

struct text {
	uintptr_t lo, hi;
	uint64_t *bits;
};

static bool done; /* under the sampler's lock */

static size_t bits_bytes(const struct text *t)
{
	return (t->hi - t->lo + 63) / 64 * sizeof(*t->bits);
}

static void mark(struct text *t, uintptr_t at)
{
	if (at >= t->lo && at < t->hi)
		t->bits[(at - t->lo) / 64] |= UINT64_C(1) << ((at - t->lo) % 64);
}

static void mark_called(struct text *t)
{
	uint8_t *buf = ppa_vheap_malloc(PIECE);
	uintptr_t at = t->lo;

	while (buf && at < t->hi) {
		long n = ppa_sys_read_memory(buf, at, t->hi - at < PIECE ? t->hi - at : PIECE);

		if (n <= CALL_BYTES)
			break;
		for (long i = 0; i + CALL_BYTES <= n; i++) {
			int32_t distance;

			if (buf[i] != 0xe8)
				continue;
			memcpy(&distance, buf + i + 1, sizeof(distance));
			mark(t, at + (uintptr_t)i + CALL_BYTES + (uintptr_t)(intptr_t)distance);
		}
		at += (uintptr_t)n - (CALL_BYTES - 1);
	}
	ppa_vheap_free(buf);
}

static void mark_exported(struct text *t, const struct ppa_module *m)
{
	struct ppa_symtab_builder b;
	struct ppa_symtab table;

	ppa_symtab_begin(&b);
	ppa_dynsyms_add(&b, m);
	if (ppa_symtab_finish(&b, &table))
		return;
	for (uint32_t i = 0; i < table.nentries; i++)
		mark(t, m->bias + table.entries[i].value);
	ppa_symtab_free(&table);
}

static bool lacks_tables(const struct ppa_text_segment *s)
{
	const struct ppa_module *m = s->module;
	size_t entries = m->eh_frame_hdr_len > HDR_BYTES ? (m->eh_frame_hdr_len - HDR_BYTES) / INDEX_BYTES : 0;

	return m->at_startup && s->end - s->start <= TEXT_MAX && (s->end - s->start) / (entries + 1) > MANY_BYTES_EACH;
}

static void learn(const struct ppa_text_segment *s)
{
	struct text t = {s->start, s->end, NULL};

	t.bits = ppa_sys_map(bits_bytes(&t));
	if (!t.bits)
		return;
	mark_called(&t);
	mark_exported(&t, s->module);
	if (!ppa_starts_add(t.lo, t.hi, t.bits))
		ppa_sys_unmap(t.bits, bits_bytes(&t));
}

void ppa_starts_learn(void)
{
	const struct ppa_module_table *table;

	if (done)
		return;
	done = true;
	table = ppa_modules_hold();
	for (size_t i = 0; i < table->nsegs; i++) {
		const struct ppa_text_segment *s = table->segs + i;

		if (s->module->is_agent)
			ppa_starts_set_agent(s->start, s->end);
		else if (lacks_tables(s))
			learn(s);
	}
	ppa_modules_release(table);
}
