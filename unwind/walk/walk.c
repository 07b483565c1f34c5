/* SPDX-License-Identifier: Apache-2.0
 *
 * The step loop. A step looks its pc up in the row cache; on a miss the module is searched, its call frame information
 * interpreted, and the row remembered. Code without rules goes to guess.c; rules that are too large for us go to
 * libunwind.c.
 *
 * Progress: the stack pointer must grow at every step. Exceptions, a few a walk: an interrupted frame (the leaf, or
 * below a signal trampoline) may be just switching stacks, and a far jump is a function that runs its callee on another
 * stack (Rust's psm, gcc's split stacks). Frames are bounded anyway.
 *
 * The bracket of the module table covers the whole walk. What a walk needs beyond 1.3 KiB of stack lies in the caller's
 * buffer. */
#include "unwind/walk/walk.h"

#include <errno.h>
#include <string.h>

#include "unwind/walk/expr.h"
#include "unwind/walk/rowcache.h"

enum {
	MAX_JUMPS = 4,
	MAX_SCAN = 4000,	   /* words: some 50 us */
	FAR_JUMP_BYTES = 16 << 10, /* less than any other stack is away, more than garbage near the stack */
	WORD = sizeof(uintptr_t),
};

static const uint8_t saved_regs[PPA_NSAVED] = PPA_SAVED_REGS;

int ppa_walk_arrive(struct ppa_walk *w, uintptr_t pc, uintptr_t sp, bool interrupted)
{
	uintptr_t old = w->regs.r[PPA_REG_SP];

	if (!pc && !interrupted)
		return PPA_UNWIND_COMPLETE;
	if (ppa_unlikely(sp <= old)) {
		if (!w->exact && !interrupted && old - sp < FAR_JUMP_BYTES)
			return PPA_UNWIND_NO_PROGRESS;
		if (!w->jumps_left--)
			return PPA_UNWIND_NO_PROGRESS;
	}
	w->exact = interrupted;
	w->regs.r[PPA_REG_PC] = pc;
	w->regs.r[PPA_REG_SP] = sp;
	w->mem.sp = sp;
	/* Back from an alternate stack or a fiber to the stack whose bounds we know. */
	if (ppa_unlikely(interrupted && !w->mem.hi))
		ppa_memory_enter(&w->mem, w->bounds, sp, 0);
	return PPA_WALK_ON;
}

/* Registers that a compact row finds in memory that must be checked word by word. One that cannot be read stays as it
 * is: gcc's rules for the last instructions of a realigned frame count from a frame pointer that is already the
 * caller's, and whether the register is needed at all only the next frames tell. */
PPA_CTX_SIGNAL static void load_saved(struct ppa_walk *w, uint64_t saved, uintptr_t base)
{
	for (int i = 0; i < PPA_NSAVED; i++) {
		uint64_t n = saved >> (i * PPA_ROW_FIELD_BITS) & PPA_ROW_FIELD_MAX;

		if (n)
			ppa_memory_read(&w->mem, base - n * WORD, &w->regs.r[saved_regs[i]]);
	}
}

/* The same where one check proved all of them readable: no branches but the loop, which is unrolled. */
PPA_CTX_SIGNAL static inline void load_saved_directly(struct ppa_walk *w, uint64_t saved, uintptr_t base)
{
#pragma GCC unroll 6
	for (int i = 0; i < PPA_NSAVED; i++) {
		uint64_t n = saved >> (i * PPA_ROW_FIELD_BITS) & PPA_ROW_FIELD_MAX;
		uintptr_t *reg = &w->regs.r[saved_regs[i]];

		*reg = ppa_memory_load(n ? base - n * WORD : (uintptr_t)reg);
	}
}

