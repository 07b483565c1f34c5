/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether somebody gave another thread a name. Who names itself runs, which a dump sees by its CPU clock; a sleeper that is
 * named by another shows nothing, and reading all names again is most of what a dump of sleepers costs. */
#ifndef PPA_THREAD_RENAMED_H
#define PPA_THREAD_RENAMED_H

#include <stdatomic.h>
#include <stdint.h>

#include "agent/base/attr.h"

extern _Atomic uint32_t ppa_renamed;

/* After the name was given. Context: any. */
PPA_CTX_ANY static inline void ppa_renamed_note(void)
{
	/* release: whoever counts it finds the new name in the kernel. */
	atomic_fetch_add_explicit(&ppa_renamed, 1, memory_order_release);
}

/* How often, modulo 2^32. To be asked before names are read. Context: any. */
PPA_CTX_ANY static inline uint32_t ppa_renamed_count(void)
{
	return atomic_load_explicit(&ppa_renamed, memory_order_acquire);
}

#endif
