/* SPDX-License-Identifier: Apache-2.0
 *
 * leaf[i] holds the regions that start in [first[i], first[i + 1]); no leaf in the directory is empty. */
#include "agent/heap/regions.h"

#include <string.h>

#include "agent/base/budget.h"

/* Neighbours that together fill no more than this are joined: far enough below a full leaf that the next insertion does
 * not split it again. */
enum { JOIN_BELOW = PPA_REGIONS_PER_LEAF / 2 };

/* The last leaf whose first region starts at or below addr; 0 if there is none. */
PPA_CTX_MALLOC static size_t leaf_at(const struct ppa_regions *t, uintptr_t addr)
{
	size_t lo = 0, hi = t->nleaves;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->first[mid] <= addr)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

/* The first region of a leaf that ends above addr; leaf->n if none does. */
PPA_CTX_MALLOC static size_t place_above(const struct ppa_regions_leaf *leaf, uintptr_t addr)
{
	size_t lo = 0, hi = leaf->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (leaf->r[mid].end > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

PPA_CTX_MALLOC static void directory_insert(struct ppa_regions *t, size_t i, struct ppa_regions_leaf *leaf)
{
	size_t after = t->nleaves - i;

	memmove(&t->first[i + 1], &t->first[i], after * sizeof(t->first[0]));
	memmove(&t->leaf[i + 1], &t->leaf[i], after * sizeof(t->leaf[0]));
	t->first[i] = leaf->n ? leaf->r[0].start : 0;
	t->leaf[i] = leaf;
	t->nleaves++;
}

PPA_CTX_MALLOC static void directory_remove(struct ppa_regions *t, size_t i)
{
	struct ppa_regions_leaf *leaf = t->leaf[i];
	size_t after = t->nleaves - i - 1;

	memmove(&t->first[i], &t->first[i + 1], after * sizeof(t->first[0]));
	memmove(&t->leaf[i], &t->leaf[i + 1], after * sizeof(t->leaf[0]));
	t->nleaves--;
	leaf->n = 0;
	leaf->next_free = t->free;
	t->free = leaf;
}

PPA_CTX_MALLOC static struct ppa_regions_leaf *new_leaf(struct ppa_regions *t)
{
	struct ppa_regions_leaf *leaf = t->free;

	if (t->nleaves == PPA_REGIONS_LEAVES)
		return NULL;
	if (!leaf)
		return ppa_budget_map(PPA_REGIONS_LEAF_BYTES);
	t->free = leaf->next_free;
	return leaf;
}

/* Make room in leaf i, which is full, for a region at that place: its upper half becomes the next leaf. At an end the
 * next leaf takes it or a new one begins empty, because kernels map downwards: what is full stays full. Afterwards *i and
 * *at are where it goes. */
PPA_CTX_MALLOC static bool split(struct ppa_regions *t, size_t *i, size_t *at)
{
	struct ppa_regions_leaf *full = t->leaf[*i], *fresh;
	size_t keep = full->n / 2;

	if (*at == full->n && *i + 1 < t->nleaves && t->leaf[*i + 1]->n < PPA_REGIONS_PER_LEAF) {
		*i += 1;
		*at = 0;
		return true;
	}
	fresh = new_leaf(t);
	if (!fresh)
		return false;
	if (*at == 0 || *at == full->n) {
		*i += *at ? 1 : 0;
		*at = 0;
		directory_insert(t, *i, fresh);
		return true;
	}
	fresh->n = full->n - keep;
	memcpy(fresh->r, &full->r[keep], fresh->n * sizeof(fresh->r[0]));
	full->n = keep;
	directory_insert(t, *i + 1, fresh);
	if (*at > keep) {
		*i += 1;
		*at -= keep;
	}
	return true;
}

bool ppa_regions_insert(struct ppa_regions *t, const struct ppa_region *r)
{
	struct ppa_regions_leaf *leaf;
	size_t i = leaf_at(t, r->start), at = 0;

	if (!t->nleaves) {
		leaf = new_leaf(t);
		if (!leaf)
			return false;
		directory_insert(t, 0, leaf);
	} else {
		at = place_above(t->leaf[i], r->start);
		if (t->leaf[i]->n == PPA_REGIONS_PER_LEAF && !split(t, &i, &at))
			return false;
	}
	leaf = t->leaf[i];
	memmove(&leaf->r[at + 1], &leaf->r[at], (leaf->n - at) * sizeof(leaf->r[0]));
	leaf->r[at] = *r;
	leaf->n++;
	t->first[i] = leaf->r[0].start;
	t->nregions++;
	t->bytes += r->end - r->start;
	return true;
}

/* Leaf i lost a region. */
PPA_CTX_MALLOC static void tidy(struct ppa_regions *t, size_t i)
{
	struct ppa_regions_leaf *leaf = t->leaf[i], *next;

	if (!leaf->n) {
		directory_remove(t, i);
		return;
	}
	t->first[i] = leaf->r[0].start;
	if (i + 1 == t->nleaves) {
		if (!i)
			return;
		i--;
	}
	leaf = t->leaf[i];
	next = t->leaf[i + 1];
	if (leaf->n + next->n > JOIN_BELOW)
		return;
	memcpy(&leaf->r[leaf->n], next->r, next->n * sizeof(next->r[0]));
	leaf->n += next->n;
	directory_remove(t, i + 1);
}

PPA_CTX_MALLOC static void erase(struct ppa_regions *t, size_t i, size_t at)
{
	struct ppa_regions_leaf *leaf = t->leaf[i];

	leaf->n--;
	memmove(&leaf->r[at], &leaf->r[at + 1], (leaf->n - at) * sizeof(leaf->r[0]));
	t->nregions--;
	tidy(t, i);
}

/* The first region that ends above addr, as leaf and place in it. */
PPA_CTX_MALLOC static bool above(const struct ppa_regions *t, uintptr_t addr, size_t *leaf, size_t *at)
{
	size_t i = leaf_at(t, addr);

	if (!t->nleaves)
		return false;
	*at = place_above(t->leaf[i], addr);
	if (*at == t->leaf[i]->n) {
		if (++i == t->nleaves)
			return false;
		*at = 0;
	}
	*leaf = i;
	return true;
}

bool ppa_regions_above(const struct ppa_regions *t, uintptr_t addr, struct ppa_region *out)
{
	size_t i, at;

	if (!above(t, addr, &i, &at))
		return false;
	*out = t->leaf[i]->r[at];
	return true;
}

/* Take out->piece, which lies in it, out of region `at` of leaf i. */
PPA_CTX_MALLOC static void take(struct ppa_regions *t, size_t i, size_t at, struct ppa_regions_cut *out)
{
	struct ppa_region *r = &t->leaf[i]->r[at], *piece = &out->piece;
	struct ppa_region rest = {piece->end, r->end, r->site, r->birth};

	out->regions = 0;
	t->bytes -= piece->end - piece->start;
	if (piece->start == r->start && piece->end == r->end) {
		out->regions = -1;
		erase(t, i, at);
	} else if (piece->start == r->start) {
		r->start = piece->end;
		t->first[i] = t->leaf[i]->r[0].start;
	} else {
		r->end = piece->start;
		if (rest.start == rest.end)
			return;
		t->bytes -= rest.end - rest.start;
		if (ppa_regions_insert(t, &rest))
			out->regions = 1;
		else
			piece->end = rest.end;
	}
}

bool ppa_regions_cut(struct ppa_regions *t, uintptr_t start, uintptr_t end, uint64_t until, struct ppa_regions_cut *out)
{
	const struct ppa_region *r;
	size_t i, at;

	if (!above(t, start, &i, &at))
		return false;
	while ((r = &t->leaf[i]->r[at])->birth > until || r->start >= end) {
		if (r->start >= end)
			return false;
		if (++at < t->leaf[i]->n)
			continue;
		if (++i == t->nleaves)
			return false;
		at = 0;
	}
	out->piece = *r;
	if (out->piece.start < start)
		out->piece.start = start;
	if (out->piece.end > end)
		out->piece.end = end;
	take(t, i, at, out);
	return true;
}
