/* SPDX-License-Identifier: Apache-2.0
 *
 * Where functions begin in code without unwind tables (a musl libc built without them): what is called, and what is
 * exported. Learnt once from the program's startup modules, which are never unloaded. */
#ifndef PPA_UNWIND_WALK_STARTS_H
#define PPA_UNWIND_WALK_STARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"

/* Look at the modules of the current table that were loaded at startup; does nothing the second time. What cannot be
 * read or does not fit is left out. Context: server. */
void ppa_starts_learn(void) PPA_CTX_SERVER;

/* First address of the function around pc; 0 if it is not known. Context: signal. */
uintptr_t ppa_starts_find(uintptr_t pc) PPA_CTX_SIGNAL;

/* Is pc in this library? Context: signal. */
bool ppa_starts_is_agent(uintptr_t pc) PPA_CTX_SIGNAL;

/* For ppa_starts_learn: add a segment whose bit number n says whether a function begins at lo + n. It is kept for ever.
 * False when there is no room. Context: server. */
bool ppa_starts_add(uintptr_t lo, uintptr_t hi, const uint64_t *bits) PPA_CTX_SERVER;
void ppa_starts_set_agent(uintptr_t lo, uintptr_t hi) PPA_CTX_SERVER;

#endif
