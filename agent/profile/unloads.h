/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks that outlive libraries. What a hook remembers of a stack is addresses; their names are looked up when somebody
 * asks, which may be long after a library on the stack was unloaded. Two things make that right:
 *
 * Module tables of former times are kept if a stack was born then (ppa_modules_keep_past).
 *
 * A library that comes, is seen on a stack and goes again must have been in a table meanwhile. So the table is brought
 * up to date before a dlclose, if a stack with an unknown library was seen since the last time, and a moment after each
 * dlclose in any case. A thread of ours does that, because it reads files: it is started by the first dlclose, and ends
 * when there was none for a while. */
#ifndef PPA_PROFILE_UNLOADS_H
#define PPA_PROFILE_UNLOADS_H

#include <stdint.h>

#include "agent/base/attr.h"

/* The serials of the modules on a stack that can be unloaded, as one number: begin with 0 and add them leaf first. */
static inline __attribute__((always_inline)) uint64_t ppa_origin_add(uint64_t origin, uint64_t serial)
{
	return (origin ^ (serial + 1)) * 0x9e3779b97f4a7c15ULL;
}

/* A stack is remembered whose libraries can be unloaded. The time for ppa_site.born. Context: malloc. */
uint32_t ppa_unloads_note_birth(void) PPA_CTX_MALLOC;

/* A stack goes through a library that is in no table. What to add to its origin instead of a serial: no later library at the
 * same address gets the same. Context: malloc. */
uint64_t ppa_unloads_note_unknown(void) PPA_CTX_MALLOC;

/* Around the real dlclose; the first waits up to 20 ms where it must. Context: any. */
void ppa_unloads_before(void) PPA_CTX_ANY;
void ppa_unloads_after(void) PPA_CTX_ANY;

/* From now on stacks are remembered. Context: init. */
void ppa_unloads_start(void) PPA_CTX_INIT;

/* Context: child. */
void ppa_unloads_reset(void) PPA_CTX_CHILD;

#endif
