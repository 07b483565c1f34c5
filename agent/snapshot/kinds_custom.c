/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's own profiles (api/custom.h) as kinds. The program may make one at any moment; its kind is made by the
 * first request that sees it. */
#include <inttypes.h>
#include <stdatomic.h>

#include "agent/api/custom.h"
#include "agent/base/lock.h"
#include "agent/snapshot/build.h"
#include "agent/snapshot/kinds.h"
#include "agent/snapshot/picture.h"
#include "agent/snapshot/rows.h"

static struct {
	struct ppa_lock lock; /* a leaf; server; held while a kind is made */
	_Atomic bool is_made[PPA_CUSTOM_MAX];
	struct ppa_kind kinds[PPA_CUSTOM_MAX];
} made;

/* ---- what a kind's functions answer; gather and count would not know whose they are ---- */

static int64_t one(void)
{
	return 1;
}

static void gather_nothing(struct ppa_rows *rows)
{
	(void)rows;
}

static uint64_t count_all(void)
{
	const struct ppa_custom *c;
	uint64_t n = 0;

	for (size_t i = 0; i < PPA_CUSTOM_MAX; i++)
		n += (c = ppa_custom_at(i)) ? ppa_custom_count(c) : 0;
	return n;
}

static void comment(struct ppa_picture *p)
{
	const struct ppa_custom *c;
	uint64_t lost = 0;

	for (size_t i = 0; i < PPA_CUSTOM_MAX; i++)
		lost += (c = ppa_custom_at(i)) ? ppa_custom_lost(c) : 0;
	if (lost)
		ppa_picture_comment(p, ppa_picture_text(p,
							"pprofagent: %" PRIu64 " values of the program's own profiles "
							"were not added: the memory limit left no room for them "
							"(PPROF_MAX_MEMORY)",
							lost));
}

const struct ppa_kind *ppa_kinds_custom(size_t number)
{
	const struct ppa_custom *c = ppa_custom_at(number);
	struct ppa_kind *k = &made.kinds[number];

	if (!c)
		return NULL;
	/* acquire: pairs with the release below. */
	if (atomic_load_explicit(&made.is_made[number], memory_order_acquire))
		return k;
	ppa_lock(&made.lock);
	if (!atomic_load_explicit(&made.is_made[number], memory_order_relaxed)) {
		*k = (struct ppa_kind){
			.name = ppa_custom_name(c),
			.help = "A profile of the program's own (pprof_profile_new): what is in it now, by the stack "
				"that added it.",
			.types = {{ppa_custom_name(c), "count"}},
			.ntypes = 1,
			.period_type = {ppa_custom_name(c), "count"},
			.form = PPA_FORM_COUNT,
			.has_delta = true,
			.custom = (unsigned)number + 1,
			.gather = gather_nothing,
			.period = one,
			.count = count_all,
			.comment = comment,
		};
		atomic_store_explicit(&made.is_made[number], true, memory_order_release);
	}
	ppa_unlock(&made.lock);
	return k;
}

struct gathering {
	struct ppa_rows *rows;
	unsigned custom;
};

static void add_site(const struct ppa_site *s, void *arg)
{
	const struct gathering *g = arg;
	uint64_t removed, added;
	struct ppa_row *row;

	if (s->label != g->custom)
		return;
	/* acquire: what was removed was added before, and is seen there. */
	removed = atomic_load_explicit(&s->counters[PPA_CUSTOM_REMOVED], memory_order_acquire);
	added = atomic_load_explicit(&s->counters[PPA_CUSTOM_ADDED], memory_order_relaxed);
	row = added > removed ? ppa_rows_add(g->rows, s, 0) : NULL;
	if (row)
		row->values[0] = (int64_t)(added - removed);
}

void ppa_kinds_gather(const struct ppa_kind *kind, struct ppa_rows *rows)
{
	struct gathering g = {rows, kind->custom};

	if (kind->custom)
		ppa_sites_each(&ppa_custom_sites, add_site, &g);
	else
		kind->gather(rows);
}

uint64_t ppa_kinds_count(const struct ppa_kind *kind)
{
	const struct ppa_custom *c = kind->custom ? ppa_custom_at(kind->custom - 1) : NULL;

	return c ? ppa_custom_count(c) : kind->count();
}

void ppa_kinds_reset(void)
{
	ppa_lock_reset(&made.lock);
}
