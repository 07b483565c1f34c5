/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing rows, and the table they are remembered in; see rowcache.h. Two shapes of expression are common enough to be
 * recognised by their bytes: the PLT's (the CFA depends on pc alone, so for one pc it is a constant) and that of frames
 * that realign the stack (register plus offset, then a load). */
#include "unwind/walk/rowcache.h"

#include <errno.h>

#include "agent/base/sys.h"

enum { /* the operations in those expressions */
       OP_DEREF = 0x06,
       OP_AND = 0x1a,
       OP_PLUS = 0x22,
       OP_SHL = 0x24,
       OP_GE = 0x2a,
       OP_LIT0 = 0x30,
       OP_LIT31 = 0x4f,
       OP_BREG0 = 0x70,
};

struct ppa_row_table ppa_rows = {.mask = PPA_ROW_FIRST - 1};

int ppa_row_init(void)
{
	struct ppa_row_entry *fresh, *none = NULL;
	size_t bytes = sizeof(*fresh) * PPA_ROW_ENTRIES;

	if (atomic_load_explicit(&ppa_rows.entries, memory_order_relaxed))
		return 0;
	fresh = ppa_sys_map(bytes);
	if (!fresh)
		return -ENOMEM;
	/* release: zero pages need no order, but the pointer must not come before the mapping. Pairs with the address
	 * dependency in ppa_row_lookup. */
	if (!atomic_compare_exchange_strong_explicit(&ppa_rows.entries, &none, fresh, memory_order_release,
						     memory_order_relaxed))
		ppa_sys_unmap(fresh, bytes);
	return 0;
}

/* An entry was replaced. When a thirtieth of all were, twice as many are used. Two threads that count or double at once do
 * it once. */
PPA_CTX_SIGNAL static void grow(void)
{
	uint32_t mask = atomic_load_explicit(&ppa_rows.mask, memory_order_relaxed);
	uint32_t n = atomic_load_explicit(&ppa_rows.replaced, memory_order_relaxed) + 1;

	if (mask >= PPA_ROW_ENTRIES - 1)
		return;
	if (n > mask / 32) {
		atomic_compare_exchange_strong_explicit(&ppa_rows.mask, &mask, 2 * mask + 1, memory_order_relaxed,
							memory_order_relaxed);
		n = 0;
	}
	atomic_store_explicit(&ppa_rows.replaced, n, memory_order_relaxed);
}

void ppa_row_store(uintptr_t pc, uint64_t epoch, const struct ppa_row *row)
{
	const struct ppa_row_view v = ppa_row_view();
	struct ppa_row_entry *e;

	if (!v.entries || !epoch)
		return;
	e = ppa_row_slot(&v, pc);
	if (atomic_load_explicit(&e->cfa, memory_order_relaxed))
		grow();
	atomic_store_explicit(&e->check, ppa_row_key(pc, epoch) ^ ppa_row_digest(row->saved, row->cfa),
			      memory_order_relaxed);
	atomic_store_explicit(&e->saved, row->saved, memory_order_relaxed);
	atomic_store_explicit(&e->cfa, row->cfa, memory_order_relaxed);
}

/* breg<reg> <offset>: false if the next operation is another one. */
PPA_CTX_SIGNAL static bool take_breg(struct ppa_view *v, uintptr_t *pos, uint32_t *reg, int64_t *offset)
{
	uint8_t op = ppa_view_u8(v, pos);

	if (op < OP_BREG0 || op >= OP_BREG0 + PPA_NREGS)
		return false;
	*reg = op - OP_BREG0;
	*offset = ppa_view_sleb(v, pos);
	return !v->bad;
}

/* Exactly: breg7 8, breg16 0, lit15, and, lit<n>, ge, lit3, shl, plus. */
PPA_CTX_SIGNAL static bool plt_cfa(struct ppa_view *v, uintptr_t pos, uintptr_t pc, int64_t *offset)
{
	static const uint8_t tail[] = {OP_GE, OP_LIT0 + 3, OP_SHL, OP_PLUS};
	int64_t base, zero;
	uint32_t sp, ip;
	uint8_t low;

	if (!take_breg(v, &pos, &sp, &base) || sp != PPA_REG_SP || !take_breg(v, &pos, &ip, &zero) ||
	    ip != PPA_REG_PC || zero)
		return false;
	if (ppa_view_u8(v, &pos) != OP_LIT0 + 15 || ppa_view_u8(v, &pos) != OP_AND)
		return false;
	low = ppa_view_u8(v, &pos);
	if (low < OP_LIT0 || low > OP_LIT31)
		return false;
	for (size_t i = 0; i < sizeof(tail); i++)
		if (ppa_view_u8(v, &pos) != tail[i])
			return false;
	*offset = base + (int64_t)((pc & 15) >= (uintptr_t)(low - OP_LIT0)) * 8;
	return !v->bad;
}