PPA_CTX_SIGNAL static inline int apply_packed(struct ppa_walk *w, const struct ppa_row *row)
{
	uintptr_t cfa = w->regs.r[row->cfa >> PPA_ROW_REG_SHIFT & PPA_ROW_REG_MASK] + (uintptr_t)(int32_t)row->cfa;
	uintptr_t span = (row->cfa >> PPA_ROW_DEEPEST_SHIFT & PPA_ROW_FIELD_MAX) * WORD, base, pc;

	if (ppa_unlikely(row->cfa & (PPA_ROW_END | PPA_ROW_DEREF))) {
		if (row->cfa & PPA_ROW_END)
			return PPA_UNWIND_COMPLETE;
		if (!ppa_memory_read(&w->mem, cfa, &cfa))
			return PPA_UNWIND_BAD_MEMORY;
	}
	if (!ppa_memory_read(&w->mem, cfa - WORD, &pc))
		return PPA_UNWIND_BAD_MEMORY;
	base = row->saved & PPA_ROW_BASE_FP ? w->regs.r[PPA_REG_FP] + PPA_ROW_FP_BIAS : cfa;
	if (ppa_likely(base <= w->mem.hi && base >= span && base - span >= w->mem.lo))
		load_saved_directly(w, row->saved, base);
	else
		load_saved(w, row->saved, base);
	return ppa_walk_arrive(w, pc, cfa, false);
}

/* One register by its rule. Returns 0, -EINVAL or -EFAULT. */
PPA_CTX_SIGNAL static int apply_rule(struct ppa_walk *w, const struct ppa_expr *e, int64_t rule, uintptr_t cfa,
				     uintptr_t *out)
{
	int64_t value = ppa_rule_value(rule);
	uintptr_t addr = cfa + (uintptr_t)value;
	int err;

	switch (ppa_rule_kind(rule)) {
	case PPA_RULE_SAME:
	case PPA_RULE_UNDEFINED:
		return 0;
	case PPA_RULE_AT:
		return ppa_memory_read(&w->mem, addr, out) ? 0 : -EFAULT;
	case PPA_RULE_OFFSET:
		*out = addr;
		return 0;
	case PPA_RULE_REGISTER:
		*out = w->regs.r[value];
		return 0;
	case PPA_RULE_EXPR:
		return ppa_expr_eval(e, (uintptr_t)value, true, cfa, out);
	case PPA_RULE_AT_EXPR:
		err = ppa_expr_eval(e, (uintptr_t)value, true, cfa, &addr);
		if (err)
			return err;
		return ppa_memory_read(&w->mem, addr, out) ? 0 : -EFAULT;
	}
	return -EINVAL;
}

/* Any row, rule by rule. -EINVAL (below every end): it cannot be evaluated by us. */
PPA_CTX_SIGNAL static int apply_row(struct ppa_walk *w, int *end)
{
	struct ppa_cfi *c = &w->scratch->cfi;
	struct ppa_regs *next = &w->scratch->next;
	struct ppa_expr e = {&c->view, &w->mem, &w->regs};
	uintptr_t cfa, pc;
	int err;

	if (ppa_rule_kind(c->row.rule[PPA_REG_PC]) == PPA_RULE_UNDEFINED) {
		*end = PPA_UNWIND_COMPLETE;
		return 0;
	}
	if (ppa_rule_kind(c->row.rule[PPA_REG_PC]) == PPA_RULE_SAME)
		return -EINVAL;
	if (!c->row.cfa_expr)
		cfa = w->regs.r[c->row.cfa_reg] + (uintptr_t)c->row.cfa_offset;
	else if ((err = ppa_expr_eval(&e, c->row.cfa_expr, false, 0, &cfa)) != 0)
		return err;
	*next = w->regs;
	next->r[PPA_REG_SP] = cfa;
	for (int i = 0; i < PPA_NREGS; i++) {
		err = apply_rule(w, &e, c->row.rule[i], cfa, &next->r[i]);
		if (err && (i == PPA_REG_SP || i == PPA_REG_PC))
			return err;
		c->view.bad = false; /* others stay as they are: see load_saved */
	}
	pc = next->r[PPA_REG_PC];
	cfa = next->r[PPA_REG_SP];
	next->r[PPA_REG_SP] = w->regs.r[PPA_REG_SP];
	next->r[PPA_REG_PC] = w->regs.r[PPA_REG_PC];
	w->regs = *next;
	*end = ppa_walk_arrive(w, pc, cfa, c->signal_frame);
	return 0;
}

