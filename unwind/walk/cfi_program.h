/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter of call frame instructions; cfi.c finds the programs, this runs them. */
#ifndef PPA_UNWIND_WALK_CFI_PROGRAM_H
#define PPA_UNWIND_WALK_CFI_PROGRAM_H

#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/walk/cfi.h"

struct ppa_cfi_program {
	struct ppa_cfi *cfi; /* rows are built here, bytes come through its view; start is set */
	uintptr_t pc;	     /* the row in force at this address is wanted */
	uint64_t code_align;
	int64_t data_align;
	uintptr_t data_base;
	uint8_t pointer_encoding;
	/* the interpreter's own */
	uintptr_t location;
	uint32_t ops, depth;
	bool row_lost; /* a state was restored that was remembered too deep to be kept */
	bool has_expressions;
	bool in_common;
};

/* Run the common instructions [common, common_end), then those of the description [own, own_end) up to pc, into
 * cfi->row. Returns 0, -EINVAL, or -E2BIG as ppa_cfi_find. Context: signal. */
int ppa_cfi_run(struct ppa_cfi_program *p, uintptr_t common, uintptr_t common_end, uintptr_t own,
		uintptr_t own_end) PPA_CTX_SIGNAL;

#endif
