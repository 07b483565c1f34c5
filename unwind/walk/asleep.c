/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking the stack of a thread that sleeps, from its pc and stack pointer alone: the kernel shows no more to others.
 *
 * Most frames count from the stack pointer, and what a frame saved its callers get back. Where a frame counts from a
 * register that nobody saved on the way (the frame pointer of main at -O0 that calls poll), the register is searched:
 * first where the function's first instructions must have put it, as the stack pointer is known; then, for frames that
 * grow as they run, at every word of the stack. A value is taken if the rule leads to a return address behind a call,
 * if that call, where it says its target, goes to this very function, and if the next step leads to another one. What
 * an old frame left on the stack rarely passes that, as its call went elsewhere.
 *
 * A thread that went to sleep inside a wrapper of ours has told its registers: from that frame on nothing is guessed, and
 * where the kernel tells nothing at all, the walk begins there. */
#include "unwind/walk/prologue_x86_64.h"
#include "unwind/walk/starts.h"
#include "unwind/walk/walk.h"

enum {
	WORD = sizeof(uintptr_t),
	SCAN_WORDS = 4096,
	ARGUMENT_WORDS = 8, /* pushed for the call under way */
};

/* How much speaks for a value. */
enum belief { NONE, POSSIBLE, SURE };

/* A register that is searched, and the function whose frame it is for. */
struct search {
	int reg;
	uintptr_t start; /* of the function, 0 if unknown */
	const struct ppa_code *code;
	struct ppa_walk found; /* the walk behind the step */
	bool may_go;
};

PPA_CTX_SIGNAL static bool knows(const struct ppa_walk *w, int reg)
{
	return w->regs.r[reg] != PPA_REG_UNKNOWN;
}

/* Which register the rule at the current pc needs and the walk lacks; -1 if that is not why it ended. */
PPA_CTX_SIGNAL static int missing(struct ppa_walk *w, struct ppa_code *code, uintptr_t *start)
{
	struct ppa_cfi *c = &w->scratch->cfi;
	uintptr_t pc = w->regs.r[PPA_REG_PC] - !w->exact;
	uint32_t reg;

	if (!ppa_modules_find(pc, code) || ppa_cfi_find(c, code, &w->mem, pc))
		return -1;
	/* The expressions in use count from the frame pointer. */
	reg = c->row.cfa_expr ? PPA_REG_FP : c->row.cfa_reg;
	*start = c->start;
	return reg < PPA_NREGS && !knows(w, (int)reg) ? (int)reg : -1;
}

/* Does the walk stand behind a call, and does another step lead on? */
PPA_CTX_SIGNAL static bool leads_on(const struct ppa_walk *w)
{
	struct ppa_walk next = *w;
	uintptr_t target;
	bool may_go;
	int end = ppa_walk_step(&next, &may_go);

	/* One more register may be missing; that is for later. */
	if (end == PPA_UNWIND_COMPLETE)
		return true;
	if (end != PPA_WALK_ON)
		return !knows(w, PPA_REG_FP);
	return next.exact || ppa_guess_is_after_call(&next, next.regs.r[PPA_REG_PC], &target);
}

PPA_CTX_SIGNAL static enum belief try_value(const struct ppa_walk *w, struct search *s, uintptr_t value)
{
	struct ppa_walk next = *w;
	bool may_go = false;
	uintptr_t target, ret;

	next.regs.r[s->reg] = value;
	if (ppa_walk_step(&next, &may_go) != PPA_WALK_ON || next.exact)
		return NONE;
	ret = next.regs.r[PPA_REG_PC];
	if (!ppa_modules_is_text(ret - 1) || !ppa_guess_is_after_call(&next, ret, &target))
		return NONE;
	if (target && target >= s->code->lo && target < s->code->hi && target != s->start && ret - 1 >= s->code->lo &&
	    ret - 1 < s->code->hi)
		return NONE;
	if (!leads_on(&next))
		return NONE;
	s->found = next;
	s->may_go = may_go;
	return target && target == s->start ? SURE : POSSIBLE;
}

