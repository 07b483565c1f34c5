/* SPDX-License-Identifier: Apache-2.0
 *
 * A step from code nobody describes: a jump to nowhere, just-in-time code, hand-written assembly, a libc built without
 * unwind tables (musl). Every guess must pass one test: the word taken for a return address follows a call
 * instruction. What passes by chance is rare, and the walk goes on by rules from the next frame.
 *
 * In order: the kernel's signal trampoline by its bytes; at a function's first and last instructions the return address
 * by the stack pointer; in known modules the frame's size, read from the code ahead or from the function's first
 * instructions; there, too, a word on the stack that is a return address into known text, whose call, if it is a direct
 * one inside the same text, goes to just before the pc; and the frame pointer's chain.
 *
 * Functions whose start is not known either (V8's builtins, in a program that has tables for the rest) mostly keep frame
 * pointers: if one leads on, the search ends at it. Code of no file goes to generated.c.
 *
 * Stacks are full of return addresses of calls long done, so among the words of the scan the nearest one is taken from
 * which the caller's own rules lead on, or whose call goes to the very function; only where there is none, the nearest of
 * all. The scan is as long as musl's largest frame (printf of floating point, 7.5 KiB), and a walk scans so much in all
 * and no more. Of the callee-saved registers only the frame pointer is followed, by where the function's code pushes or
 * pops it; if the caller's rules need it and that does not lead on, it is searched among what such functions push right
 * below the return address.
 *
 * The end of the stack has no rules either: it is known by the code of clone, or by the program's entry point. */
#include "unwind/walk/walk.h"

#include "agent/base/sys.h"
#include "unwind/walk/prologue_x86_64.h"
#include "unwind/walk/rowcache.h"
#include "unwind/walk/starts.h"

enum {
	WORD = sizeof(uintptr_t),
	MAX_FRAME_BYTES = 1 << 20,     /* a frame pointer this far away is a number */
	MAX_FUNCTION_BYTES = 32 << 10, /* of code without unwind information */
	SCAN_WORDS = 1000,
	MAX_PUSHED_BYTES = 32, /* arguments of a call */
	MAX_PUSHES = 6,	       /* callee-saved registers below a return address */
	ENTRY_BYTES = 64,      /* of _start: longer than any, and nothing else that calls comes so soon */
	AUXV_ENTRY = 9,	       /* AT_ENTRY */
	AUXV_BYTES_MAX = 1024,
};

/* The program's first instruction, from the kernel; 0 if it cannot be learnt. Written by init before any walk. */
static uintptr_t entry;

/* What stands before a return address. */
enum call { CALL_NONE, CALL_INDIRECT, CALL_DIRECT };

/* How much speaks for a word of the scan. */
enum belief { NONE, UNLIKELY, POSSIBLE, SURE };

PPA_CTX_SIGNAL static enum call call_before(struct ppa_walk *w, uintptr_t ret, uintptr_t *target)
{
	uint8_t bytes[PPA_CALL_MAX];
	int len;

	if (ret < PPA_CALL_MAX || !ppa_memory_code(&w->mem, bytes, ret - PPA_CALL_MAX, sizeof(bytes)))
		return CALL_NONE;
	len = ppa_arch_call_before(bytes);
	if (len != PPA_CALL_DIRECT)
		return len ? CALL_INDIRECT : CALL_NONE;
	*target = ppa_arch_call_target(bytes + PPA_CALL_MAX - PPA_CALL_DIRECT, ret);
	return CALL_DIRECT;
}

/* Does a call of target go on to somewhere else, as a library's calls of its own functions do that others may replace? */
PPA_CTX_SIGNAL static bool is_stub(struct ppa_walk *w, uintptr_t target)
{
	uint8_t bytes[PPA_STUB_MAX];

	return ppa_memory_code(&w->mem, bytes, target, sizeof(bytes)) && ppa_arch_is_stub(bytes);
}

/* The return address at addr, if it is one. */
PPA_CTX_SIGNAL static bool return_at(struct ppa_walk *w, uintptr_t addr, uintptr_t *ret)
{
	uintptr_t target;

	return ppa_memory_read(&w->mem, addr, ret) && call_before(w, *ret, &target) != CALL_NONE;
}

/* [fp] is the caller's frame pointer, [fp + 8] the return address. From code that belongs to a file the chain leads to
 * such code again, or it is none: compilers use the register for other things. */
