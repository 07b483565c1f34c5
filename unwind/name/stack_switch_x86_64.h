/* SPDX-License-Identifier: Apache-2.0
 *
 * Calling a function on another stack, for x86-64: our server threads have small stacks and
 * libiberty's demangler wants up to half a megabyte for a name of a kilobyte. swapcontext is not in
 * musl, and a thread a name is too dear. */
#ifndef PPA_UNWIND_NAME_STACK_SWITCH_X86_64_H
#define PPA_UNWIND_NAME_STACK_SWITCH_X86_64_H

#include "agent/base/attr.h"

/* fn(arg) with the stack pointer at top (16-byte aligned, the end of the memory). fn must return,
 * and may jump only within itself. The frame pointer keeps this frame findable for debuggers
 * meanwhile. Context: server. */
__attribute__((noinline)) static void ppa_arch_call_on_stack(void *top, void (*fn)(void *), void *arg)
{
	void *here = __builtin_frame_address(0);

	__asm__ volatile("movq %%rsp, %%rbx\n\t"
			 "movq %[top], %%rsp\n\t"
			 "callq *%[fn]\n\t"
			 "movq %%rbx, %%rsp"
			 : "+D"(arg), "+r"(here)
			 : [top] "r"(top), [fn] "r"(fn)
			 : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory", "xmm0", "xmm1",
			   "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
			   "xmm13", "xmm14", "xmm15");
}

#endif
