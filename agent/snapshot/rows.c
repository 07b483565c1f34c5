/* SPDX-License-Identifier: Apache-2.0
 *
 * An array, and beside it an index that exists only where somebody looks rows up: a plain snapshot of 100,000 sites
 * is one pass of appending. Hashes are the sites' own, mixed with the number. */
#include "agent/snapshot/rows.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "agent/profile/sites.h"

enum { FIRST_ROWS = 256, COPIES = 4096 };

static uint64_t mix(uint64_t h, uint64_t number, uint32_t tags)
{
	h ^= (number ^ (uint64_t)tags << 40) * 0x9e3779b97f4a7c15ULL;
	return h ^ (h >> 29);
}

static struct ppa_row row_of(const struct ppa_site *s, int64_t number, uint32_t tags)
{
	return (struct ppa_row){
		.pcs = s->pcs,
		.npcs = s->npcs,
		.born = s->born,
		.origin = s->origin,
		.hash = mix(s->hash, (uint64_t)number, tags),
		.number = number,
		.tags = tags,
	};
}

static struct ppa_row *append(struct ppa_rows *r, const struct ppa_row *row)
{
	if (r->n == r->cap) {
		size_t cap = ppa_vheap_room_after(r->cap, FIRST_ROWS, sizeof(struct ppa_row));
		struct ppa_row *list = ppa_vheap_realloc(r->list, cap * sizeof(*list));

		if (!list) {
			r->err = -ENOMEM;
			return NULL;
		}
		r->list = list;
		r->cap = cap;
	}
	r->list[r->n] = *row;
	return &r->list[r->n++];
}

struct ppa_row *ppa_rows_add_tagged(struct ppa_rows *r, const struct ppa_site *s, int64_t number, uint32_t tags)
{
	struct ppa_row row = row_of(s, number, tags);

	return append(r, &row);
}

struct ppa_row *ppa_rows_add(struct ppa_rows *r, const struct ppa_site *s, int64_t number)
{
	return ppa_rows_add_tagged(r, s, number, 0);
}

static bool same(const struct ppa_row *a, const struct ppa_row *b)
{
	return a->hash == b->hash && a->number == b->number && a->tags == b->tags && a->origin == b->origin &&
	       a->npcs == b->npcs && (a->pcs == b->pcs || memcmp(a->pcs, b->pcs, a->npcs * sizeof(*a->pcs)) == 0);
}

/* Where row stands in the index, or the free place where it belongs. */
static uint32_t *place_of(const struct ppa_rows *r, const struct ppa_row *row)
{
	size_t at = row->hash & (r->nplaces - 1);

	while (r->places[at] && !same(&r->list[r->places[at] - 1], row))
		at = (at + 1) & (r->nplaces - 1);
	return &r->places[at];
}

/* Room in the index for all rows and one more, at most half of it used. */
static int make_index(struct ppa_rows *r)
{
	size_t want = r->nplaces ? r->nplaces : 2 * FIRST_ROWS;

	while (want < 2 * (r->n + 1))
		want *= 2;
	if (want == r->nplaces)
		return 0;
	ppa_vheap_free(r->places);
	r->nplaces = 0;
	r->places = ppa_vheap_calloc(want, sizeof(*r->places));
	if (!r->places)
		return r->err = -ENOMEM;
	r->nplaces = want;
	for (size_t i = 0; i < r->n; i++)
		*place_of(r, &r->list[i]) = (uint32_t)i + 1;
	return 0;
}

static struct ppa_row *find_or_append(struct ppa_rows *r, const struct ppa_row *row)
{
	struct ppa_row *mine;
	uint32_t *place;

	if (make_index(r))
		return NULL;
	place = place_of(r, row);
	if (*place)
		return &r->list[*place - 1];
	mine = append(r, row);
	if (mine)
		*place = (uint32_t)r->n;
	return mine;
}

struct ppa_row *ppa_rows_at_tagged(struct ppa_rows *r, const struct ppa_site *s, int64_t number, uint32_t tags)
{
	struct ppa_row row = row_of(s, number, tags);

	return find_or_append(r, &row);
}

struct ppa_row *ppa_rows_at(struct ppa_rows *r, const struct ppa_site *s, int64_t number)
{
	return ppa_rows_at_tagged(r, s, number, 0);
}

struct ppa_rows_copies {
	struct ppa_rows_copies *next;
	size_t used;
	uintptr_t pcs[COPIES];
};

static const uintptr_t *copy_stack(struct ppa_rows *r, const uintptr_t *pcs, uint32_t npcs)
{
	struct ppa_rows_copies *c = r->copies;
	uintptr_t *mine;

	if (npcs > COPIES || !c || COPIES - c->used < npcs) {
		c = npcs > COPIES ? NULL : ppa_vheap_malloc(sizeof(*c));
		if (!c)
			return NULL;
		c->next = r->copies;
		c->used = 0;
		r->copies = c;
	}
	mine = c->pcs + c->used;
	memcpy(mine, pcs, npcs * sizeof(*pcs));
	c->used += npcs;
	return mine;
}

struct ppa_row *ppa_rows_at_stack(struct ppa_rows *r, const uintptr_t *pcs, uint32_t npcs, int64_t number,
				  uint32_t tags)
{
	struct ppa_row row = {.pcs = pcs, .npcs = npcs, .number = number, .tags = tags, .hash = npcs}, *mine;
	size_t before = r->n;

	for (uint32_t i = 0; i < npcs; i++)
		row.hash = (row.hash ^ pcs[i]) * 0x9e3779b97f4a7c15ULL;
	row.hash = mix(row.hash ^ row.hash >> 32, (uint64_t)number, tags);
	mine = find_or_append(r, &row);
	if (!mine || r->n == before)
		return mine;
	mine->pcs = copy_stack(r, pcs, npcs);
	if (!mine->pcs) {
		mine->npcs = 0;
		r->err = -ENOMEM;
	}
	return mine;
}

void ppa_rows_subtract(struct ppa_rows *now, const struct ppa_rows *before)
{
	for (size_t i = 0; i < before->n && !now->err; i++) {
		struct ppa_row blank = before->list[i], *mine;

		memset(blank.values, 0, sizeof(blank.values));
		mine = find_or_append(now, &blank);
		for (int k = 0; mine && k < PPA_SNAPSHOT_MAX_VALUES; k++)
			mine->values[k] -= before->list[i].values[k];
	}
	if (before->err)
		now->err = before->err;
}

void ppa_rows_free(struct ppa_rows *r)
{
	for (struct ppa_rows_copies *c = r->copies, *next; c; c = next) {
		next = c->next;
		ppa_vheap_free(c);
	}
	ppa_vheap_free(r->list);
	ppa_vheap_free(r->places);
	memset(r, 0, sizeof(*r));
}