PPA_CTX_SIGNAL static bool by_frame_pointer(struct ppa_walk *w, bool in_module, int *end)
{
	uintptr_t fp = w->regs.r[PPA_REG_FP], sp = w->regs.r[PPA_REG_SP], next, ret;

	if (fp < sp || fp - sp > MAX_FRAME_BYTES || fp % WORD)
		return false;
	if (!ppa_memory_read(&w->mem, fp, &next) || !return_at(w, fp + WORD, &ret))
		return false;
	if (in_module && !ppa_modules_is_text(ret - 1))
		return false;
	w->regs.r[PPA_REG_FP] = next;
	*end = ppa_walk_arrive(w, ret, fp + 2 * WORD, false);
	return true;
}

PPA_CTX_SIGNAL static bool is_code(uintptr_t pc)
{
	return ppa_modules_is_text(pc) || ppa_modules_is_foreign(pc);
}

/* Is there a frame at the frame pointer, and another one above it? */
PPA_CTX_SIGNAL static bool has_fp_frame(struct ppa_walk *w)
{
	uintptr_t fp = w->regs.r[PPA_REG_FP], sp = w->regs.r[PPA_REG_SP], next, ret, above;

	return fp >= sp && fp - sp <= MAX_FRAME_BYTES && fp % WORD == 0 && ppa_memory_read(&w->mem, fp, &next) &&
	       next > fp && next - fp <= MAX_FRAME_BYTES && next % WORD == 0 &&
	       ppa_memory_read(&w->mem, next + WORD, &above) && is_code(above - 1) && return_at(w, fp + WORD, &ret) &&
	       is_code(ret - 1);
}

/* Is ret, found on the stack, where a call to the function around pc returns to? *callee: where the call goes, as far as
 * it says, or 0. */
PPA_CTX_SIGNAL static bool calls_here(struct ppa_walk *w, uintptr_t ret, uintptr_t pc, const struct ppa_code *segment,
				      uintptr_t *callee)
{
	struct ppa_code *from = &w->scratch->other;
	uintptr_t target = 0;
	enum call call;

	*callee = 0;
	/* Most words on a stack are no addresses of code: sort them out before a system call is spent. */
	if (!ppa_modules_is_text(ret - 1))
		return false;
	call = call_before(w, ret, &target);
	if (call != CALL_DIRECT)
		return call == CALL_INDIRECT;
	if (target >= segment->lo && target < segment->hi) {
		*callee = target;
		return (target <= pc && pc - target < MAX_FUNCTION_BYTES) || is_stub(w, target);
	}
	/* A direct call that leaves its text segment goes to a PLT, which is in its own. */
	return ppa_modules_find(ret - 1, from) && from->lo != segment->lo && target >= from->lo && target < from->hi;
}

/* The compact row of the caller; false if it has no rules or others. */
PPA_CTX_SIGNAL static bool row_of(struct ppa_walk *w, uintptr_t ret, struct ppa_row *row)
{
	struct ppa_cfi *c = &w->scratch->cfi;
	struct ppa_code *code = &w->scratch->other;

	if (ppa_row_lookup(ret - 1, &w->epochs, row))
		return true;
	return ppa_modules_find(ret - 1, code) && !ppa_cfi_find(c, code, &w->mem, ret - 1) &&
	       ppa_row_pack(c, ret - 1, row);
}

/* Is there a return address right below the CFA that row computes from base? */
PPA_CTX_SIGNAL static bool row_leads_on(struct ppa_walk *w, const struct ppa_row *row, uintptr_t base)
{
	uintptr_t ret;

	if (!ppa_memory_read(&w->mem, base + (uintptr_t)(int32_t)row->cfa - WORD, &ret))
		return false;
	return ppa_modules_is_text(ret - 1) && call_before(w, ret, &(uintptr_t){0}) != CALL_NONE;
}

/* The caller's frame pointer, when its return address is right below sp and the function keeps it as frame says. */
PPA_CTX_SIGNAL static uintptr_t caller_fp(struct ppa_walk *w, struct ppa_frame frame, uintptr_t sp)
{
	uintptr_t fp;

	if (frame.fp_below > 0 && ppa_memory_read(&w->mem, sp - WORD - (uintptr_t)frame.fp_below, &fp))
		return fp;
	return w->regs.r[PPA_REG_FP];
}

/* Would the walk go on from the return address ret, found right below sp? *fp becomes the caller's frame pointer; where
 * the caller's rules need it, one that leads on, if there is any. */