/* No description covers pc, the byte before a return address. Is the return address the first byte of one? Nothing can
 * have called from there: somebody wrote the address onto a fresh stack (makecontext) and the stack begins here; or the
 * kernel did, before a trampoline that is described from its first byte. */
PPA_CTX_SIGNAL static int step_from_start(struct ppa_walk *w, const struct ppa_code *code, uintptr_t pc)
{
	struct ppa_cfi *c = &w->scratch->cfi;
	int end;

	if (w->exact || ppa_cfi_find(c, code, &w->mem, pc + 1) || c->start != pc + 1)
		return ppa_guess_step(w, code);
	if (!c->signal_frame)
		return PPA_UNWIND_COMPLETE;
	return apply_row(w, &end) ? PPA_UNWIND_NO_RULE : end;
}

/* The pc is not in the row cache. */
PPA_CTX_SIGNAL static __attribute__((noinline)) int step_cold(struct ppa_walk *w, uintptr_t pc)
{
	struct ppa_cfi *c = &w->scratch->cfi;
	struct ppa_code *code = &w->scratch->code;
	struct ppa_row row;
	int err, end;

	if (!ppa_modules_find(pc, code))
		return ppa_guess_step(w, NULL);
	err = ppa_cfi_find(c, code, &w->mem, pc);
	if (err == -ENOENT)
		return step_from_start(w, code, pc);
	if (!err && ppa_row_pack(c, pc, &row)) {
		ppa_row_store(pc, code->epoch, &row);
		return apply_packed(w, &row);
	}
	if (!err)
		err = apply_row(w, &end);
	if (!err)
		return end;
	if (err == -E2BIG)
		return ppa_second_opinion_step(w, code, pc);
	return err == -EFAULT ? PPA_UNWIND_BAD_MEMORY : PPA_UNWIND_NO_RULE;
}

/* Bytes between our frame and the end of the stack the handler runs on; 0 if it is not known. */
PPA_CTX_SIGNAL static size_t stack_room(const void *ucontext, const struct ppa_stack_bounds *bounds, uintptr_t here)
{
	uintptr_t lo, hi;

	if (ppa_arch_altstack(ucontext, &lo, &hi) && here >= lo && here < hi)
		return here - lo;
	if (bounds && here >= bounds->lo && here < bounds->hi)
		return here - bounds->lo;
	return 0;
}

PPA_CTX_SIGNAL static enum ppa_unwind_end walk(struct ppa_walk *w, struct ppa_unwind_buf *buf)
{
	struct ppa_row row;

	while (buf->npcs < PPA_UNWIND_MAX_FRAMES) {
		uintptr_t pc = w->regs.r[PPA_REG_PC] - !w->exact;
		int end, found = ppa_row_lookup(pc, &w->epochs, &row);

		buf->may_go |= found != PPA_ROW_STAYS;
		if (ppa_likely(found))
			end = apply_packed(w, &row);
		else
			end = step_cold(w, pc);
		if (end != PPA_WALK_ON)
			return (enum ppa_unwind_end)end;
		buf->pcs[buf->npcs++] = w->regs.r[PPA_REG_PC] - !w->exact;
	}
	return PPA_UNWIND_FULL;
}

/* From the registers in w on; here is known to be on the current stack. */
PPA_CTX_SIGNAL static void begin(struct ppa_walk *w, const struct ppa_stack_bounds *bounds, uintptr_t here,
				 struct ppa_unwind_buf *buf)
{
	unsigned token;

