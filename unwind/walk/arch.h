/* SPDX-License-Identifier: Apache-2.0
 *
 * The one place that chooses the processor. An arch_<cpu>.h gives: the DWARF register numbers the walker names
 * (PPA_REG_*, PPA_NREGS), the callee-saved set, the red zone, how registers come out of a ucontext_t, what a signal
 * trampoline without unwind information looks like, what stands before a return address, and where a function without
 * unwind information keeps its return address at its first and last instructions. Nothing else is per-CPU. */
#ifndef PPA_UNWIND_WALK_ARCH_H
#define PPA_UNWIND_WALK_ARCH_H

#if defined(__x86_64__)
#include "unwind/walk/arch_x86_64.h"
#else
#error "no register description for this processor yet: add unwind/arch_<cpu>.h"
#endif

#endif