/* Where the first instructions put the frame pointer, counted from the stack pointer of now. */
PPA_CTX_SIGNAL static bool by_code(struct ppa_walk *w, struct search *s)
{
	uintptr_t sp = w->regs.r[PPA_REG_SP], pc = w->regs.r[PPA_REG_PC];
	uint8_t code[PPA_PROLOGUE_BYTES];
	struct ppa_frame f;

	if (!s->start || pc < s->start || !ppa_memory_code(&w->mem, code, s->start, sizeof(code)))
		return false;
	f = ppa_arch_frame_entered(code, pc - s->start);
	if (f.bytes < 0 || !f.fp_below)
		return false;
	for (uintptr_t i = 0; i <= ARGUMENT_WORDS; i++)
		if (try_value(w, s, sp + (uintptr_t)(f.bytes - f.fp_below) + i * WORD))
			return true;
	return false;
}

PPA_CTX_SIGNAL static bool by_scan(struct ppa_walk *w, struct search *s)
{
	uintptr_t sp = w->regs.r[PPA_REG_SP];
	struct search best = *s;
	bool found = false;

	for (uintptr_t i = 0; i < SCAN_WORDS; i++) {
		enum belief b = try_value(w, s, sp + i * WORD);

		if (b == SURE)
			return true;
		if (b == NONE || found)
			continue;
		found = true;
		best = *s;
	}
	if (found)
		*s = best;
	return found;
}

/* The step that could not be taken, with a register found. */
PPA_CTX_SIGNAL static bool recover(struct ppa_walk *w, bool *may_go)
{
	struct ppa_code code;
	struct search s = {.code = &code};

	s.reg = missing(w, &code, &s.start);
	if (s.reg < 0 || !(by_code(w, &s) || by_scan(w, &s)))
		return false;
	*w = s.found;
	*may_go |= s.may_go;
	return true;
}

PPA_CTX_SIGNAL static void load_anchor(struct ppa_walk *w)
{
	static const uint8_t saved[PPA_NSAVED] = PPA_SAVED_REGS;

	for (int i = 0; i < PPA_NSAVED; i++)
		w->regs.r[saved[i]] = w->sleeper->saved[i];
}

PPA_CTX_SIGNAL static bool is_anchor(const struct ppa_sleeper *s, uintptr_t pc)
{
	return pc >= s->text_lo && pc < s->text_hi;
}

/* The walk is lost below the anchor: go on from there, if a call was made from that place of the stack. */
PPA_CTX_SIGNAL static bool jump_to_anchor(struct ppa_walk *w)
{
	const struct ppa_sleeper *s = w->sleeper;
	uintptr_t ret;

	if (s->anchor_sp <= w->regs.r[PPA_REG_SP] || !ppa_memory_read(&w->mem, s->anchor_sp - WORD, &ret) ||
	    !is_anchor(s, ret - 1))
		return false;
	return ppa_walk_arrive(w, ret, s->anchor_sp, false) == PPA_WALK_ON;
}

/* Count the frame in that the walk has come to. */
PPA_CTX_SIGNAL static void put_frame(struct ppa_walk *w, struct ppa_unwind_buf *buf)
{
	if (w->regs.r[PPA_REG_SP] == w->sleeper->anchor_sp && is_anchor(w->sleeper, w->regs.r[PPA_REG_PC] - 1)) {
		load_anchor(w);
		buf->anchored = true;
	}
	buf->pcs[buf->npcs++] = w->regs.r[PPA_REG_PC] - !w->exact;
}

enum ppa_unwind_end ppa_asleep_walk(struct ppa_walk *w, struct ppa_unwind_buf *buf)
{
	buf->anchored = false;
	if (!w->sleeper->pc) { /* the anchor is all there is */
		buf->npcs = 0;
		if (!jump_to_anchor(w))
			return PPA_UNWIND_BAD_MEMORY;
		put_frame(w, buf);
	}
	while (buf->npcs < PPA_UNWIND_MAX_FRAMES) {
		int end = ppa_walk_step(w, &buf->may_go);

		if (end == PPA_UNWIND_COMPLETE)
			return PPA_UNWIND_COMPLETE;
		if (end != PPA_WALK_ON && !recover(w, &buf->may_go) && !jump_to_anchor(w))
			return (enum ppa_unwind_end)end;
		put_frame(w, buf);
	}
	return PPA_UNWIND_FULL;
}
