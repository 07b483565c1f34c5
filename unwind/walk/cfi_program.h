/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter of call frame instructions; cfi.c finds the programs, this runs them. */
#ifndef PPA_UNWIND_WALK_CFI_PROGRAM_H
#define PPA_UNWIND_WALK_CFI_PROGRAM_H

#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/walk/cfi.h"

/* Run the common instructions [common, common_end), then those of the description [own, own_end) up to pc, into
 * cfi->row. Returns 0, -EINVAL, or -E2BIG as ppa_cfi_find. Context: signal. */
int ppa_cfi_run(struct ppa_cfi_program *p, uintptr_t common, uintptr_t common_end, uintptr_t own,
		uintptr_t own_end) PPA_CTX_SIGNAL;

#endif
