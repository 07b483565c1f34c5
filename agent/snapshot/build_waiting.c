/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of block and mutex: a site is a row, scaled when it was counted. */
#include <inttypes.h>

#include "agent/lock/contention.h"
#include "agent/snapshot/build.h"
#include "agent/snapshot/picture.h"
#include "agent/snapshot/rows.h"

static void add_site(const struct ppa_site *s, void *arg)
{
	struct ppa_contention_values v = ppa_contention_read(s);
	struct ppa_row *row = v.contentions || v.delay_ns ? ppa_rows_add(arg, s, 0) : NULL;

	if (!row)
		return;
	row->values[0] = v.contentions;
	row->values[1] = v.delay_ns;
}

void ppa_block_gather(struct ppa_rows *rows)
{
	ppa_sites_each(&ppa_block_sites, add_site, rows);
}

void ppa_mutex_gather(struct ppa_rows *rows)
{
	ppa_sites_each(&ppa_mutex_sites, add_site, rows);
}

int64_t ppa_waiting_period(void)
{
	return 1;
}

static void count_site(const struct ppa_site *s, void *arg)
{
	struct ppa_contention_values v = ppa_contention_read(s);

	*(uint64_t *)arg += v.contentions || v.delay_ns;
}

uint64_t ppa_block_count(void)
{
	uint64_t n = 0;

	ppa_sites_each(&ppa_block_sites, count_site, &n);
	return n;
}

uint64_t ppa_mutex_count(void)
{
	uint64_t n = 0;

	ppa_sites_each(&ppa_mutex_sites, count_site, &n);
	return n;
}

static void comment_folded(struct ppa_picture *p, const struct ppa_sites *sites)
{
	uint64_t folded = atomic_load_explicit(&sites->folded, memory_order_relaxed);

	if (folded)
		ppa_picture_comment(p,
				    ppa_picture_text(p,
						     "pprofagent: %" PRIu64 " events under [other stacks]: the memory "
						     "limit left no room for their own (PPROF_MAX_MEMORY)",
						     folded));
}

void ppa_block_comment(struct ppa_picture *p)
{
	uint64_t rate = ppa_contention_block_rate();

	if (rate)
		ppa_picture_comment(
			p, ppa_picture_text(p, "pprofagent: one sample every %" PRIu64 " ns of waiting", rate));
	else
		ppa_picture_comment(p, "pprofagent: waiting is not measured (PPROF_BLOCK_RATE=0)");
	comment_folded(p, &ppa_block_sites);
}

void ppa_mutex_comment(struct ppa_picture *p)
{
	uint64_t n = ppa_contention_mutex_fraction();

	if (n)
		ppa_picture_comment(p, ppa_picture_text(p, "pprofagent: one of %" PRIu64 " contended releases", n));
	else
		ppa_picture_comment(p, "pprofagent: holders are not measured (PPROF_MUTEX_FRACTION=0)");
	comment_folded(p, &ppa_mutex_sites);
}
