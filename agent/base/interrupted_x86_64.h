/* SPDX-License-Identifier: Apache-2.0
 *
 * What a signal interrupted, read from the registers it saved. The syscall instruction leaves the return address in
 * rcx, and the kernel hands the argument registers back unchanged: a context with rcx == rip was on its way out of a
 * system call, and rt_sigprocmask is told by its arguments (how in 0..2, a set of 8 bytes, result 0). */
#ifndef PPA_BASE_INTERRUPTED_X86_64_H
#define PPA_BASE_INTERRUPTED_X86_64_H

#include <stdbool.h>
#include <ucontext.h>

static inline bool ppa_arch_left_mask_change(const ucontext_t *uc)
{
	const greg_t *r = uc->uc_mcontext.gregs;

	return r[REG_RCX] == r[REG_RIP] && r[REG_RAX] == 0 && (unsigned long)r[REG_RDI] <= 2 && r[REG_R10] == 8;
}

#endif
