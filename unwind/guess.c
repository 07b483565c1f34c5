/* SPDX-License-Identifier: Apache-2.0
 *
 * A step from code nobody describes: a jump to nowhere, just-in-time code, hand-written assembly, a libc built without
 * unwind tables (musl). Every guess must pass one test: the word taken for a return address follows a call
 * instruction. What passes by chance is rare, and the walk goes on by rules from the next frame.
 *
 * In order: the kernel's signal trampoline by its bytes; at a function's first and last instructions the return address
 * by the stack pointer; the frame pointer's chain; and in known modules the nearest word on the stack that is a return
 * address into known text, whose call, if it is a direct one inside the same text, goes to just before the pc. */
#include "unwind/walk.h"

enum {
	WORD = sizeof(uintptr_t),
	MAX_FRAME_BYTES = 1 << 20,     /* a frame pointer this far away is a number */
	MAX_FUNCTION_BYTES = 32 << 10, /* of code without unwind information */
	SCAN_WORDS = 96,
};

/* What stands before a return address. */
enum call { CALL_NONE, CALL_INDIRECT, CALL_DIRECT };

PPA_CTX_SIGNAL static enum call call_before(struct ppa_walk *w, uintptr_t ret, uintptr_t *target)
{
	uint8_t bytes[PPA_CALL_MAX];
	int len;

	if (ret < PPA_CALL_MAX || !ppa_memory_copy(&w->mem, bytes, ret - PPA_CALL_MAX, sizeof(bytes)))
		return CALL_NONE;
	len = ppa_arch_call_before(bytes);
	if (len != PPA_CALL_DIRECT)
		return len ? CALL_INDIRECT : CALL_NONE;
	*target = ppa_arch_call_target(bytes + PPA_CALL_MAX - PPA_CALL_DIRECT, ret);
	return CALL_DIRECT;
}

/* The return address at addr, if it is one. */
PPA_CTX_SIGNAL static bool return_at(struct ppa_walk *w, uintptr_t addr, uintptr_t *ret)
{
	uintptr_t target;

	return ppa_memory_read(&w->mem, addr, ret) && call_before(w, *ret, &target) != CALL_NONE;
}

/* [fp] is the caller's frame pointer, [fp + 8] the return address. */
PPA_CTX_SIGNAL static bool by_frame_pointer(struct ppa_walk *w, int *end)
{
	uintptr_t fp = w->regs.r[PPA_REG_FP], sp = w->regs.r[PPA_REG_SP], next, ret;

	if (fp < sp || fp - sp > MAX_FRAME_BYTES || fp % WORD)
		return false;
	if (!ppa_memory_read(&w->mem, fp, &next) || !return_at(w, fp + WORD, &ret))
		return false;
	w->regs.r[PPA_REG_FP] = next;
	*end = ppa_walk_arrive(w, ret, fp + 2 * WORD, false);
	return true;
}

/* Is ret, found on the stack, where a call to the function around pc returns to? */
PPA_CTX_SIGNAL static bool calls_here(struct ppa_walk *w, uintptr_t ret, uintptr_t pc, const struct ppa_code *segment)
{
	struct ppa_code from;
	uintptr_t target = 0;
	enum call call;

	/* Most words on a stack are no addresses of code: sort them out before a system call is spent. */
	if (!ppa_modules_is_text(ret - 1))
		return false;
	call = call_before(w, ret, &target);
	if (call != CALL_DIRECT)
		return call == CALL_INDIRECT;
	if (target >= segment->lo && target < segment->hi)
		return target <= pc && pc - target < MAX_FUNCTION_BYTES;
	/* A direct call that leaves its text segment goes to a PLT, which is in its own. */
	return ppa_modules_find(ret - 1, &from) && (from.lo != segment->lo) && target >= from.lo && target < from.hi;
}

PPA_CTX_SIGNAL static bool by_scan(struct ppa_walk *w, const struct ppa_code *segment, int *end)
{
	uintptr_t sp = w->regs.r[PPA_REG_SP], pc = w->regs.r[PPA_REG_PC] - !w->exact, ret;

	for (uintptr_t i = 0; i < SCAN_WORDS; i++) {
		if (!ppa_memory_read(&w->mem, sp + i * WORD, &ret))
			return false;
		if (!calls_here(w, ret, pc, segment))
			continue;
		*end = ppa_walk_arrive(w, ret, sp + (i + 1) * WORD, false);
		return true;
	}
	return false;
}

/* The trampoline's stack pointer is at the ucontext. */
PPA_CTX_SIGNAL static int from_sigreturn(struct ppa_walk *w)
{
	struct ppa_arch_ucontext uc;
	struct ppa_regs *next = &w->scratch->next;
	uintptr_t sp = w->regs.r[PPA_REG_SP];

	if (!ppa_memory_copy(&w->mem, &uc, sp, sizeof(uc)))
		return PPA_UNWIND_BAD_MEMORY;
	ppa_arch_from_ucontext(&uc, next);
	next->r[PPA_REG_SP] = sp;
	w->regs = *next;
	ppa_arch_from_ucontext(&uc, next);
	return ppa_walk_arrive(w, next->r[PPA_REG_PC], next->r[PPA_REG_SP], true);
}

/* Where an interrupted function that has no frame (yet, or any more) keeps its return address. */
PPA_CTX_SIGNAL static bool by_stack_pointer(struct ppa_walk *w, int slot, int *end)
{
	uintptr_t addr = w->regs.r[PPA_REG_SP] + (uintptr_t)slot, ret;

	if (!return_at(w, addr, &ret))
		return false;
	*end = ppa_walk_arrive(w, ret, addr + WORD, false);
	return true;
}

int ppa_guess_step(struct ppa_walk *w, const struct ppa_code *segment)
{
	uint8_t code[PPA_PROLOGUE_MAX];
	bool readable = ppa_memory_copy(&w->mem, code, w->regs.r[PPA_REG_PC], sizeof(code));
	int slot, end;

	if (readable && ppa_arch_is_sigreturn(code))
		return from_sigreturn(w);
	if (w->exact) {
		slot = readable ? ppa_arch_return_slot(code) : 0;
		if (slot >= 0 && by_stack_pointer(w, slot, &end))
			return end;
	}
	if (segment && by_scan(w, segment, &end))
		return end;
	if (by_frame_pointer(w, &end))
		return end;
	if (!segment)
		return w->exact && by_stack_pointer(w, 0, &end) ? end : PPA_UNWIND_NO_MODULE;
	/* The ABI marks the outermost frame by a frame pointer of zero. */
	return !w->exact && !w->regs.r[PPA_REG_FP] ? PPA_UNWIND_COMPLETE : PPA_UNWIND_NO_RULE;
}
