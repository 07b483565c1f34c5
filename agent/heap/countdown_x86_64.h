/* SPDX-License-Identifier: Apache-2.0
 *
 * One subtraction in memory and its borrow. The compiler makes a load, a subtraction and a store of it, in the one place
 * where two instructions are a hundredth of what an allocator takes. */
#ifndef PPA_HEAP_COUNTDOWN_X86_64_H
#define PPA_HEAP_COUNTDOWN_X86_64_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/static_call_x86_64.h"

/* *left -= n; did it borrow? */
static inline __attribute__((always_inline)) bool ppa_arch_count_down(uint64_t *left, uint64_t n)
{
	bool borrows;

	__asm__("sub %[n], %[left]" : [left] "+m"(*left), "=@ccb"(borrows) : [n] "r"(n));
	return borrows;
}

/* The same as a static call: goto detour, a label of the function, if left borrowed. (An asm goto is volatile, and its
 * clobber says that left was written: compilers before gcc 11 know no outputs here.) */
#define PPA_ARCH_COUNT_DOWN(left_, n_)                                                                                 \
	__asm__ goto("sub %[n], %[left]" PPA_ARCH_STATIC_CALL(PPA_ARCH_IF_BELOW)                                       \
		     :                                                                                                 \
		     : [left] "m"(left_), [n] "r"((uint64_t)(n_))                                                      \
		     : "cc", "memory"                                                                                  \
		     : detour)

/* Is *p not zero? Read once, by one instruction: an atomic load in C takes two. */
static inline __attribute__((always_inline)) bool ppa_arch_is_set(const _Atomic uint8_t *p)
{
	bool is_set;

	__asm__ volatile("cmpb $0, %[p]" : "=@ccnz"(is_set) : [p] "m"(*p));
	return is_set;
}

/* The same as a static call: goto detour, a label of the function, if it is set. */
#define PPA_ARCH_IF_SET(p)                                                                                             \
	__asm__ goto("cmpb $0, %[byte]" PPA_ARCH_STATIC_CALL(PPA_ARCH_IF_NOT_ZERO) : : [byte] "m"(*(p)) : "cc" : detour)

/* The same if n is less than a number that is known when this is compiled. */
#define PPA_ARCH_IF_LESS(n, than)                                                                                      \
	__asm__ goto("cmpq %[limit], %[number]" PPA_ARCH_STATIC_CALL(PPA_ARCH_IF_BELOW)                                \
		     :                                                                                                 \
		     : [number] "r"((uint64_t)(n)), [limit] "i"(than)                                                  \
		     : "cc"                                                                                            \
		     : detour)

#endif
