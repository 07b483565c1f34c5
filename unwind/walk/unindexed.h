/* SPDX-License-Identifier: Apache-2.0
 *
 * Call frame information of modules that were linked without an index (musl-gcc does not ask the linker for
 * .eh_frame_hdr): an index of our own, built once for the program's startup modules, which are never unloaded. */
#ifndef PPA_UNWIND_WALK_UNINDEXED_H
#define PPA_UNWIND_WALK_UNINDEXED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_unindexed_entry {
	uint32_t start;	 /* of the function, counted from text_lo */
	uint32_t record; /* its frame description, counted from lo */
};

/* One module. Immutable once added. */
struct ppa_unindexed {
	uintptr_t text_lo, text_hi;		   /* where its functions lie */
	uintptr_t lo, hi;			   /* readable mapping that holds its .eh_frame */
	const struct ppa_unindexed_entry *entries; /* by start; kept for ever */
	size_t n;
};

/* Look at the modules of the current table that were loaded at startup and have no index; does nothing the second time.
 * Files that cannot be read or have no section headers are left out. Context: server. */
void ppa_unindexed_learn(void) PPA_CTX_SERVER;

/* For ppa_unindexed_learn. False when there is no room. Context: server. */
bool ppa_unindexed_add(const struct ppa_unindexed *u) PPA_CTX_SERVER;

/* The description of the last function at or before pc, and its module; 0 if there is none. Context: signal. */
uintptr_t ppa_unindexed_find(uintptr_t pc, const struct ppa_unindexed **module) PPA_CTX_SIGNAL;

#endif
