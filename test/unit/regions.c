/* SPDX-License-Identifier: Apache-2.0 */
// link: agent/heap/regions.c
/* Promise: after any sequence of insertions and cuts the set holds exactly what a page-by-page model holds: the same
 * ranges with the same sites and births, in order, its totals right. Younger regions are spared by a cut.
 * Promise: without memory nothing changes but what the header says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent/base/budget.h"
#include "agent/heap/regions.h"

/* The model: for every page the region it belongs to, by number; 0 is none. */
enum { PAGES = 6000, STEPS = 60000, BASE = 1000, UNIT = 4096 };

static struct {
	uint64_t owner[PAGES];
	uint64_t birth[PAGES];
} model;
static struct ppa_regions set;

static struct ppa_site *site_of(uint64_t owner)
{
	return (struct ppa_site *)(uintptr_t)(owner << 4);
}

static uintptr_t address(size_t page)
{
	return (BASE + page) * UNIT;
}

static uint64_t rnd(uint64_t below)
{
	static uint64_t x = 88172645463325252;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x % below;
}

/* The set's own order: first[] and the leaves' sizes. */
static void assert_sound(void)
{
	uint64_t n = 0;

	for (size_t i = 0; i < set.nleaves; i++) {
		const struct ppa_regions_leaf *leaf = set.leaf[i];

		assert_true(leaf->n > 0 && leaf->n <= PPA_REGIONS_PER_LEAF);
		assert_true(set.first[i] == leaf->r[0].start);
		for (size_t k = 0; k < leaf->n; k++)
			assert_true(leaf->r[k].start < leaf->r[k].end);
		n += leaf->n;
	}
	assert_int_equal(n, set.nregions);
}

/* Two pages of the model are of one region when they are neighbours of one owner and birth; the set may hold such a pair as
 * two regions only if the test made them so, which it never does: each insertion has a birth of its own. */
static void assert_same(void)
{
	uint64_t bytes = 0, n = 0;
	uintptr_t at = 0;

	assert_sound();
	for (size_t p = 0; p < PAGES;) {
		struct ppa_region r;
		size_t q = p + 1;

		if (!model.owner[p]) {
			p++;
			continue;
		}
		while (q < PAGES && model.owner[q] == model.owner[p] && model.birth[q] == model.birth[p])
			q++;
		assert_true(ppa_regions_above(&set, at, &r));
		assert_true(r.start == address(p) && r.end == address(q));
		assert_ptr_equal(r.site, site_of(model.owner[p]));
		assert_int_equal(r.birth, model.birth[p]);
		bytes += r.end - r.start;
		at = r.end;
		n++;
		p = q;
	}
	assert_int_equal(n, set.nregions);
	assert_int_equal(bytes, set.bytes);
}

/* Clear a range; what comes out must be what the model has there. */
static void clear(size_t from, size_t to, uint64_t until)
{
	struct ppa_regions_cut c;
	uintptr_t start = address(from);
	uint64_t before = set.nregions;
	int change = 0;

	for (; start < address(to) && ppa_regions_cut(&set, start, address(to), until, &c); start = c.piece.end) {
		assert_true(c.piece.start >= start && c.piece.end <= address(to));
		for (uintptr_t a = c.piece.start; a < c.piece.end; a += UNIT) {
			size_t p = a / UNIT - BASE;

			assert_int_equal(model.birth[p], c.piece.birth);
			assert_ptr_equal(c.piece.site, site_of(model.owner[p]));
			assert_true(c.piece.birth <= until);
			model.owner[p] = 0;
		}
		change += c.regions;
	}
	for (size_t p = from; p < to; p++)
		assert_true(!model.owner[p] || model.birth[p] > until);
	assert_int_equal((int64_t)set.nregions - (int64_t)before, change);
}

static void insert(size_t from, size_t to, uint64_t birth)
{
	uint64_t owner = 1 + rnd(50);
	struct ppa_region r = {address(from), address(to), site_of(owner), birth};

	assert_true(ppa_regions_insert(&set, &r));
	for (size_t p = from; p < to; p++) {
		model.owner[p] = owner;
		model.birth[p] = birth;
	}
}