	ppa_memory_init(&w->mem, buf);
	if (w->sleeper)
		ppa_memory_read_sleeper(&w->mem, w->sleeper);
	w->bounds = bounds;
	w->scratch = (struct ppa_walk_scratch *)buf->scratch;
	w->exact = true;
	w->jumps_left = MAX_JUMPS;
	w->scan_left = MAX_SCAN;
	buf->pcs[0] = w->regs.r[PPA_REG_PC];
	buf->npcs = 1;
	buf->may_go = false;
	token = ppa_modules_read_begin();
	w->epochs = ppa_modules_epochs();
	ppa_memory_enter(&w->mem, bounds, w->regs.r[PPA_REG_SP], here);
	if (w->sleeper)
		buf->end = ppa_asleep_walk(w, buf);
	else if (!ppa_quick_walk(w, buf, &buf->end))
		buf->end = walk(w, buf);
	ppa_modules_read_end(token);
}

int ppa_walk_step(struct ppa_walk *w, bool *may_go)
{
	uintptr_t pc = w->regs.r[PPA_REG_PC] - !w->exact;
	struct ppa_row row;
	int found = ppa_row_lookup(pc, &w->epochs, &row);

	*may_go |= found != PPA_ROW_STAYS;
	return found ? apply_packed(w, &row) : step_cold(w, pc);
}

void ppa_unwind_context(const void *ucontext, const struct ppa_stack_bounds *bounds, struct ppa_unwind_buf *buf)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	struct ppa_walk w;

	w.sleeper = NULL;
	w.trail = NULL;
	ppa_arch_from_ucontext(ucontext, &w.regs);
	w.stack_room = stack_room(ucontext, bounds, here);
	begin(&w, bounds, here, buf);
}

/* Inlined, so that the walk begins in whichever of the two was called. */
PPA_CTX_SIGNAL static inline __attribute__((always_inline)) void
walk_here(const struct ppa_stack_bounds *bounds, struct ppa_unwind_buf *buf, struct ppa_unwind_trail *trail)
{
	struct ppa_walk w;
	uintptr_t sp;

	memset(&w.regs, 0, sizeof(w.regs));
	w.sleeper = NULL;
	w.trail = trail;
	ppa_arch_capture(&w.regs);
	sp = w.regs.r[PPA_REG_SP];
	w.stack_room = bounds && sp >= bounds->lo && sp < bounds->hi ? sp - bounds->lo : 0;
	/* We are running on it: what lies below our frame needs no proof. */
	begin(&w, bounds, sp - 1, buf);
	if (trail) {
		trail->epochs[0] = w.epochs.rest;
		trail->epochs[1] = w.epochs.loader;
	}
}

void ppa_unwind_here(const struct ppa_stack_bounds *bounds, struct ppa_unwind_buf *buf)
{
	walk_here(bounds, buf, NULL);
}

void ppa_unwind_here_trailed(const struct ppa_stack_bounds *bounds, struct ppa_unwind_buf *buf,
			     struct ppa_unwind_trail *trail)
{
	trail->holds = true;
	trail->fp_is_noted = false;
	trail->fp_at = 0;
	trail->n = 0;
	walk_here(bounds, buf, trail);
	trail->holds &= buf->end == PPA_UNWIND_COMPLETE && (!buf->may_go || trail->epochs[0]);
}

void ppa_unwind_asleep(const struct ppa_sleeper *sleeper, struct ppa_unwind_buf *buf)
{
	struct ppa_walk w = {.sleeper = sleeper};

	for (int i = 0; i < PPA_NREGS; i++)
		w.regs.r[i] = PPA_REG_UNKNOWN;
	w.regs.r[PPA_REG_PC] = sleeper->pc;
	w.regs.r[PPA_REG_SP] = sleeper->sp;
	begin(&w, NULL, 0, buf);
}

int ppa_unwind_init(void)
{
	int err = ppa_row_init();

	ppa_guess_init();
	return err ? err : ppa_second_opinion_init();
}