PPA_CTX_SIGNAL static bool pack_cfa(struct ppa_cfi *c, uintptr_t pc, struct ppa_row *out)
{
	struct ppa_view *v = &c->view;
	uint32_t reg = c->row.cfa_reg;
	int64_t offset = c->row.cfa_offset;
	uintptr_t pos = c->row.cfa_expr;
	uint64_t flags = PPA_ROW_VALID, len;

	if (pos) {
		len = ppa_view_uleb(v, &pos);
		if (plt_cfa(v, pos, pc, &offset)) {
			reg = PPA_REG_SP;
		} else {
			uintptr_t end = pos + len;

			if (v->bad || !take_breg(v, &pos, &reg, &offset) || pos + 1 != end ||
			    ppa_view_u8(v, &pos) != OP_DEREF)
				return false;
			flags |= PPA_ROW_DEREF;
		}
	}
	if (reg >= PPA_REG_PC || offset < INT32_MIN || offset > INT32_MAX)
		return false;
	out->cfa = flags | (uint64_t)reg << PPA_ROW_REG_SHIFT | (uint32_t)offset;
	return true;
}

/* How many words below its base a register is saved; 0 the same, -1 not sayable. *fp: the base is the frame pointer. */
PPA_CTX_SIGNAL static int pack_saved(struct ppa_cfi *c, int64_t rule, bool *fp)
{
	int64_t below;

	*fp = false;
	if (ppa_rule_kind(rule) == PPA_RULE_SAME || ppa_rule_kind(rule) == PPA_RULE_UNDEFINED)
		return 0;
	below = -ppa_rule_value(rule);
	if (ppa_rule_kind(rule) == PPA_RULE_AT_EXPR) {
		uintptr_t pos = (uintptr_t)ppa_rule_value(rule), end;
		uint64_t len = ppa_view_uleb(&c->view, &pos);
		uint32_t reg;
		int64_t offset;

		end = pos + len;
		if (c->view.bad || !take_breg(&c->view, &pos, &reg, &offset) || reg != PPA_REG_FP || pos != end)
			return -1;
		below = PPA_ROW_FP_BIAS - offset;
		*fp = true;
	} else if (ppa_rule_kind(rule) != PPA_RULE_AT) {
		return -1;
	}
	if (below <= 0 || below % 8 || below / 8 > PPA_ROW_FIELD_MAX)
		return -1;
	return (int)(below / 8);
}

bool ppa_row_pack(struct ppa_cfi *c, uintptr_t pc, struct ppa_row *out)
{
	static const uint8_t saved[PPA_NSAVED] = PPA_SAVED_REGS;
	const int64_t *rule = c->row.rule;
	int deepest = 0, nfp = 0, ncfa = 0;

	if (c->signal_frame || ppa_rule_kind(rule[PPA_REG_SP]) != PPA_RULE_SAME || !pack_cfa(c, pc, out))
		goto no;
	out->saved = 0;
	if (ppa_rule_kind(rule[PPA_REG_PC]) == PPA_RULE_UNDEFINED) {
		out->cfa |= PPA_ROW_END;
		return true;
	}
	if (rule[PPA_REG_PC] != ppa_rule_make(PPA_RULE_AT, -8))
		goto no;
	for (int i = 0; i < PPA_NSAVED; i++) {
		bool fp;
		int n = pack_saved(c, rule[saved[i]], &fp);

		if (n < 0)
			goto no;
		nfp += n && fp;
		ncfa += n && !fp;
		deepest = n > deepest ? n : deepest;
		out->saved |= (uint64_t)n << (i * PPA_ROW_FIELD_BITS);
	}
	if (nfp && ncfa)
		goto no;
	out->saved |= nfp ? PPA_ROW_BASE_FP : 0;
	out->cfa |= (uint64_t)deepest << PPA_ROW_DEEPEST_SHIFT;
	return true;
no:
	c->view.bad = false; /* looking for a shape is no error of the tables */
	return false;
}