static void as_the_model(void **state)
{
	uint64_t birth = 0, deepest = 0;

	(void)state;
	memset(&model, 0, sizeof(model));
	for (int i = 0; i < STEPS; i++) {
		/* Phases of filling with small regions, of clearing, and of both. */
		size_t n = 1 + (rnd(40) ? rnd(6) : rnd(800)), p = rnd(PAGES - n);
		unsigned phase = (unsigned)i / 5000 % 3;

		if (rnd(100) < (phase == 0 ? 90 : phase == 1 ? 20 : 55)) {
			if (phase == 0 && n > 3)
				n = 1;
			clear(p, p + n, UINT64_MAX);
			insert(p, p + n, ++birth);
		} else {
			clear(p, p + n, rnd(4) ? UINT64_MAX : rnd(birth + 1));
		}
		if (set.nleaves > deepest)
			deepest = set.nleaves;
		if (i % 64 == 0)
			assert_same();
	}
	assert_true(deepest > 10);
	clear(0, PAGES, UINT64_MAX);
	assert_same();
	assert_int_equal(set.nregions, 0);
	assert_int_equal(set.nleaves, 0);
}

/* Leaves that thin out are joined: capacity does not wear out. */
static void sparse_leaves_are_joined(void **state)
{
	uint64_t birth = 0;

	(void)state;
	memset(&model, 0, sizeof(model));
	for (size_t p = 0; p < PAGES; p++)
		insert(p, p + 1, ++birth);
	for (size_t p = 0; p < PAGES; p++)
		if (p % 100)
			clear(p, p + 1, UINT64_MAX);
	assert_same();
	assert_true(set.nleaves <= 3);
	clear(0, PAGES, UINT64_MAX);
}

/* Mapped downwards and unmapped upwards, as kernels and programs do. */
static void in_order(void **state)
{
	uint64_t birth = 0;

	(void)state;
	memset(&model, 0, sizeof(model));
	for (size_t p = PAGES; p-- > 0;)
		insert(p, p + 1, ++birth);
	assert_same();
	assert_true(set.nleaves <= PAGES / PPA_REGIONS_PER_LEAF + 1);
	for (size_t p = 0; p < PAGES; p += 10)
		clear(p, p + 10, UINT64_MAX);
	assert_int_equal(set.nregions, 0);
}

/* In a gap between others, from both sides: leaves are at least half full. */
static void in_a_gap(void **state)
{
	uint64_t birth = 0;

	(void)state;
	memset(&model, 0, sizeof(model));
	for (size_t p = 0; p < 1000; p++)
		insert(p, p + 1, ++birth);
	for (size_t p = PAGES; p-- > PAGES - 1000;)
		insert(p, p + 1, ++birth);
	for (size_t p = PAGES - 1000; p-- > 3000;)
		insert(p, p + 1, ++birth);
	for (size_t p = 1000; p < 3000; p++)
		insert(p, p + 1, ++birth);
	assert_same();
	assert_true(set.nleaves <= PAGES / (PPA_REGIONS_PER_LEAF / 2) + 1);
	clear(0, PAGES, UINT64_MAX);
	assert_int_equal(set.nleaves, 0);
}

static void without_memory(void **state)
{
	struct ppa_regions_cut c;
	struct ppa_region r = {0x1000, 0x5000, site_of(1), 1}, out;
	uint64_t limit = ppa_budget_limit();
	static struct ppa_regions fresh;
	size_t n = 0;

	(void)state;
	ppa_budget_set(ppa_budget_used());
	assert_false(ppa_regions_insert(&fresh, &r));
	assert_int_equal(fresh.nregions, 0);
	ppa_budget_set(ppa_budget_used() + PPA_REGIONS_LEAF_BYTES);
	while (ppa_regions_insert(&fresh, &r)) {
		n++;
		r.start += 0x10000;
		r.end += 0x10000;
	}
	assert_int_equal(n, PPA_REGIONS_PER_LEAF);
	assert_int_equal(fresh.nregions, n);
	assert_int_equal(fresh.bytes, n * 0x4000);
	/* A hole has no room: the rest of the region goes, too. */
	assert_true(ppa_regions_cut(&fresh, 0x2000, 0x3000, UINT64_MAX, &c));
	assert_true(c.piece.start == 0x2000 && c.piece.end == 0x5000 && c.regions == 0);
	assert_int_equal(fresh.bytes, n * 0x4000 - 0x3000);
	assert_true(ppa_regions_above(&fresh, 0, &out));
	assert_true(out.start == 0x1000 && out.end == 0x2000);
	ppa_budget_set(limit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_the_model), cmocka_unit_test(sparse_leaves_are_joined), cmocka_unit_test(in_order),
		cmocka_unit_test(in_a_gap),	cmocka_unit_test(without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
