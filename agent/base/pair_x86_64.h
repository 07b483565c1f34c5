/* SPDX-License-Identifier: Apache-2.0
 *
 * Two words that change together. cmpxchg16b is in every x86-64 since 2006 (x86-64-v2); the compiler may not assume it,
 * and its library for the rest would be one more thing to link. */
#ifndef PPA_BASE_PAIR_X86_64_H
#define PPA_BASE_PAIR_X86_64_H

#include <stdbool.h>
#include <stdint.h>

struct ppa_arch_pair {
	uint64_t lo, hi;
} __attribute__((aligned(16)));

/* If *p is *expected, make it desired; else *expected becomes what it is. A full barrier either way. */
static inline __attribute__((always_inline)) bool
ppa_arch_pair_exchange(struct ppa_arch_pair *p, struct ppa_arch_pair *expected, struct ppa_arch_pair desired)
{
	bool done;

	__asm__ volatile("lock cmpxchg16b %1"
			 : "=@ccz"(done), "+m"(*p), "+a"(expected->lo), "+d"(expected->hi)
			 : "b"(desired.lo), "c"(desired.hi)
			 : "memory");
	return done;
}

#endif
