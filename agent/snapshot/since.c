/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing by the address of the site's stack, which no other site has and which stays. */
#include "agent/snapshot/since.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "agent/snapshot/rows.h"

enum { FIRST_PLACES = 256 };

struct place {
	const uintptr_t *pcs; /* NULL: empty */
	int64_t values[PPA_SINCE_VALUES];
};

struct memory {
	const struct ppa_kind *kind; /* NULL: unused */
	struct place *places;
	size_t n, cap; /* cap: a power of two */
	uint64_t at_ns;
};

static struct memory memories[PPA_SINCE_KINDS]; /* under named_lock */

static struct memory *memory_of(const struct ppa_kind *kind)
{
	for (int i = 0; i < PPA_SINCE_KINDS; i++) {
		if (!memories[i].kind)
			memories[i].kind = kind;
		if (memories[i].kind == kind)
			return &memories[i];
	}
	return NULL;
}

static struct place *place_of(struct place *places, size_t cap, const uintptr_t *pcs)
{
	uint64_t h = (uint64_t)(uintptr_t)pcs * 0x9e3779b97f4a7c15ULL;
	size_t at = (h ^ h >> 32) & (cap - 1);

	while (places[at].pcs && places[at].pcs != pcs)
		at = (at + 1) & (cap - 1);
	return &places[at];
}

/* Room for so many more, at most half of it used. */
static int make_room(struct memory *m, size_t more)
{
	size_t cap = m->cap ? m->cap : FIRST_PLACES;
	struct place *places;

	while (cap < 2 * (m->n + more))
		cap *= 2;
	if (cap == m->cap)
		return 0;
	places = ppa_vheap_calloc(cap, sizeof(*places));
	if (!places)
		return -ENOMEM;
	for (size_t i = 0; i < m->cap; i++)
		if (m->places[i].pcs)
			*place_of(places, cap, m->places[i].pcs) = m->places[i];
	ppa_vheap_free(m->places);
	m->places = places;
	m->cap = cap;
	return 0;
}

/* Sites come in any order, the old ones among them. */
static size_t count_new(const struct memory *m, const struct ppa_rows *rows)
{
	size_t n = 0;

	for (size_t i = 0; i < rows->n; i++)
		n += !m->cap || !place_of(m->places, m->cap, rows->list[i].pcs)->pcs;
	return n;
}

int ppa_since_subtract(const struct ppa_kind *kind, struct ppa_rows *rows, int64_t *duration_ns)
{
	struct memory *m = memory_of(kind);
	uint64_t now = ppa_sys_clock_ns(CLOCK_MONOTONIC);

	if (rows->err)
		return rows->err;
	if (!m || make_room(m, count_new(m, rows)))
		return -ENOMEM;
	for (size_t i = 0; i < rows->n; i++) {
		struct ppa_row *row = &rows->list[i];
		struct place *p = place_of(m->places, m->cap, row->pcs);

		m->n += !p->pcs;
		p->pcs = row->pcs;
		for (int k = 0; k < PPA_SINCE_VALUES; k++) {
			int64_t v = row->values[k];

			row->values[k] -= p->values[k];
			p->values[k] = v;
		}
	}
	*duration_ns = m->at_ns ? (int64_t)(now - m->at_ns) : 0;
	m->at_ns = now;
	return 0;
}

void ppa_since_reset(void)
{
	/* Its memory went with the heap. */
	memset(memories, 0, sizeof(memories));
}
