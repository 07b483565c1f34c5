/* SPDX-License-Identifier: Apache-2.0
 *
 * The unwinder: registers in, addresses out. Safe over any instruction of the target (see the signal rung in
 * agent/base/attr.h): it takes no lock, allocates nothing, calls no loader function, owns no descriptor, reads memory
 * only where it has proven that reading cannot fault, and ends after a bounded number of steps. */
#ifndef PPA_UNWIND_WALK_UNWIND_H
#define PPA_UNWIND_WALK_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/base/attr.h"

enum { PPA_UNWIND_MAX_FRAMES = 512 };

/* How a walk ended; exactly one. */
enum ppa_unwind_end {
	PPA_UNWIND_COMPLETE = 0,    /* the thread's start: undefined return address, or pc 0 */
	PPA_UNWIND_FULL = 1,	    /* the caller's buffer is full */
	PPA_UNWIND_NO_MODULE = 2,   /* a pc in no known module and no frame pointer led on */
	PPA_UNWIND_NO_RULE = 3,	    /* no unwind information for the pc, or rules nobody could evaluate */
	PPA_UNWIND_BAD_MEMORY = 4,  /* a rule pointed to memory that cannot be read */
	PPA_UNWIND_NO_PROGRESS = 5, /* the stack pointer did not move towards the start */
	PPA_UNWIND_NENDS
};

/* The memory that belongs to the thread's stack and stays mapped while the thread lives: [lo, hi). lo may be lower
 * than the current stack pointer. hi == 0: unknown, the walker finds its own way (process_vm_readv). */
struct ppa_stack_bounds {
	uintptr_t lo, hi;
};

/* Working memory of one walk; too large for an interrupted stack. The caller provides it, uninitialised. */
struct ppa_unwind_buf {
	uintptr_t pcs[PPA_UNWIND_MAX_FRAMES]; /* result, leaf first: see ppa_unwind_context */
	uint32_t npcs;
	enum ppa_unwind_end end;
	bool anchored;					   /* the walk went through the frame of ppa_sleeper's anchor */
	bool may_go;					   /* some frame may lie in a module that can be unloaded */
	uint8_t window[8192] __attribute__((aligned(16))); /* copy of a foreign stack */
	uintptr_t window_base;
	size_t window_len;
	uint64_t scratch[352]; /* rows and copies of the walker's */
};

/* Walk from a signal's ucontext_t. buf->pcs[0] is the interrupted pc as it is; every caller is its return address
 * minus 1, but for a frame below a signal trampoline, which was interrupted and stands exactly: the address rule of
 * profile.proto's Location.address. Always gives at least the leaf. Context: signal. */
void ppa_unwind_context(const void *ucontext, const struct ppa_stack_bounds *bounds,
			struct ppa_unwind_buf *buf) PPA_CTX_SIGNAL;

/* Walk the calling thread's own stack, from the calling function on: buf->pcs[0] lies in it, and every caller is its
 * return address minus 1. bounds may be NULL. Context: signal. */
void ppa_unwind_here(const struct ppa_stack_bounds *bounds, struct ppa_unwind_buf *buf) PPA_CTX_SIGNAL;

/* What a walk depended on, for whoever wants to know later whether the stack is still the same one: see trail.h. */
enum { PPA_TRAIL_MAX = 72 };
struct ppa_unwind_trail {
	uintptr_t floor; /* set by the asker: its __builtin_frame_address(0); offsets count from here */
	bool holds; /* all of the walk is told by the words below, as long as may_go is false or the epochs are the same */
	bool fp_is_noted;
	uint32_t n;
	uintptr_t fp_at; /* where the current frame's frame pointer was read */
	uint64_t epochs[2];
	uintptr_t word[PPA_TRAIL_MAX];
	uint32_t at[PPA_TRAIL_MAX];
};

/* As ppa_unwind_here, with its trail. The asker's frame must have a frame pointer, which who takes its own frame's
 * address has. Context: signal. */
void ppa_unwind_here_trailed(const struct ppa_stack_bounds *bounds, struct ppa_unwind_buf *buf,
			     struct ppa_unwind_trail *trail) PPA_CTX_SIGNAL;

/* Code that walks of sleepers had copied, to find out what stands before a return address: a thousand threads ask about
 * the same few places. */
enum { PPA_TEXT_LINES = 64, PPA_TEXT_LINE_BYTES = 128 };
struct ppa_text_lines {
	uintptr_t at[PPA_TEXT_LINES]; /* 0: empty */
	uint8_t bytes[PPA_TEXT_LINES][PPA_TEXT_LINE_BYTES];
};

/* A thread that sleeps in a system call, as the kernel shows it to others: without its other registers. The anchor, if
 * there is one, is a frame further up that told them: inside [text_lo, text_hi) with this stack pointer. */
struct ppa_sleeper {
	/* 0, 0: the kernel does not tell; the walk begins at the anchor, or is empty and not complete. */
	uintptr_t pc, sp;
	pid_t reader;		      /* a thread of this process that lives during the walk; 0: the caller */
	struct ppa_text_lines *lines; /* zeroed before the first of some walks that follow each other; or NULL */
	int mem_fd;	     /* /proc/self/mem where process_vm_readv is forbidden (ppa_sys_reads_safely), else -1 */
	uintptr_t anchor_sp; /* 0: no anchor */
	uintptr_t text_lo, text_hi;
	uintptr_t saved[6]; /* callee-saved registers, rbx rbp r12 r13 r14 r15 */
};

/* Walk another thread's stack, which the kernel copies bit by bit: whoever asks must find out afterwards whether the thread
 * slept all the time. Addresses as ppa_unwind_context gives them. Context: signal. */
void ppa_unwind_asleep(const struct ppa_sleeper *sleeper, struct ppa_unwind_buf *buf) PPA_CTX_SIGNAL;

/* First address of the function around pc, from the unwind tables of a module that is loaded now; 0 if they do not say.
 * Context: server. */
uintptr_t ppa_unwind_function_start(uintptr_t pc) PPA_CTX_SERVER;

/* Build what the walker needs before the first signal (second opinion's address space, probes of the kernel).
 * Idempotent. Returns 0 or -errno. Context: server. */
int ppa_unwind_init(void) PPA_CTX_SERVER;

#endif
