/* SPDX-License-Identifier: Apache-2.0
 *
 * The hook of pthread_mutex_lock, in two forms. As compiled it jumps to wherever ppa_mutex_way.lock leads. Patched
 * (PPA_ARCH_STATIC_ENTRY, agent/base/static_call.h) it begins behind that jump: ppa_mutex_way.attempt is called, and only
 * EBUSY means waiting. That is for glibc, whose kind of a mutex, with its bit for robust ones, stands where it is looked at here.
 *
 * Of what trying first costs over locking at once, 2.2 ns of a pair of 5.7 (two threads, Zen 4), glibc's own try takes 1.1
 * (it saves five registers before the locked instruction, which waits until they are stored), calling instead of jumping
 * 0.8 and the jump that is left out 0.3. What does not help: to save the mutex elsewhere, or not at all; to call the try
 * directly. What would is to look whether the mutex is free and then lock it by a jump (0.0): but then who is overtaken in
 * between waits unseen, which for locks held for 100 ns would be every second or tenth. */
#ifndef PPA_HOOK_MUTEX_X86_64_H
#define PPA_HOOK_MUTEX_X86_64_H

#include "agent/base/static_call_x86_64.h"

/* EBUSY is 16, as are glibc's place of the kind and the bit. ppa_mutex_robust and ppa_mutex_taken: (mutex, caller). */
__asm__(".pushsection .text.pthread_mutex_lock, \"ax\", @progbits\n\t"
	".balign 64\n\t"
	".globl pthread_mutex_lock\n\t"
	".type pthread_mutex_lock, @function\n"
	"pthread_mutex_lock:\n\t"
	".cfi_startproc\n\t" PPA_ARCH_STATIC_ENTRY(
		"ppa_mutex_way") "testb $16, 16(%rdi)\n\t"
				 "jne 1f\n\t"
				 "push %rdi\n\t"
				 ".cfi_adjust_cfa_offset 8\n\t"
				 "call *ppa_mutex_way+8(%rip)\n\t"
				 "cmp $16, %eax\n\t"
				 "je 2f\n\t"
				 "add $8, %rsp\n\t"
				 ".cfi_adjust_cfa_offset -8\n\t"
				 "ret\n\t"
				 ".cfi_adjust_cfa_offset 8\n"
				 "2:\tpop %rdi\n\t"
				 ".cfi_adjust_cfa_offset -8\n\t"
				 "mov (%rsp), %rsi\n\t"
				 "jmp ppa_mutex_taken\n"
				 "1:\tmov (%rsp), %rsi\n\t"
				 "jmp ppa_mutex_robust\n\t"
				 ".cfi_endproc\n\t"
				 ".size pthread_mutex_lock, . - pthread_mutex_lock\n\t"
				 ".popsection");

#endif
