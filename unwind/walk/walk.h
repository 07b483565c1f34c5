/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of one walk, shared by the files that can take a step: walk.c (rules), guess.c (code without rules),
 * generated.c (code of no file) and libunwind.c (second opinion). Nobody else includes this. */
#ifndef PPA_UNWIND_WALK_WALK_H
#define PPA_UNWIND_WALK_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/walk/arch.h"
#include "unwind/walk/cfi.h"
#include "unwind/walk/memory.h"
#include "unwind/module/modules.h"
#include "unwind/walk/unwind.h"

/* What lies in the caller's scratch memory during a walk. */
struct ppa_walk_scratch {
	struct ppa_cfi cfi;
	struct ppa_regs next;	     /* the caller's registers while a row is applied */
	struct ppa_code code, other; /* where the pc is; where a guess's caller may be */
};
_Static_assert(sizeof(struct ppa_walk_scratch) <= sizeof(((struct ppa_unwind_buf *)0)->scratch), "scratch too small");

struct ppa_walk {
	struct ppa_regs regs; /* of the current frame */
	struct ppa_memory mem;
	const struct ppa_stack_bounds *bounds;
	struct ppa_walk_scratch *scratch;
	struct ppa_epochs epochs;
	const struct ppa_sleeper *sleeper; /* whose stack it is, if it is another thread's */
	struct ppa_unwind_trail *trail;	   /* to be told, or NULL */
	size_t stack_room;		   /* bytes known to be free below our handler */
	unsigned scan_left;		   /* words that guesses may still look at */
	bool exact;			   /* the pc was interrupted; otherwise it is a return address */
	uint8_t jumps_left;		   /* how often the stack pointer may still move away from the start */
};

/* What a step gives besides the values of enum ppa_unwind_end. */
enum { PPA_WALK_ON = -1 };

/* Make (pc, sp) the current frame; the other registers are set already. interrupted: pc is exact. Returns PPA_WALK_ON
 * or how the walk ends. Context: signal. */
int ppa_walk_arrive(struct ppa_walk *w, uintptr_t pc, uintptr_t sp, bool interrupted) PPA_CTX_SIGNAL;

/* The whole walk with two registers, where every row is remembered: quick.c. false: it needs more, and nothing but
 * pcs beyond the first was touched. Context: signal. */
bool ppa_quick_walk(const struct ppa_walk *w, struct ppa_unwind_buf *buf, enum ppa_unwind_end *end) PPA_CTX_SIGNAL;

/* One step from the current frame; *may_go is set where the code may be unloaded. Context: signal. */
int ppa_walk_step(struct ppa_walk *w, bool *may_go) PPA_CTX_SIGNAL;

/* What a register holds that nobody told us: no address, nor any small distance from one. */
#define PPA_REG_UNKNOWN ((uintptr_t)0x0bad0badULL << 32)

/* The walk over a sleeper's stack, most of whose registers are unknown: asleep.c. Context: signal. */
enum ppa_unwind_end ppa_asleep_walk(struct ppa_walk *w, struct ppa_unwind_buf *buf) PPA_CTX_SIGNAL;

/* Does the return address ret follow a call? *target: where that goes, 0 if only the processor knows. Context: signal. */
bool ppa_guess_is_after_call(struct ppa_walk *w, uintptr_t ret, uintptr_t *target) PPA_CTX_SIGNAL;

/* A step from code without rules. segment: the text that contains the pc, or NULL if nobody knows it. Context: signal. */
int ppa_guess_step(struct ppa_walk *w, const struct ppa_code *segment) PPA_CTX_SIGNAL;

/* A step from generated code, which belongs to no file; false: nothing leads on. Context: signal. */
bool ppa_generated_step(struct ppa_walk *w, int *end) PPA_CTX_SIGNAL;

/* Learn the program's entry point. Context: server. */
void ppa_guess_init(void) PPA_CTX_SERVER;

/* A step by libunwind, for descriptions that are in order but too large for us (-E2BIG); pc is the lookup address in code. Gives up
 * (PPA_UNWIND_NO_RULE) when busy, when it knows no more than we do, or when the stack is short. Context: signal. */
int ppa_second_opinion_step(struct ppa_walk *w, const struct ppa_code *code, uintptr_t pc) PPA_CTX_SIGNAL;

/* Build its address space and run it once over our own stack. Returns 0 or -errno. Context: server. */
int ppa_second_opinion_init(void) PPA_CTX_SERVER;

#endif
