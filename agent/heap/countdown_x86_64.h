/* SPDX-License-Identifier: Apache-2.0
 *
 * One subtraction in memory and its borrow. The compiler makes a load, a subtraction and a store of it, in the one place
 * where two instructions are a hundredth of what an allocator takes. */
#ifndef PPA_HEAP_COUNTDOWN_X86_64_H
#define PPA_HEAP_COUNTDOWN_X86_64_H

#include <stdbool.h>
#include <stdint.h>

/* *left -= n; did it borrow? */
static inline __attribute__((always_inline)) bool ppa_arch_count_down(uint64_t *left, uint64_t n)
{
	bool borrows;

	__asm__("sub %[n], %[left]" : [left] "+m"(*left), "=@ccb"(borrows) : [n] "r"(n));
	return borrows;
}

/* Is *p not zero? Read once, by one instruction: an atomic load in C takes two. */
static inline __attribute__((always_inline)) bool ppa_arch_is_set(const _Atomic uint8_t *p)
{
	bool is_set;

	__asm__ volatile("cmpb $0, %[p]" : "=@ccnz"(is_set) : [p] "m"(*p));
	return is_set;
}

#endif
