/* SPDX-License-Identifier: Apache-2.0
 *
 * A step from code that the program generated itself: mapped executable, of no file, described by nothing.
 *
 * Most generators keep frame pointers. Some do not always (Java's compiled code uses the register for other things, but
 * every method pushes what it finds in it), and their interpreters return to addresses that no call stands before. So a frame pointer is
 * believed at once when the call behind its return address may have come here, else compared with what the stack itself tells.
 *
 * There the nearest word is searched that is the return address of a call to just before the pc; or one of any code, with
 * a frame pointer right below it that leads on to code as well. Only if there is none, a mere return address will do. */
#include "unwind/walk/walk.h"

enum {
	WORD = sizeof(uintptr_t),
	MAX_FRAME_BYTES = 1 << 20,
	MAX_FUNCTION_BYTES = 32 << 10,
	SCAN_WORDS = 500,
};

/* What a word is as a return address to the caller of the code at pc, in order of belief. */
enum kind {
	NO_CODE,
	NO_CALL,   /* generated code, but behind no call */
	ELSEWHERE, /* behind a call of something else: a stub, perhaps */
	ANYWHERE,  /* behind a call through a register or memory */
	HERE,
};

/* A frame that was found: where its return address is, and the caller's frame pointer. */
struct frame {
	uintptr_t slot, ret, fp;
};

PPA_CTX_SIGNAL static enum kind kind_of(struct ppa_walk *w, uintptr_t ret, uintptr_t pc)
{
	bool is_generated = ppa_modules_is_foreign(ret - 1);
	uintptr_t target;

	if (!is_generated && !ppa_modules_is_text(ret - 1))
		return NO_CODE;
	if (!ppa_guess_is_after_call(w, ret, &target))
		return is_generated ? NO_CALL : NO_CODE;
	if (!target)
		return ANYWHERE;
	return target <= pc && pc - target < MAX_FUNCTION_BYTES ? HERE : ELSEWHERE;
}

/* Could fp be the frame pointer of a frame above address? */
PPA_CTX_SIGNAL static bool is_above(uintptr_t fp, uintptr_t address)
{
	return fp > address && fp - address <= MAX_FRAME_BYTES && fp % WORD == 0;
}

/* Does a frame pointer, found above address, lead on to code? */
PPA_CTX_SIGNAL static bool leads_on(struct ppa_walk *w, uintptr_t fp, uintptr_t address)
{
	uintptr_t ret;

	return is_above(fp, address) && ppa_memory_read(&w->mem, fp + WORD, &ret) &&
	       (ppa_modules_is_foreign(ret - 1) || ppa_modules_is_text(ret - 1));
}

/* The frame by the frame pointer, and what speaks for it. */
PPA_CTX_SIGNAL static enum kind by_register(struct ppa_walk *w, uintptr_t pc, struct frame *f)
{
	uintptr_t fp = w->regs.r[PPA_REG_FP], sp = w->regs.r[PPA_REG_SP];
	enum kind kind;

	f->slot = fp + WORD;
	if (!is_above(fp + WORD, sp) || !ppa_memory_read(&w->mem, fp, &f->fp) ||
	    !ppa_memory_read(&w->mem, f->slot, &f->ret))
		return NO_CODE;
	kind = kind_of(w, f->ret, pc);
	return kind == NO_CALL && !leads_on(w, f->fp, fp) ? NO_CODE : kind;
}

/* The frame by the words of the stack up to limit. has_other: without good reason the other one will be taken. */
PPA_CTX_SIGNAL static enum kind by_stack(struct ppa_walk *w, uintptr_t pc, uintptr_t limit, bool has_other,
					 struct frame *f)
{
	uintptr_t slot = w->regs.r[PPA_REG_SP], ret, below = 0;
	enum kind best = NO_CODE;

	for (unsigned i = 0; i < SCAN_WORDS && slot < limit && w->scan_left; i++, slot += WORD, w->scan_left--) {
		enum kind kind;

		if (!ppa_memory_read(&w->mem, slot, &ret))
			break;
		kind = kind_of(w, ret, pc);
		if (kind != NO_CODE && kind != HERE && !has_other && i && leads_on(w, below, slot))
			kind = HERE;
		if (kind > best && kind > NO_CALL) {
			best = kind;
			*f = (struct frame){slot, ret, is_above(below, slot) ? below : w->regs.r[PPA_REG_FP]};
		}
		if (best == HERE)
			break;
		below = ret;
	}
	return best;
}

bool ppa_generated_step(struct ppa_walk *w, int *end)
{
	uintptr_t pc = w->regs.r[PPA_REG_PC] - !w->exact, limit = UINTPTR_MAX;
	struct frame f, other;
	enum kind kind = by_register(w, pc, &f);

	if (kind < ANYWHERE) {
		bool has_one = kind != NO_CODE;

		if (has_one)
			limit = f.slot;
		kind = by_stack(w, pc, limit, has_one, &other);
		if (!has_one && kind == NO_CODE)
			return false;
		if (!has_one || kind == HERE)
			f = other;
	}
	w->regs.r[PPA_REG_FP] = f.fp;
	*end = ppa_walk_arrive(w, f.ret, f.slot + WORD, false);
	return true;
}
