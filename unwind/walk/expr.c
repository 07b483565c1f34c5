/* SPDX-License-Identifier: Apache-2.0
 *
 * The expression machine. Operations fall into families with one switch each: constants and registers (they push),
 * stack juggling, unary and binary arithmetic, branches. Division by zero, an empty or full stack, an operation we do
 * not know: -EINVAL. */
#include "unwind/walk/expr.h"

#include <errno.h>

enum { MAX_STEPS = 256, MAX_DEPTH = 24, WORD_BITS = 64 };

enum {
	OP_ADDR = 0x03,
	OP_DEREF = 0x06,
	OP_CONST1U = 0x08,
	OP_CONST1S = 0x09,
	OP_CONST2U = 0x0a,
	OP_CONST2S = 0x0b,
	OP_CONST4U = 0x0c,
	OP_CONST4S = 0x0d,
	OP_CONST8U = 0x0e,
	OP_CONST8S = 0x0f,
	OP_CONSTU = 0x10,
	OP_CONSTS = 0x11,
	OP_DUP = 0x12,
	OP_DROP = 0x13,
	OP_OVER = 0x14,
	OP_PICK = 0x15,
	OP_SWAP = 0x16,
	OP_ROT = 0x17,
	OP_ABS = 0x19,
	OP_AND = 0x1a,
	OP_DIV = 0x1b,
	OP_MINUS = 0x1c,
	OP_MOD = 0x1d,
	OP_MUL = 0x1e,
	OP_NEG = 0x1f,
	OP_NOT = 0x20,
	OP_OR = 0x21,
	OP_PLUS = 0x22,
	OP_PLUS_UCONST = 0x23,
	OP_SHL = 0x24,
	OP_SHR = 0x25,
	OP_SHRA = 0x26,
	OP_XOR = 0x27,
	OP_BRA = 0x28,
	OP_EQ = 0x29,
	OP_GE = 0x2a,
	OP_GT = 0x2b,
	OP_LE = 0x2c,
	OP_LT = 0x2d,
	OP_NE = 0x2e,
	OP_SKIP = 0x2f,
	OP_LIT0 = 0x30,
	OP_LIT31 = 0x4f,
	OP_BREG0 = 0x70,
	OP_BREG31 = 0x8f,
	OP_BREGX = 0x92,
	OP_DEREF_SIZE = 0x94,
	OP_NOP = 0x96,
};

struct machine {
	const struct ppa_expr *e;
	uintptr_t pos, begin, end;
	int depth;
	int err;
	uint64_t stack[MAX_DEPTH];
};

PPA_CTX_SIGNAL static void push(struct machine *m, uint64_t x)
{
	if (m->depth >= MAX_DEPTH)
		m->err = -EINVAL;
	else
		m->stack[m->depth++] = x;
}

PPA_CTX_SIGNAL static uint64_t pop(struct machine *m)
{
	if (m->depth <= 0) {
		m->err = -EINVAL;
		return 0;
	}
	return m->stack[--m->depth];
}

PPA_CTX_SIGNAL static void push_register(struct machine *m, uint64_t reg)
{
	uint64_t offset = (uint64_t)ppa_view_sleb(m->e->code, &m->pos);

	if (reg >= PPA_NREGS)
		m->err = -EINVAL;
	else
		push(m, m->e->regs->r[reg] + offset);
}

PPA_CTX_SIGNAL static void dereference(struct machine *m, unsigned bytes)
{
	uint64_t addr = pop(m);
	uintptr_t x = 0;

	if (bytes < 1 || bytes > sizeof(x)) {
		m->err = -EINVAL;
	} else if (bytes == sizeof(x) ? !ppa_memory_read(m->e->memory, addr, &x)
				      : !ppa_memory_copy(m->e->memory, &x, addr, bytes)) {
		m->err = -EFAULT;
	}
	push(m, x);
}

/* Operations that push what they are told. */
PPA_CTX_SIGNAL static bool constant(struct machine *m, uint8_t op)
{
	struct ppa_view *v = m->e->code;

	if (op >= OP_LIT0 && op <= OP_LIT31) {
		push(m, op - OP_LIT0);
		return true;
	}
	if (op >= OP_BREG0 && op <= OP_BREG31) {
		push_register(m, op - OP_BREG0);
		return true;
	}
	switch (op) {
	case OP_CONST1U:
		push(m, ppa_view_uint(v, &m->pos, 1));
		return true;
	case OP_CONST1S:
		push(m, (uint64_t)ppa_view_sint(v, &m->pos, 1));
		return true;
	case OP_CONST2U:
		push(m, ppa_view_uint(v, &m->pos, 2));
		return true;
	case OP_CONST2S:
		push(m, (uint64_t)ppa_view_sint(v, &m->pos, 2));
		return true;
	case OP_CONST4U:
		push(m, ppa_view_uint(v, &m->pos, 4));
		return true;
	case OP_CONST4S:
		push(m, (uint64_t)ppa_view_sint(v, &m->pos, 4));
		return true;
	case OP_ADDR:
	case OP_CONST8U:
	case OP_CONST8S:
		push(m, ppa_view_uint(v, &m->pos, 8));
		return true;
	case OP_CONSTU:
		push(m, ppa_view_uleb(v, &m->pos));
		return true;
	case OP_CONSTS:
		push(m, (uint64_t)ppa_view_sleb(v, &m->pos));
		return true;
	case OP_BREGX:
		push_register(m, ppa_view_uleb(v, &m->pos));
		return true;
	default:
		return false;
	}
}

