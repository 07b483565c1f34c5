/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose calls of mmap are not the program's own: an allocator library's (the heap profile shows what became of that
 * memory), and those of libpthread: old ones reach mmap for their thread stacks as anybody does. Told
 * by the return address. An allocator inside the program's own file cannot be told from the program. */
#ifndef PPA_HEAP_MMAP_CALLERS_H
#define PPA_HEAP_MMAP_CALLERS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"

/* Find these libraries. Asks the loader. Context: init. */
void ppa_mmap_callers_init(void) PPA_CTX_INIT;

/* Does the call that returns to caller count? Context: any. */
bool ppa_mmap_callers_count(uintptr_t caller) PPA_CTX_ANY;

/* Another library's mmap comes before ours (gperftools has one): no call of the program's arrives. Context: any. */
bool ppa_mmap_callers_are_hidden(void) PPA_CTX_ANY;

#endif
