/* SPDX-License-Identifier: Apache-2.0
 *
 * x86-64 for the walker. Registers are numbered as DWARF does in the System V psABI (figure 3.36), which is neither the
 * encoding of the instruction set nor the order of gregs. Everything here is pure: bytes and registers in, answers out;
 * memory is read by the caller. */
#ifndef PPA_UNWIND_WALK_ARCH_X86_64_H
#define PPA_UNWIND_WALK_ARCH_X86_64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "agent/base/attr.h"

enum {
	PPA_REG_FP = 6,
	PPA_REG_SP = 7,
	PPA_REG_PC = 16,
	PPA_NREGS = 17,
	PPA_USER_ADDRESS_BITS = 56, /* the kernel's are above, and between lies nothing */
	PPA_RED_ZONE = 128,	    /* bytes below the stack pointer that belong to the interrupted function */
	PPA_NSAVED = 6,		    /* callee-saved registers but for the stack pointer */
	PPA_CALL_MAX = 7,	    /* longest call instruction */
	PPA_CALL_DIRECT = 5,	    /* bytes of a direct call: opcode and 32-bit distance */
	PPA_PROLOGUE_MAX = 9,	    /* bytes at a pc that ppa_arch_return_slot and ppa_arch_is_sigreturn look at */
};

/* rbx, rbp, r12 to r15. The order is that of the row cache; the frame pointer must be at index 1. */
#define PPA_SAVED_REGS                                                                                                 \
	{                                                                                                              \
		3, 6, 12, 13, 14, 15                                                                                   \
	}

struct ppa_regs {
	uintptr_t r[PPA_NREGS];
};

/* What the kernel pushes for a handler, up to what we read: the ABI, whatever a libc's ucontext.h calls it. */
struct ppa_arch_ucontext {
	uint64_t flags, link;
	uint64_t stack_base;
	uint32_t stack_flags, pad;
	uint64_t stack_bytes;
	uint64_t gregs[PPA_NREGS]; /* r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip */
};
_Static_assert(offsetof(struct ppa_arch_ucontext, gregs) == 40, "struct ucontext of the kernel");

PPA_CTX_SIGNAL static inline void ppa_arch_from_ucontext(const void *ucontext, struct ppa_regs *out)
{
	static const uint8_t greg_of[PPA_NREGS] = {13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7, 16};
	const struct ppa_arch_ucontext *uc = ucontext;

	for (int i = 0; i < PPA_NREGS; i++)
		out->r[i] = uc->gregs[greg_of[i]];
}

/* The registers a caller counts on, here and now. Inlined, so that they describe the frame of the function that asks;
 * the others are not set. */
PPA_CTX_SIGNAL static inline __attribute__((always_inline)) void ppa_arch_capture(struct ppa_regs *out)
{
	__asm__ volatile("mov %%rbx, 3*8(%0)\n\tmov %%rbp, 6*8(%0)\n\tmov %%rsp, 7*8(%0)\n\t"
			 "mov %%r12, 12*8(%0)\n\tmov %%r13, 13*8(%0)\n\tmov %%r14, 14*8(%0)\n\t"
			 "mov %%r15, 15*8(%0)\n\tlea 0f(%%rip), %%rax\n0:\tmov %%rax, 16*8(%0)"
			 :
			 : "r"(out->r)
			 : "rax", "memory");
}

enum { PPA_ALTSTACK_DISABLED = 2 }; /* SS_DISABLE */

/* The alternate signal stack as the kernel put it into the ucontext; false if there is none. */
PPA_CTX_SIGNAL static inline bool ppa_arch_altstack(const void *ucontext, uintptr_t *lo, uintptr_t *hi)
{
	const struct ppa_arch_ucontext *uc = ucontext;

	*lo = uc->stack_base;
	*hi = uc->stack_base + uc->stack_bytes;
	return !(uc->stack_flags & PPA_ALTSTACK_DISABLED) && uc->stack_bytes;
}