PPA_CTX_SIGNAL static void pick(struct machine *m, unsigned index)
{
	if (index >= (unsigned)m->depth)
		m->err = -EINVAL;
	else
		push(m, m->stack[m->depth - 1 - (int)index]);
}

PPA_CTX_SIGNAL static bool juggle(struct machine *m, uint8_t op)
{
	uint64_t a, b, c;

	switch (op) {
	case OP_DUP:
		pick(m, 0);
		return true;
	case OP_DROP:
		pop(m);
		return true;
	case OP_OVER:
		pick(m, 1);
		return true;
	case OP_PICK:
		pick(m, ppa_view_u8(m->e->code, &m->pos));
		return true;
	case OP_SWAP:
		a = pop(m);
		b = pop(m);
		push(m, a);
		push(m, b);
		return true;
	case OP_ROT: /* the top becomes the third */
		a = pop(m);
		b = pop(m);
		c = pop(m);
		push(m, a);
		push(m, c);
		push(m, b);
		return true;
	case OP_NOP:
		return true;
	default:
		return false;
	}
}

PPA_CTX_SIGNAL static bool unary(struct machine *m, uint8_t op)
{
	uint64_t a;

	switch (op) {
	case OP_DEREF:
		dereference(m, sizeof(uintptr_t));
		return true;
	case OP_DEREF_SIZE:
		dereference(m, ppa_view_u8(m->e->code, &m->pos));
		return true;
	case OP_ABS:
		a = pop(m);
		push(m, (int64_t)a < 0 ? -a : a);
		return true;
	case OP_NEG:
		push(m, -pop(m));
		return true;
	case OP_NOT:
		push(m, ~pop(m));
		return true;
	case OP_PLUS_UCONST:
		a = pop(m);
		push(m, a + ppa_view_uleb(m->e->code, &m->pos));
		return true;
	default:
		return false;
	}
}

/* a op b; b was on top. Comparisons are signed. */
PPA_CTX_SIGNAL static uint64_t arithmetic(struct machine *m, uint8_t op, uint64_t a, uint64_t b)
{
	int64_t sa = (int64_t)a, sb = (int64_t)b;

	switch (op) {
	case OP_AND:
		return a & b;
	case OP_MINUS:
		return a - b;
	case OP_MUL:
		return a * b;
	case OP_OR:
		return a | b;
	case OP_PLUS:
		return a + b;
	case OP_SHL:
		return b < WORD_BITS ? a << b : 0;
	case OP_SHR:
		return b < WORD_BITS ? a >> b : 0;
	case OP_SHRA:
		return (uint64_t)(sa >> (b < WORD_BITS ? b : WORD_BITS - 1));
	case OP_XOR:
		return a ^ b;
	case OP_EQ:
		return sa == sb;
	case OP_GE:
		return sa >= sb;
	case OP_GT:
		return sa > sb;
	case OP_LE:
		return sa <= sb;
	case OP_LT:
		return sa < sb;
	case OP_NE:
		return sa != sb;
	case OP_DIV: /* the most negative number by -1 traps on some processors */
		if (sb != 0 && !(sb == -1 && sa == INT64_MIN))
			return (uint64_t)(sa / sb);
		break;
	case OP_MOD:
		if (b != 0)
			return a % b;
		break;
	default:
		break;
	}
	m->err = -EINVAL;
	return 0;
}

PPA_CTX_SIGNAL static void jump(struct machine *m, bool taken)
{
	int64_t distance = ppa_view_sint(m->e->code, &m->pos, 2);
	uintptr_t to = m->pos + (uintptr_t)distance;

	if (!taken)
		return;
	if (to < m->begin || to > m->end)
		m->err = -EINVAL;
	m->pos = to;
}

PPA_CTX_SIGNAL static void one_op(struct machine *m)
{
	uint8_t op = ppa_view_u8(m->e->code, &m->pos);

	if (constant(m, op) || juggle(m, op) || unary(m, op))
		return;
	if (op == OP_SKIP) {
		jump(m, true);
	} else if (op == OP_BRA) {
		jump(m, pop(m) != 0);
	} else {
		uint64_t b = pop(m), a = pop(m);

		push(m, arithmetic(m, op, a, b));
	}
}

int ppa_expr_eval(const struct ppa_expr *e, uintptr_t addr, bool push_cfa, uintptr_t cfa, uintptr_t *out)
{
	struct machine m;
	uint64_t len;

	m.e = e;
	m.depth = 0;
	m.err = 0;
	m.pos = addr;
	len = ppa_view_uleb(e->code, &m.pos);
	m.begin = m.pos;
	m.end = m.pos + len;
	if (e->code->bad || m.end < m.begin)
		return -EINVAL;
	if (push_cfa)
		push(&m, cfa);
	for (int steps = 0; m.pos < m.end; steps++) {
		if (steps >= MAX_STEPS)
			return -EINVAL;
		one_op(&m);
		if (m.err)
			return m.err;
		if (e->code->bad)
			return -EINVAL;
	}
	if (!m.depth)
		return -EINVAL;
	*out = m.stack[m.depth - 1];
	return 0;
}
