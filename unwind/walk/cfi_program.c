/* SPDX-License-Identifier: Apache-2.0
 *
 * Call frame instructions (DWARF 5, 6.4.2, and GNU's additions). Instructions fall into three families with one switch
 * each: those that move the location, those that define the CFA, those that give a register a rule. An instruction
 * nobody knows ends the program with -EINVAL, since its operands have no known length.
 *
 * Rules for registers the walker does not follow (vector registers) are parsed and dropped. */
#include "unwind/walk/cfi_program.h"

#include <errno.h>

enum { CFI_MAX_OPS = 16384 };

enum {
	CFA_ADVANCE = 0x40, /* the three with an operand in their low 6 bits */
	CFA_OFFSET = 0x80,
	CFA_RESTORE = 0xc0,
	CFA_NOP = 0x00,
	CFA_SET_LOC = 0x01,
	CFA_ADVANCE1 = 0x02,
	CFA_ADVANCE2 = 0x03,
	CFA_ADVANCE4 = 0x04,
	CFA_OFFSET_EXTENDED = 0x05,
	CFA_RESTORE_EXTENDED = 0x06,
	CFA_UNDEFINED = 0x07,
	CFA_SAME_VALUE = 0x08,
	CFA_REGISTER = 0x09,
	CFA_REMEMBER_STATE = 0x0a,
	CFA_RESTORE_STATE = 0x0b,
	CFA_DEF_CFA = 0x0c,
	CFA_DEF_CFA_REGISTER = 0x0d,
	CFA_DEF_CFA_OFFSET = 0x0e,
	CFA_DEF_CFA_EXPRESSION = 0x0f,
	CFA_EXPRESSION = 0x10,
	CFA_OFFSET_EXTENDED_SF = 0x11,
	CFA_DEF_CFA_SF = 0x12,
	CFA_DEF_CFA_OFFSET_SF = 0x13,
	CFA_VAL_OFFSET = 0x14,
	CFA_VAL_OFFSET_SF = 0x15,
	CFA_VAL_EXPRESSION = 0x16,
	CFA_ADVANCE8 = 0x1d,
	CFA_GNU_ARGS_SIZE = 0x2e,
	CFA_GNU_NEGATIVE_OFFSET = 0x2f,
};

enum outcome { NEXT, DONE, NOT_MINE, BAD };

PPA_CTX_SIGNAL static void set_rule(struct ppa_cfi_program *p, uint64_t reg, enum ppa_rule_kind kind, int64_t value)
{
	if (reg < PPA_NREGS)
		p->cfi->row.rule[reg] = ppa_rule_make(kind, value);
}

PPA_CTX_SIGNAL static void restore_rule(struct ppa_cfi_program *p, uint64_t reg)
{
	if (reg < PPA_NREGS)
		p->cfi->row.rule[reg] = p->cfi->initial.rule[reg];
}

/* An expression is kept as the address of its block; here only its extent is passed over. */
PPA_CTX_SIGNAL static uintptr_t skip_block(struct ppa_view *v, uintptr_t *pos, uintptr_t end)
{
	uintptr_t block = *pos;
	uint64_t len = ppa_view_uleb(v, pos);

	if (v->bad || *pos > end || len > end - *pos)
		v->bad = true;
	else
		*pos += len;
	return block;
}

PPA_CTX_SIGNAL static enum outcome move_location(struct ppa_cfi_program *p, uint8_t op, uintptr_t *pos)
{
	struct ppa_view *v = &p->cfi->view;

	switch (op) {
	case CFA_SET_LOC:
		p->location = ppa_view_encoded(v, pos, p->pointer_encoding, p->data_base);
		break;
	case CFA_ADVANCE1:
		p->location += ppa_view_u8(v, pos) * p->code_align;
		break;
	case CFA_ADVANCE2:
		p->location += ppa_view_uint(v, pos, 2) * p->code_align;
		break;
	case CFA_ADVANCE4:
		p->location += ppa_view_uint(v, pos, 4) * p->code_align;
		break;
	case CFA_ADVANCE8:
		p->location += ppa_view_uint(v, pos, 8) * p->code_align;
		break;
	default:
		return NOT_MINE;
	}
	return p->location > p->pc ? DONE : NEXT;
}