PPA_CTX_SIGNAL static enum belief leads_on(struct ppa_walk *w, struct ppa_frame frame, uintptr_t ret, uintptr_t sp,
					   uintptr_t *fp)
{
	struct ppa_row row;
	unsigned reg;

	*fp = caller_fp(w, frame, sp);
	if (!row_of(w, ret, &row))
		return POSSIBLE;
	reg = row.cfa >> PPA_ROW_REG_SHIFT & PPA_ROW_REG_MASK;
	if (row.cfa & (PPA_ROW_END | PPA_ROW_DEREF) || (reg != PPA_REG_SP && reg != PPA_REG_FP))
		return POSSIBLE;
	if (reg == PPA_REG_SP)
		return row_leads_on(w, &row, sp) ? SURE : UNLIKELY;
	for (unsigned i = 0; i <= MAX_PUSHES; i++) {
		uintptr_t v = *fp;

		if (i && !ppa_memory_read(&w->mem, sp - (1 + i) * WORD, &v))
			break;
		if (v < sp || v - sp > MAX_FRAME_BYTES || !row_leads_on(w, &row, v))
			continue;
		*fp = v;
		return SURE;
	}
	/* A sleeper's, which nobody has told: asleep.c will look for it. */
	return *fp == PPA_REG_UNKNOWN ? POSSIBLE : UNLIKELY;
}

PPA_CTX_SIGNAL static bool by_scan(struct ppa_walk *w, const struct ppa_code *segment, uintptr_t start,
				   struct ppa_frame frame, uintptr_t limit, enum belief least, int *end)
{
	uintptr_t sp = w->regs.r[PPA_REG_SP], pc = w->regs.r[PPA_REG_PC] - !w->exact, at = 0, found = 0, ret, callee;
	uintptr_t fp, found_fp = 0;
	enum belief best = NONE, belief;

	for (unsigned i = 0; i < SCAN_WORDS && w->scan_left && best < SURE; i++, w->scan_left--) {
		if (sp + i * WORD >= limit)
			break;
		if (!ppa_memory_read(&w->mem, sp + i * WORD, &ret))
			break;
		if (!calls_here(w, ret, pc, segment, &callee))
			continue;
		belief = leads_on(w, frame, ret, sp + (i + 1) * WORD, &fp);
		/* Mostly our own handler's, from samples taken further down the stack before. */
		if (ppa_starts_is_agent(ret))
			belief = UNLIKELY;
		if (belief == POSSIBLE && start && callee == start)
			belief = SURE;
		if (belief <= best)
			continue;
		best = belief;
		found = ret;
		found_fp = fp;
		at = sp + (i + 1) * WORD;
	}
	if (best < least)
		return false;
	w->regs.r[PPA_REG_FP] = found_fp;
	*end = ppa_walk_arrive(w, found, at, false);
	return true;
}

/* The return address where the frame says, if it is one and nothing speaks against it: neither its caller's rules nor,
 * where the call is direct and inside the same text, that it goes to another function. */
PPA_CTX_SIGNAL static bool by_frame(struct ppa_walk *w, const struct ppa_code *segment, uintptr_t start,
				    struct ppa_frame frame, int *end)
{
	uintptr_t at = w->regs.r[PPA_REG_SP] + (uintptr_t)frame.bytes, ret, fp, target = 0;
	enum call call;

	if (!ppa_memory_read(&w->mem, at, &ret) || !is_code(ret - 1))
		return false;
	call = call_before(w, ret, &target);
	if (call == CALL_NONE || leads_on(w, frame, ret, at + WORD, &fp) == UNLIKELY)
		return false;
	if (start && call == CALL_DIRECT && target >= segment->lo && target < segment->hi && target != start &&
	    !is_stub(w, target))
		return false;
	w->regs.r[PPA_REG_FP] = fp;
	*end = ppa_walk_arrive(w, ret, at + WORD, false);
	return true;
}

/* Not inlined, both: their bytes are not to lie under the deepest guesses. */
PPA_CTX_SIGNAL static __attribute__((noinline)) struct ppa_frame frame_entered(struct ppa_walk *w, uintptr_t start)
{
	uint8_t code[PPA_PROLOGUE_BYTES];

	if (!start || !ppa_memory_code(&w->mem, code, start, sizeof(code)))
		return (struct ppa_frame){-1, 0, 0};
	return ppa_arch_frame_entered(code, w->regs.r[PPA_REG_PC] - start);
}

PPA_CTX_SIGNAL static __attribute__((noinline)) struct ppa_frame frame_left(struct ppa_walk *w)
{
	uint8_t code[PPA_PROLOGUE_BYTES];
	uintptr_t pc = w->regs.r[PPA_REG_PC], to;
	struct ppa_frame frame = {-1, 0, 0};

	if (ppa_memory_code(&w->mem, code, pc, sizeof(code)))
		frame = ppa_arch_frame_left(code);
	to = pc + (uintptr_t)(intptr_t)frame.jump;
	if (frame.jump && ppa_starts_find(to) != to)
		frame.bytes = -1;
	return frame;
}

