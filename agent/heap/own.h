/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of the agent's that libc and the loader hold: what they allocate for our threads, and while they look the
 * genuine allocator up. It lies in one small range, so that whoever asks about a block knows by its address whose it is. */
#ifndef PPA_HEAP_OWN_H
#define PPA_HEAP_OWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

enum { PPA_OWN_RANGE_BYTES = 256 << 10 };

extern char ppa_own_range[PPA_OWN_RANGE_BYTES] __attribute__((visibility("hidden")));

/* How far into the range p lies, in bytes; PPA_OWN_RANGE_BYTES or more if elsewhere. Context: malloc. */
static inline __attribute__((always_inline)) uintptr_t ppa_own_offset(const void *p)
{
	return (uintptr_t)p - (uintptr_t)ppa_own_range;
}

/* n bytes, aligned to 16 and zeroed; NULL if there is no room or n is large (over 16 KiB). Context: any. */
void *ppa_own_alloc(size_t n) PPA_CTX_ANY;

/* Free a block of ours; n is what was asked for. Context: any. */
void ppa_own_free(void *p, size_t n) PPA_CTX_ANY;

/* The child of a fork: blocks of the parent's are kept for ever, because libc may still look at them. Context: child. */
void ppa_own_reset(void) PPA_CTX_CHILD;

#endif