/* Beyond the nesting we keep, states are only counted. */
PPA_CTX_SIGNAL static enum outcome change_state(struct ppa_cfi_program *p, uint8_t op)
{
	if (op == CFA_REMEMBER_STATE) {
		if (p->depth >= PPA_CFI_REMEMBER_MAX)
			return BAD;
		if (p->depth < PPA_CFI_REMEMBER)
			p->cfi->remembered[p->depth] = p->cfi->row;
		p->depth++;
		return NEXT;
	}
	if (!p->depth)
		return BAD;
	p->row_lost = --p->depth >= PPA_CFI_REMEMBER;
	if (!p->row_lost)
		p->cfi->row = p->cfi->remembered[p->depth];
	return NEXT;
}

PPA_CTX_SIGNAL static enum outcome define_cfa(struct ppa_cfi_program *p, uint8_t op, uintptr_t *pos, uintptr_t end)
{
	struct ppa_view *v = &p->cfi->view;
	struct ppa_cfi_row *row = &p->cfi->row;
	uint64_t reg;

	switch (op) {
	case CFA_DEF_CFA:
	case CFA_DEF_CFA_SF:
	case CFA_DEF_CFA_REGISTER:
		reg = ppa_view_uleb(v, pos);
		if (op == CFA_DEF_CFA)
			row->cfa_offset = (int64_t)ppa_view_uleb(v, pos);
		else if (op == CFA_DEF_CFA_SF)
			row->cfa_offset = (int64_t)((uint64_t)ppa_view_sleb(v, pos) * (uint64_t)p->data_align);
		if (reg >= PPA_NREGS)
			return BAD;
		row->cfa_reg = (uint32_t)reg;
		row->cfa_expr = 0;
		return NEXT;
	case CFA_DEF_CFA_OFFSET_SF:
		row->cfa_offset = (int64_t)((uint64_t)ppa_view_sleb(v, pos) * (uint64_t)p->data_align);
		return NEXT;
	case CFA_DEF_CFA_EXPRESSION:
		p->has_expressions = true;
		row->cfa_expr = skip_block(v, pos, end);
		return NEXT;
	case CFA_REMEMBER_STATE:
	case CFA_RESTORE_STATE:
		return change_state(p, op);
	default:
		return NOT_MINE;
	}
}

/* Register, then the offset in units of the data alignment. */
PPA_CTX_SIGNAL static void offset_rule(struct ppa_cfi_program *p, uint8_t op, uintptr_t *pos)
{
	struct ppa_view *v = &p->cfi->view;
	bool is_signed = op == CFA_OFFSET_EXTENDED_SF || op == CFA_VAL_OFFSET_SF;
	bool is_value = op == CFA_VAL_OFFSET || op == CFA_VAL_OFFSET_SF;
	uint64_t reg = ppa_view_uleb(v, pos);
	uint64_t n = is_signed ? (uint64_t)ppa_view_sleb(v, pos) : ppa_view_uleb(v, pos);

	if (op == CFA_GNU_NEGATIVE_OFFSET)
		n = -n;
	set_rule(p, reg, is_value ? PPA_RULE_OFFSET : PPA_RULE_AT, (int64_t)(n * (uint64_t)p->data_align));
}

