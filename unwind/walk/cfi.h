/* SPDX-License-Identifier: Apache-2.0
 *
 * Call frame information: which rules restore the caller's registers at a pc. The index (.eh_frame_hdr) is searched by
 * halving, the one frame description found is interpreted up to the pc, and the result is a row. Nothing is kept: the
 * walker caches rows in its own compact form.
 *
 * Sources: DWARF 5 section 6.4, and the Linux Standard Base 10.6 for what .eh_frame does otherwise. Everything is read
 * through a view, so corrupt tables give -EINVAL, never a fault; loops are bounded by the bytes of the record and by
 * CFI_MAX_OPS. */
#ifndef PPA_UNWIND_WALK_CFI_H
#define PPA_UNWIND_WALK_CFI_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/walk/arch.h"
#include "unwind/walk/memory.h"
#include "unwind/module/modules.h"

/* How a register of the caller is found. */
enum ppa_rule_kind {
	PPA_RULE_SAME = 0,	/* unchanged (also: nothing said) */
	PPA_RULE_UNDEFINED = 1, /* lost; for the return address: there is no caller */
	PPA_RULE_AT = 2,	/* in memory at CFA + value */
	PPA_RULE_OFFSET = 3,	/* is CFA + value */
	PPA_RULE_REGISTER = 4,	/* in register number value */
	PPA_RULE_AT_EXPR = 5,	/* in memory at the result of the expression whose block begins at value */
	PPA_RULE_EXPR = 6,	/* is the result of the expression at value */
};

/* kind in the low 3 bits, value above: stack room is short. Values of more than 61 bits do not exist in user space. */
PPA_CTX_SIGNAL static inline int64_t ppa_rule_make(enum ppa_rule_kind kind, int64_t value)
{
	return (int64_t)((uint64_t)value << 3) | kind;
}

PPA_CTX_SIGNAL static inline enum ppa_rule_kind ppa_rule_kind(int64_t rule)
{
	return (enum ppa_rule_kind)(rule & 7);
}

PPA_CTX_SIGNAL static inline int64_t ppa_rule_value(int64_t rule)
{
	return rule >> 3;
}

struct ppa_cfi_row {
	int64_t rule[PPA_NREGS]; /* PPA_REG_PC is the return address */
	int64_t cfa_offset;
	uintptr_t cfa_expr; /* expression block that computes the CFA; 0: cfa_reg + cfa_offset */
	uint32_t cfa_reg;
};

enum {
	PPA_CFI_REMEMBER = 6,	   /* nesting of DW_CFA_remember_state that we keep; compilers use 1 */
	PPA_CFI_REMEMBER_MAX = 64, /* nesting that is no nonsense */
};

/* The common part of a description. */
struct ppa_cfi_common {
	uintptr_t instructions, end;
	uint64_t code_align;
	int64_t data_align;
	uint64_t return_reg;
	uint8_t pointer_encoding;
	bool sized; /* 'z': the description has an augmentation of its own */
	bool signal_frame;
};

/* The interpreter's state: cfi_program.h. */
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

/* Working memory of one search, in the caller's buffer: too large for a handler's stack. */
struct ppa_cfi {
	struct ppa_cfi_row row;	    /* the result */
	bool signal_frame;	    /* the row is of a signal trampoline: its caller was interrupted, not calling */
	uintptr_t start, end;	    /* what the description covers */
	struct ppa_view view;	    /* for the expressions the row names */
	struct ppa_cfi_row initial; /* after the common part, for DW_CFA_restore */
	struct ppa_cfi_row remembered[PPA_CFI_REMEMBER];
	struct ppa_cfi_common common;
	struct ppa_cfi_program program;
	uint8_t copy[PPA_VIEW_COPY];
};

/* Find the row for pc in code. m pays for copies where code does not stay. Returns 0, -ENOENT when no description
 * covers pc, -EINVAL when the tables are corrupt or use something we do not know, -E2BIG when they are in order, have no
 * expressions, and only need more room than we have: then libunwind can be trusted with them. Context: signal. */
int ppa_cfi_find(struct ppa_cfi *c, const struct ppa_code *code, struct ppa_memory *m, uintptr_t pc) PPA_CTX_SIGNAL;

/* Read the record of .eh_frame at *pos, which moves to the next one; [lo, hi) is readable and stays. 1: it describes
 * [c->start, c->end); 0: it is something else; -ENOENT at the end, -EINVAL when it is corrupt. Context: signal. */
int ppa_cfi_read_record(struct ppa_cfi *c, uintptr_t lo, uintptr_t hi, uintptr_t *pos) PPA_CTX_SIGNAL;

#endif
