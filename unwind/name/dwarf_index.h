/* SPDX-License-Identifier: Apache-2.0
 *
 * What is kept of a file's DWARF between two questions, so that the second need not search again: which unit has which
 * addresses, and of units that were read once an outline: where the entries of its functions are, and places in its line
 * program where reading can begin.
 *
 * All of it only says where to look. What is found there is read as if for the first time; so a range too wide costs time
 * and no truth. Everything is in the private heap and counts against a limit; what does not fit is not kept. */
#ifndef PPA_UNWIND_NAME_DWARF_INDEX_H
#define PPA_UNWIND_NAME_DWARF_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_dwarf_file;
struct ppa_dwarf_place;
struct ppa_dwarf_want;

/* One range of a function's code. */
struct ppa_dwarf_function {
	uint64_t low;
	uint32_t bytes;
	uint32_t entry; /* from the unit's first byte */
};

/* A piece of a line program, and the state of its machine when it begins: right after a row, or at a sequence's begin. */
struct ppa_dwarf_stretch {
	uint64_t low, high; /* no address outside gets its row here */
	uint64_t address;
	uint32_t at; /* from the program's first byte */
	uint32_t file, line;
	uint8_t op_index;
	bool is_dead, is_fresh; /* a sequence of code that is not there; at a sequence's begin */
};

struct ppa_dwarf_outline {
	struct ppa_dwarf_index *index;
	struct ppa_dwarf_function *functions; /* by address, then entry */
	struct ppa_dwarf_stretch *stretches;  /* as they lie in the program */
	size_t nfunctions, functions_cap, nstretches, stretches_cap;
	bool has_functions, has_stretches; /* all of them: else they are still being collected */
};

struct ppa_dwarf_unit_range {
	uint64_t low, high;
	uint32_t unit; /* its number among places */
};

struct ppa_dwarf_index {
	struct ppa_dwarf_place *places; /* NULL: not listed yet */
	size_t nplaces;
	bool is_partial; /* only those of .debug_aranges, with the ranges that it names; */
	bool is_whole;	 /* those are not to be asked, as they are not enough */
	struct ppa_dwarf_unit_range *ranges;
	size_t nranges, ranges_cap;
	bool has_ranges, has_no_ranges; /* all are there; they are too many */
	bool is_full;			/* an outline found no room */
	struct ppa_dwarf_outline **outlines;
	size_t bytes, max_bytes; /* of all this but places */
};

/* A question begins, in which it may grow by so many bytes. Context: server. */
void ppa_dwarf_index_begin(struct ppa_dwarf_index *x, size_t more_bytes) PPA_CTX_SERVER;

/* Make the list of units the index's own. Context: server. */
void ppa_dwarf_index_take_places(struct ppa_dwarf_index *x, struct ppa_dwarf_place *places, size_t n,
				 bool is_partial) PPA_CTX_SERVER;

/* The whole list of units, of which it had a part, is its own now. Outlines stay; which unit has which addresses is to be
 * asked of the units themselves. Both lists are sorted by offset. Context: server. */
void ppa_dwarf_index_widen(struct ppa_dwarf_index *x, struct ppa_dwarf_place *places, size_t n) PPA_CTX_SERVER;

/* One more range of a unit; those of one unit one after another. False: no room. Then that those were all, or are dropped.
 * Context: server. */
bool ppa_dwarf_index_add_range(struct ppa_dwarf_index *x, uint32_t unit, uint64_t low, uint64_t high) PPA_CTX_SERVER;
void ppa_dwarf_index_end_ranges(struct ppa_dwarf_index *x, bool are_all) PPA_CTX_SERVER;

/* Mark in is_marked, one for each of d's units, those that may have one of wants, which are sorted. False: that is not known, any may.
 * Context: server. */
bool ppa_dwarf_index_mark(struct ppa_dwarf_index *x, struct ppa_dwarf_file *d, const struct ppa_dwarf_want *wants,
			  size_t n, uint8_t *is_marked) PPA_CTX_SERVER;

/* The outline of a unit, perhaps an empty one; NULL on no memory. Context: server. */
struct ppa_dwarf_outline *ppa_dwarf_index_outline(struct ppa_dwarf_index *x, size_t unit) PPA_CTX_SERVER;

/* One more function, or stretch. False: no room, and none is kept for this unit. Context: server. */
bool ppa_dwarf_outline_function(struct ppa_dwarf_outline *o, uint64_t low, uint64_t high,
				uint64_t entry) PPA_CTX_SERVER;
bool ppa_dwarf_outline_stretch(struct ppa_dwarf_outline *o, const struct ppa_dwarf_stretch *s) PPA_CTX_SERVER;

/* Those were all (or not, and they are dropped). Context: server. */
void ppa_dwarf_outline_end_functions(struct ppa_dwarf_outline *o, bool are_all) PPA_CTX_SERVER;
void ppa_dwarf_outline_end_stretches(struct ppa_dwarf_outline *o, bool are_all) PPA_CTX_SERVER;

/* Bytes that it holds; free it all. x may be NULL. Context: server. */
uint64_t ppa_dwarf_index_bytes(const struct ppa_dwarf_index *x) PPA_CTX_SERVER;
void ppa_dwarf_index_free(struct ppa_dwarf_index *x) PPA_CTX_SERVER;

#endif
