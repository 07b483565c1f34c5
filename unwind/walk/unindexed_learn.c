/* SPDX-License-Identifier: Apache-2.0
 *
 * Building an index: the file's section headers say where .eh_frame is, its records are read where they are mapped, one
 * behind the other, and sorted by the function they describe. */
#include <stdatomic.h>

#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "unwind/walk/cfi.h"
#include "unwind/module/elf_headers.h"
#include "unwind/module/modules.h"
#include "unwind/name/symload.h"
#include "unwind/walk/unindexed.h"

enum { RECORDS_MAX = 1 << 20, RECORD_BYTES_MIN = 16 };

static bool done; /* under the sampler's lock */

/* Shell's sort: qsort allocates in some libcs. */
static void sort(struct ppa_unindexed_entry *e, size_t n)
{
	size_t gap = 1;

	while (gap < n / 3)
		gap = 3 * gap + 1;
	for (; gap; gap /= 3) {
		for (size_t i = gap; i < n; i++) {
			struct ppa_unindexed_entry x = e[i];
			size_t k = i;

			for (; k >= gap && e[k - gap].start > x.start; k -= gap)
				e[k] = e[k - gap];
			e[k] = x;
		}
	}
}

/* Read the records of [at, end) into entries, at most cap; how many there are. */
static size_t read_records(const struct ppa_unindexed *u, uintptr_t at, uintptr_t end,
			   struct ppa_unindexed_entry *entries, size_t cap)
{
	struct ppa_cfi *c = ppa_vheap_malloc(sizeof(*c));
	size_t n = 0;
	int kind;

	while (c && n < cap && at < end) {
		uintptr_t record = at;

		kind = ppa_cfi_read_record(c, u->lo, end, &at);
		if (kind < 0)
			break;
		if (kind == 0 || c->start < u->text_lo || c->start >= u->text_hi)
			continue;
		entries[n].start = (uint32_t)(c->start - u->text_lo);
		entries[n++].record = (uint32_t)(record - u->lo);
	}
	ppa_vheap_free(c);
	return n;
}

/* The whole of [lo, hi) must lie in one readable segment, which is mapped for as long as the module is. */
static bool find_segment(const struct ppa_module *m, uintptr_t lo, uintptr_t hi, struct ppa_unindexed *u)
{
	struct ppa_elf elf;

	if (ppa_elf_headers_read(m->lo, &elf) || elf.bias != m->bias)
		return false;
	for (size_t i = 0; i < elf.nsegments; i++) {
		const struct ppa_elf_segment *s = elf.segment + i;

		if (!s->readable || s->start > lo || s->end < hi || s->end - s->start > UINT32_MAX)
			continue;
		u->lo = s->start;
		u->hi = s->end;
		return true;
	}
	return false;
}

static void learn(const struct ppa_module *m)
{
	struct ppa_unindexed u = {.text_lo = m->lo, .text_hi = m->hi};
	struct ppa_unindexed_entry *entries;
	uintptr_t at;
	size_t len, cap, bytes;

	if (m->hi - m->lo > UINT32_MAX || ppa_symload_section(m, ".eh_frame", &at, &len) ||
	    !find_segment(m, at, at + len, &u))
		return;
	cap = len / RECORD_BYTES_MIN < RECORDS_MAX ? len / RECORD_BYTES_MIN : RECORDS_MAX;
	bytes = cap * sizeof(*entries);
	entries = cap ? ppa_sys_map(bytes) : NULL;
	if (!entries)
		return;
	u.n = read_records(&u, at, at + len, entries, cap);
	u.entries = entries;
	sort(entries, u.n);
	if (!u.n || !ppa_unindexed_add(&u))
		ppa_sys_unmap(entries, bytes);
}

void ppa_unindexed_learn(void)
{
	const struct ppa_module_table *table;
	const struct ppa_module *last = NULL;

	if (done)
		return;
	done = true;
	table = ppa_modules_hold();
	for (size_t i = 0; i < table->nsegs; i++) {
		const struct ppa_module *m = table->segs[i].module;

		if (m != last && m->at_startup && !m->eh_frame_hdr && m->path[0] != '[')
			learn(m);
		last = m;
	}
	ppa_modules_release(table);
}
