/* SPDX-License-Identifier: Apache-2.0
 *
 * DWARF expressions as they occur in unwind information (DWARF 5, 2.5; no locations, no types): a stack machine over
 * the registers of the frame and readable memory. Bounded in steps and depth. */
#ifndef PPA_UNWIND_WALK_EXPR_H
#define PPA_UNWIND_WALK_EXPR_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/walk/arch.h"
#include "unwind/walk/memory.h"

/* What an expression may look at. */
struct ppa_expr {
	struct ppa_view *code;	     /* where its bytes are */
	struct ppa_memory *memory;   /* what it may dereference */
	const struct ppa_regs *regs; /* of the frame */
};

/* Evaluate the block (its length comes first) at addr. push: the CFA is on the stack to begin with. Returns 0, -EINVAL
 * for an expression we cannot evaluate, -EFAULT for memory that cannot be read. Context: signal. */
int ppa_expr_eval(const struct ppa_expr *e, uintptr_t addr, bool push, uintptr_t cfa, uintptr_t *out) PPA_CTX_SIGNAL;

#endif