/* Do the bytes at a pc read `mov $__NR_rt_sigreturn, %rax; syscall`, in either encoding? Then the kernel's ucontext lies
 * at the stack pointer. libcs without unwind information for their trampoline (musl) are recognised by it. */
PPA_CTX_SIGNAL static inline bool ppa_arch_is_sigreturn(const uint8_t code[PPA_PROLOGUE_MAX])
{
	const uint8_t *number = code[0] == 0xb8 ? code + 1 : code + 3;
	uint32_t nr;

	if (code[0] != 0xb8 && !(code[0] == 0x48 && code[1] == 0xc7 && code[2] == 0xc0))
		return false;
	memcpy(&nr, number, sizeof(nr));
	return nr == 15 && number[4] == 0x0f && number[5] == 0x05;
}

/* Do the bytes after a call end the thread: `mov %eax, %edi; xor %eax, %eax; mov $__NR_exit, %al; syscall`? So does musl's
 * clone, behind the call of the thread's start. */
PPA_CTX_SIGNAL static inline bool ppa_arch_is_thread_end(const uint8_t code[PPA_PROLOGUE_MAX])
{
	static const uint8_t end[] = {0x89, 0xc7, 0x31, 0xc0, 0xb0, 0x3c, 0x0f, 0x05};

	return !memcmp(code, end, sizeof(end));
}

/* At the first and last instructions of a function that has a frame pointer (or never will have a frame) the frame
 * pointer is still, or again, the caller's. Returns the distance of the return address from the stack pointer, or -1
 * if the bytes at pc tell nothing. */
PPA_CTX_SIGNAL static inline int ppa_arch_return_slot(const uint8_t code[PPA_PROLOGUE_MAX])
{
	bool endbr = code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa;
	const uint8_t *p = endbr ? code + 4 : code;

	if (p[0] == 0x55 || p[0] == 0xc3 || p[0] == 0xc2) /* push %rbp; ret; ret $n */
		return 0;
	if (!endbr && p[0] == 0x48 && ((p[1] == 0x89 && p[2] == 0xe5) || (p[1] == 0x8b && p[2] == 0xec)))
		return 8; /* mov %rsp, %rbp */
	return -1;
}

/* Length of the call instruction that ends where the bytes end (call[PPA_CALL_MAX - 1] is the byte before a return
 * address), or 0 if none does: E8 with its distance, or FF /2 in any addressing form, with or without REX. */
PPA_CTX_SIGNAL static inline int ppa_arch_call_before(const uint8_t call[PPA_CALL_MAX])
{
	if (call[2] == 0xe8)
		return PPA_CALL_DIRECT;
	for (int len = 2; len <= PPA_CALL_MAX; len++) {
		const uint8_t *p = call + PPA_CALL_MAX - len;
		int n = 2, mod, rm;

		if (*p >= 0x40 && *p <= 0x4f) {
			p++;
			n++;
		}
		if (p[0] != 0xff || n > len || ((p[1] >> 3) & 7) != 2)
			continue;
		mod = p[1] >> 6;
		rm = p[1] & 7;
		if (mod != 3 && rm == 4) {
			if (n >= len)
				continue;
			if (mod == 0 && (p[2] & 7) == 5)
				n += 4; /* no base: 32-bit displacement */
			n++;
		}
		if (mod == 1)
			n++;
		else if (mod == 2 || (mod == 0 && rm == 5))
			n += 4;
		if (n == len)
			return len;
	}
	return 0;
}

/* Where a direct call goes. call: its PPA_CALL_DIRECT bytes; ret: the address after it. */
PPA_CTX_SIGNAL static inline uintptr_t ppa_arch_call_target(const uint8_t *call, uintptr_t ret)
{
	int32_t distance;

	memcpy(&distance, call + 1, sizeof(distance));
	return ret + (uintptr_t)(intptr_t)distance;
}

#endif
