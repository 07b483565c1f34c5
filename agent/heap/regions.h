/* SPDX-License-Identifier: Apache-2.0
 *
 * Address ranges in order, each with the site it is charged to. Pure bookkeeping: no lock, no system call; whoever
 * holds the set's lock uses it (mmap.c).
 *
 * Regions never overlap. Neighbours are not merged, even with one site: a region is what one call mapped, or a piece of
 * it. Each has a birth, a number that only grows, so that a late "these addresses are gone" spares what came there
 * since.
 *
 * They lie sorted in leaves of one page, and the leaves in a directory that is searched by halving: a region is found
 * in two such searches over few cache lines, and inserting moves at most a page. A leaf that runs empty is used again;
 * sparse neighbours are joined. Memory comes from the budget and has a limit of its own, the directory's length. */
#ifndef PPA_HEAP_REGIONS_H
#define PPA_HEAP_REGIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_site;

struct ppa_region {
	uintptr_t start, end; /* start < end */
	struct ppa_site *site;
	uint64_t birth;
};

enum { PPA_REGIONS_LEAF_BYTES = 4096, PPA_REGIONS_PER_LEAF = 127, PPA_REGIONS_LEAVES = 8192 };

struct ppa_regions_leaf {
	struct ppa_regions_leaf *next_free;
	uint64_t n;
	struct ppa_region r[PPA_REGIONS_PER_LEAF]; /* sorted */
};
_Static_assert(sizeof(struct ppa_regions_leaf) <= PPA_REGIONS_LEAF_BYTES, "a leaf is a page");

/* All zero is the empty set. */
struct ppa_regions {
	uint64_t nregions, bytes;
	size_t nleaves;
	struct ppa_regions_leaf *free;	     /* leaves not in use */
	uintptr_t first[PPA_REGIONS_LEAVES]; /* start of leaf[i]'s first region: what a search touches lies together */
	struct ppa_regions_leaf *leaf[PPA_REGIONS_LEAVES];
};

/* Add r, which overlaps nothing in the set. False: no memory, nothing changed. Context: malloc. */
bool ppa_regions_insert(struct ppa_regions *t, const struct ppa_region *r) PPA_CTX_MALLOC;

/* The first region that ends above addr. False if there is none. Context: malloc. */
bool ppa_regions_above(const struct ppa_regions *t, uintptr_t addr, struct ppa_region *out) PPA_CTX_MALLOC;

/* What one cut took out. */
struct ppa_regions_cut {
	struct ppa_region piece; /* with the site and birth of the region it came from */
	int regions;		 /* how many more regions there are now: -1, 0 (an end was cut off) or 1 (a hole) */
};

/* Take out the lowest piece of [start, end) that belongs to a region born at or before `until`. False: there is none
 * (any more). To clear a range, go on with start = out->piece.end. A hole needs room for one more region; without, the
 * piece goes to the region's end, beyond `end`. Context: malloc. */
bool ppa_regions_cut(struct ppa_regions *t, uintptr_t start, uintptr_t end, uint64_t until,
		     struct ppa_regions_cut *out) PPA_CTX_MALLOC;

#endif
