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

/* Between a thread's "I am about to look" and the look itself, where the other side, after it has changed what is looked
 * at, waits PPA_LOCAL_DRAIN_NS before it asks who is about to. No fence: this processor keeps stores in order and holds
 * them back only while its own store buffer drains, which an interrupt or a switch of threads at the latest ends.
 * (Morrison and Afek, "Temporally bounding TSO for fence-free asymmetric synchronization", ASPLOS 2015, measured bounds
 * far below a millisecond.) Elsewhere this has to be a full fence. */
static inline __attribute__((always_inline)) void ppa_arch_local_announce(void)
{
	__asm__ volatile("" : : : "memory");
}

enum { PPA_LOCAL_DRAIN_NS = 10000000 };

#endif
