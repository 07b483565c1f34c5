/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that are asked for memory on behalf of their caller: a heap profile shows the caller. */
#ifndef PPA_SNAPSHOT_ALLOCATORS_H
#define PPA_SNAPSHOT_ALLOCATORS_H

#include <stdbool.h>

#include "agent/base/attr.h"

/* Is it one of them: malloc's family, strdup's, operator new, Rust's shims? By linker name and by the name for people;
 * either may be "". Context: any; pure. */
bool ppa_allocators_have(const char *linker_name, const char *name) PPA_CTX_ANY;

#endif
