/* SPDX-License-Identifier: Apache-2.0
 *
 * The heap's rows: heap and allocs from the sites' counters, heap_age from the sampled blocks that are live, mmap from
 * the mappings' sites. Whoever shares a stack and a size class is one row. */
#include <inttypes.h>
#include <time.h>

#include "agent/base/budget.h"
#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "agent/heap/heap.h"
#include "agent/heap/mmap.h"
#include "agent/snapshot/build.h"
#include "agent/snapshot/picture.h"
#include "agent/snapshot/rows.h"

static void add_site(const struct ppa_site *s, void *arg)
{
	struct ppa_heap_values v = ppa_heap_read(s);
	struct ppa_row *row;

	if (!v.alloc_objects && !v.alloc_bytes)
		return;
	row = ppa_rows_add_tagged(arg, s, ppa_heap_site_class(s), ppa_heap_site_tags(s));
	if (!row)
		return;
	row->values[0] = v.alloc_objects;
	row->values[1] = v.alloc_bytes;
	row->values[2] = v.inuse_objects;
	row->values[3] = v.inuse_bytes;
}

void ppa_heap_gather(struct ppa_rows *rows)
{
	ppa_sites_each(&ppa_heap_sites, add_site, rows);
}

int64_t ppa_heap_period(void)
{
	return (int64_t)ppa_heap_rate();
}

uint64_t ppa_heap_count(void)
{
	return atomic_load_explicit(&ppa_heap_sites.count, memory_order_relaxed);
}

/* ---- heap_age ---- */

/* Seconds: the lower ends of the classes. */
static const uint64_t ages[] = {0, 1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600};

struct aging {
	struct ppa_rows *rows;
	uint64_t now_s;
};

static void add_block(const struct ppa_heap_block *b, void *arg)
{
	const struct aging *a = arg;
	uint64_t age = a->now_s > b->born_s ? a->now_s - b->born_s : 0;
	size_t class = PPA_ARRAY_LEN(ages) - 1;
	struct ppa_row *row;

	while (ages[class] > age)
		class --;
	row = ppa_rows_at_tagged(a->rows, b->site, (int64_t)ages[class], ppa_heap_site_tags(b->site));
	if (!row)
		return;
	/* In fractions until all are added up. */
	row->values[0] += (int64_t)b->objects;
	row->values[1] += (int64_t)b->total_bytes;
}

void ppa_heap_age_gather(struct ppa_rows *rows)
{
	struct aging a = {rows, ppa_sys_clock_ns(CLOCK_MONOTONIC) / 1000000000U};

	ppa_heap_each_block(add_block, &a);
	for (size_t i = 0; i < rows->n; i++)
		rows->list[i].values[0] =
			(rows->list[i].values[0] + (1 << (PPA_HEAP_FRACTION - 1))) >> PPA_HEAP_FRACTION;
}

uint64_t ppa_heap_age_count(void)
{
	return ppa_heap_get_state().live;
}

/* ---- mmap ---- */

static void add_mapped(const struct ppa_site *s, void *arg)
{
	struct ppa_mmap_values v = ppa_mmap_read(s);
	struct ppa_row *row = v.maps || v.bytes ? ppa_rows_add(arg, s, (int64_t)s->label) : NULL;

	if (!row)
		return;
	row->values[0] = v.maps;
	row->values[1] = v.bytes;
}

void ppa_mmap_gather(struct ppa_rows *rows)
{
	ppa_mmap_check();
	ppa_sites_each(&ppa_mmap_sites, add_mapped, rows);
}

int64_t ppa_mmap_period(void)
{
	return 1;
}

uint64_t ppa_mmap_count(void)
{
	return ppa_mmap_get_state().regions;
}

/* ---- comments ---- */

static void comment_memory(struct ppa_picture *p, const struct ppa_sites *sites)
{
	uint64_t folded = atomic_load_explicit(&sites->folded, memory_order_relaxed);

	if (folded)
		ppa_picture_comment(p,
				    ppa_picture_text(p,
						     "pprofagent: %" PRIu64 " events under [other stacks]: the memory "
						     "limit left no room for their own (PPROF_MAX_MEMORY)",
						     folded));
	ppa_picture_comment(p, ppa_picture_text(p,
						"pprofagent: own memory %" PRIu64 " KiB, and %" PRIu64
						" KiB of at most %" PRIu64 " KiB for profiles",
						ppa_vheap_mapped_bytes() / 1024, ppa_budget_used() / 1024,
						ppa_budget_limit() / 1024));
}

void ppa_heap_comment(struct ppa_picture *p)
{
	const char *unseen = ppa_heap_unseen();
	struct ppa_heap_state s = ppa_heap_get_state();

	if (!ppa_heap_rate())
		ppa_picture_comment(p, "pprofagent: the heap is not sampled (PPROF_HEAP_RATE=0)");
	if (unseen)
		ppa_picture_comment(p, ppa_picture_text(p, "pprofagent: %s", unseen));
	ppa_picture_comment(p, ppa_picture_text(p,
						"pprofagent: %" PRIu64 " blocks sampled, %" PRIu64
						" of them live, %" PRIu64 " lost; a sample every %" PRIu64 " bytes",
						s.samples, s.live, s.lost, s.rate_now));
	ppa_picture_comment_tags(p);
	comment_memory(p, &ppa_heap_sites);
}

void ppa_mmap_comment(struct ppa_picture *p)
{
	struct ppa_mmap_state s = ppa_mmap_get_state();

	if (!s.is_on)
		ppa_picture_comment(p, "pprofagent: mappings are not recorded");
	if (s.is_hidden)
		ppa_picture_comment(
			p, "pprofagent: mappings are not seen: mmap belongs to a library that comes before the "
			   "agent; preload the agent first");
	ppa_picture_comment(p, ppa_picture_text(p,
						"pprofagent: %" PRIu64 " mappings recorded, %" PRIu64 " lost; %" PRIu64
						" KiB were found unmapped without a call that we saw",
						s.events, s.lost, s.dropped / 1024));
	comment_memory(p, &ppa_mmap_sites);
}