/* By the function's code: what lies ahead up to its return, or what its first instructions pushed. */
PPA_CTX_SIGNAL static bool by_code(struct ppa_walk *w, const struct ppa_code *segment, uintptr_t start,
				   struct ppa_frame entered, int *end)
{
	struct ppa_frame frame = frame_left(w);

	/* Whose frame is gone may have been jumped to: no word about where the call went. */
	if (frame.bytes >= 0 && by_frame(w, segment, 0, frame, end))
		return true;
	if (entered.bytes < 0)
		return false;
	/* The function may be one that another jumps to as its last act; then the call went there. */
	for (int pass = 0; pass < 2; pass++, start = 0) {
		frame = entered;
		/* Arguments may have been pushed since. */
		for (; frame.bytes <= entered.bytes + MAX_PUSHED_BYTES; frame.bytes += WORD)
			if (by_frame(w, segment, start, frame, end))
				return true;
	}
	return false;
}

/* Does nobody call the code that the walk has come to? */
PPA_CTX_SIGNAL static bool is_outermost(const struct ppa_walk *w, const uint8_t code[PPA_PROLOGUE_MAX])
{
	uintptr_t pc = w->regs.r[PPA_REG_PC];

	return (entry && pc > entry && pc - entry <= ENTRY_BYTES) || ppa_arch_is_thread_end(code);
}

/* The trampoline's stack pointer is at the ucontext. Not inlined: the copy's bytes are not to lie under the other guesses. */
PPA_CTX_SIGNAL static __attribute__((noinline)) int from_sigreturn(struct ppa_walk *w)
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
	bool readable = ppa_memory_code(&w->mem, code, w->regs.r[PPA_REG_PC], sizeof(code));
	int slot, end;

	if (readable && ppa_arch_is_sigreturn(code))
		return from_sigreturn(w);
	if (!w->exact && readable && is_outermost(w, code))
		return PPA_UNWIND_COMPLETE;
	if (w->exact) {
		slot = readable ? ppa_arch_return_slot(code) : 0;
		if (slot >= 0 && by_stack_pointer(w, slot, &end))
			return end;
	}
	if (segment) {
		uintptr_t start = ppa_starts_find(w->regs.r[PPA_REG_PC] - !w->exact);
		struct ppa_frame entered = frame_entered(w, start);

		if (by_code(w, segment, start, entered, &end))
			return end;
		/* Generated code that was linked into the program (V8's builtins) keeps frame pointers, and generated
		 * code calls it: nothing further up is nearer. */
		if (!start && has_fp_frame(w)) {
			if (by_scan(w, segment, start, entered, w->regs.r[PPA_REG_FP], SURE, &end) ||
			    by_frame_pointer(w, false, &end))
				return end;
		}
		if (by_scan(w, segment, start, entered, UINTPTR_MAX, UNLIKELY, &end))
			return end;
	}
	if (!segment && ppa_modules_is_foreign(w->regs.r[PPA_REG_PC] - !w->exact)) {
		if (ppa_generated_step(w, &end))
			return end;
	} else if (by_frame_pointer(w, segment != NULL, &end)) {
		return end;
	}
	if (!segment)
		return w->exact && by_stack_pointer(w, 0, &end) ? end : PPA_UNWIND_NO_MODULE;
	/* The ABI marks the outermost frame by a frame pointer of zero. */
	return !w->exact && !w->regs.r[PPA_REG_FP] ? PPA_UNWIND_COMPLETE : PPA_UNWIND_NO_RULE;
}

bool ppa_guess_is_after_call(struct ppa_walk *w, uintptr_t ret, uintptr_t *target)
{
	*target = 0;
	return call_before(w, ret, target) != CALL_NONE;
}

void ppa_guess_init(void)
{
	uintptr_t auxv[AUXV_BYTES_MAX / WORD];
	long n;
	int fd;

	if (entry) /* known, also in a child of a fork */
		return;
	fd = ppa_sys_open_read("/proc/thread-self/auxv");
	if (fd < 0)
		return;
	n = ppa_sys_pread(fd, auxv, sizeof(auxv), 0);
	ppa_sys_close(fd);
	for (long i = 0; (i + 2) * WORD <= n && auxv[i]; i += 2)
		if (auxv[i] == AUXV_ENTRY)
			entry = auxv[i + 1];
}
