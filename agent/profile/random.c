/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/profile/random.h"

#include <stdatomic.h>
#include <time.h>

#include "agent/base/sys.h"

#define GOLDEN_GAMMA 0x9e3779b97f4a7c15ULL

static _Atomic uint64_t counter;

void ppa_random_seed(void)
{
	uint64_t seed = ppa_sys_clock_ns(CLOCK_MONOTONIC) ^ ((uint64_t)ppa_sys_getpid() << 40);

	atomic_store_explicit(&counter, seed, memory_order_relaxed);
}

uint64_t ppa_random_next(void)
{
	uint64_t z = atomic_fetch_add_explicit(&counter, GOLDEN_GAMMA, memory_order_relaxed) + GOLDEN_GAMMA;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

uint64_t ppa_random_below(uint64_t bound)
{
	return (uint64_t)(((unsigned __int128)ppa_random_next() * bound) >> 64);
}