PPA_CTX_SIGNAL static enum outcome give_rule(struct ppa_cfi_program *p, uint8_t op, uintptr_t *pos, uintptr_t end)
{
	struct ppa_view *v = &p->cfi->view;
	uint64_t reg, other;

	switch (op) {
	case CFA_OFFSET_EXTENDED:
	case CFA_OFFSET_EXTENDED_SF:
	case CFA_VAL_OFFSET:
	case CFA_VAL_OFFSET_SF:
	case CFA_GNU_NEGATIVE_OFFSET:
		offset_rule(p, op, pos);
		return NEXT;
	case CFA_RESTORE_EXTENDED:
		restore_rule(p, ppa_view_uleb(v, pos));
		return NEXT;
	case CFA_UNDEFINED:
		set_rule(p, ppa_view_uleb(v, pos), PPA_RULE_UNDEFINED, 0);
		return NEXT;
	case CFA_SAME_VALUE:
		set_rule(p, ppa_view_uleb(v, pos), PPA_RULE_SAME, 0);
		return NEXT;
	case CFA_REGISTER:
		reg = ppa_view_uleb(v, pos);
		other = ppa_view_uleb(v, pos);
		if (reg < PPA_NREGS && other >= PPA_NREGS)
			return BAD;
		set_rule(p, reg, PPA_RULE_REGISTER, (int64_t)other);
		return NEXT;
	case CFA_EXPRESSION:
	case CFA_VAL_EXPRESSION:
		p->has_expressions = true;
		reg = ppa_view_uleb(v, pos);
		set_rule(p, reg, op == CFA_EXPRESSION ? PPA_RULE_AT_EXPR : PPA_RULE_EXPR,
			 (int64_t)skip_block(v, pos, end));
		return NEXT;
	case CFA_GNU_ARGS_SIZE:
		ppa_view_uleb(v, pos);
		return NEXT;
	case CFA_NOP:
		return NEXT;
	default:
		return BAD;
	}
}

PPA_CTX_SIGNAL static enum outcome one_op(struct ppa_cfi_program *p, uintptr_t *pos, uintptr_t end)
{
	struct ppa_view *v = &p->cfi->view;
	uint8_t op = ppa_view_u8(v, pos), low = op & 0x3f;
	enum outcome o;

	switch (op & 0xc0) {
	case CFA_ADVANCE:
		p->location += low * p->code_align;
		return p->location > p->pc ? DONE : NEXT;
	case CFA_OFFSET:
		set_rule(p, low, PPA_RULE_AT, (int64_t)(ppa_view_uleb(v, pos) * (uint64_t)p->data_align));
		return NEXT;
	case CFA_RESTORE:
		restore_rule(p, low);
		return NEXT;
	default:
		break;
	}
	if (op == CFA_DEF_CFA_OFFSET) { /* with those three nearly all there are */
		p->cfi->row.cfa_offset = (int64_t)ppa_view_uleb(v, pos);
		return NEXT;
	}
	o = define_cfa(p, op, pos, end);
	if (o == NOT_MINE)
		o = move_location(p, op, pos);
	return o == NOT_MINE ? give_rule(p, op, pos, end) : o;
}

PPA_CTX_SIGNAL static int run(struct ppa_cfi_program *p, uintptr_t pos, uintptr_t end)
{
	while (pos < end) {
		enum outcome o = ++p->ops > CFI_MAX_OPS ? BAD : one_op(p, &pos, end);

		if (o == BAD || p->cfi->view.bad || pos > end)
			return -EINVAL;
		if (o == DONE)
			break;
	}
	return 0;
}

int ppa_cfi_run(struct ppa_cfi_program *p, uintptr_t common, uintptr_t common_end, uintptr_t own, uintptr_t own_end)
{
	struct ppa_cfi *c = p->cfi;

	c->row = (struct ppa_cfi_row){.cfa_reg = PPA_NREGS};
	c->initial = c->row;
	p->location = c->start;
	p->ops = p->depth = 0;
	p->row_lost = p->has_expressions = false;
	if (run(p, common, common_end))
		return -EINVAL;
	c->initial = c->row;
	p->location = c->start;
	if (run(p, own, own_end))
		return -EINVAL;
	if (p->row_lost)
		return p->has_expressions ? -EINVAL : -E2BIG;
	/* A row without a CFA restores nothing. */
	return c->row.cfa_reg < PPA_NREGS || c->row.cfa_expr ? 0 : -EINVAL;
}
