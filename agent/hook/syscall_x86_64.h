/* SPDX-License-Identifier: Apache-2.0
 *
 * The exported syscall(): futex calls go to ppa_hook_futex, all others to *ppa_real_syscall, by jumps that leave every
 * register and the stack as they came. In assembly because the last argument may not be there: its place then is the
 * caller's own memory, which a compiler would read and write back, while a thread may be waking the caller through it. */
#ifndef PPA_HOOK_SYSCALL_X86_64_H
#define PPA_HOOK_SYSCALL_X86_64_H

/* 202 futex, 449 futex_waitv */
__asm__(".pushsection .text.syscall,\"ax\",@progbits\n"
	".globl syscall\n"
	".type syscall,@function\n"
	"syscall:\n"
	".cfi_startproc\n"
	"	cmpq $202, %rdi\n"
	"	je 1f\n"
	"	cmpq $449, %rdi\n"
	"	je 1f\n"
	"	jmp *ppa_real_syscall(%rip)\n"
	"1:	jmp ppa_hook_futex\n"
	".cfi_endproc\n"
	".size syscall, .-syscall\n"
	".popsection\n");

#endif
