/* SPDX-License-Identifier: Apache-2.0
 *
 * The system call instruction of x86-64, and the one test a signal handler can make about it. */
#ifndef PPA_BASE_SYSCALL_X86_64_H
#define PPA_BASE_SYSCALL_X86_64_H

/* Arguments in rdi, rsi, rdx, r10, r8, r9; the instruction itself clobbers rcx and r11 (Linux ABI, syscall(2)). */
static inline __attribute__((always_inline)) long ppa_arch_syscall(long nr, long a, long b, long c, long d, long e,
								   long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

#endif
