/* SPDX-License-Identifier: Apache-2.0
 *
 * What was loaded where, now and formerly, for stacks that outlive the libraries they went through. */
#ifndef PPA_SNAPSHOT_PAST_H
#define PPA_SNAPSHOT_PAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/module/modules.h"

struct ppa_past {
	struct ppa_module_era eras[1 + PPA_MODULES_PAST_MAX]; /* held; the current one first, then newest first */
	size_t n;
};

/* Code of a library that nobody remembers. */
#define PPA_PAST_SHIFT_UNKNOWN ((uint64_t)0xffff << 47)

/* Hold the current table and every one that was kept. Context: server. */
void ppa_past_hold(struct ppa_past *past) PPA_CTX_SERVER;
void ppa_past_release(struct ppa_past *past) PPA_CTX_SERVER;

struct ppa_row;

/* The table that a row's addresses mean something in. *is_gone: it is not known any more, and the current one is given
 * instead. Context: server. */
const struct ppa_module_table *ppa_past_choose(const struct ppa_past *past, const struct ppa_row *row,
					       bool *is_gone) PPA_CTX_SERVER;

/* How far an address in the module of this serial must be moved to be told from the same address in a later module:
 * 0 if there is none, else a distance beyond all addresses, different for each module and always the same for one.
 * Context: server. */
uint64_t ppa_past_shift(const struct ppa_past *past, uintptr_t address, uint64_t serial) PPA_CTX_SERVER;

#endif
