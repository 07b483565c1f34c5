/* SPDX-License-Identifier: Apache-2.0
 *
 * A counter that one thread alone changes, and handlers that interrupt it: one instruction, which no handler can divide,
 * without the bus lock that other processors would need (a third of the price of a trace's record was such locks). */
#ifndef PPA_BASE_LOCAL_X86_64_H
#define PPA_BASE_LOCAL_X86_64_H

#include <stdatomic.h>
#include <stdint.h>

/* Add n; what it was before. Others may read. */
static inline __attribute__((always_inline)) uint32_t ppa_arch_local_fetch_add(_Atomic uint32_t *p, uint32_t n)
{
	__asm__ volatile("xaddl %0, %1" : "+r"(n), "+m"(*p) : : "memory", "cc");
	return n;
}

#endif
