/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of sampling, in integers: a hook of malloc must leave the target's floating-point state alone (its
 * sticky exception flags, and traps that it may have switched on).
 *
 * Sample points are a Poisson process over bytes with mean distance rate. Distances are exponential (inversion of a
 * uniform 64-bit number); the probability that a block of m bytes holds at least one is 1 - exp(-m / rate). */
#ifndef PPA_HEAP_POISSON_H
#define PPA_HEAP_POISSON_H

#include <stdint.h>

#include "agent/base/attr.h"

#define PPA_POISSON_RATE_MAX (UINT64_C(1) << 32)

/* floor(-ln(random / 2^64) * rate): bytes before the next point. rate in 2..PPA_POISSON_RATE_MAX. Within 1e-8 of the
 * exact value. Context: malloc. */
uint64_t ppa_poisson_gap(uint64_t random, uint64_t rate) PPA_CTX_MALLOC;

/* 4096 / (1 - exp(-bytes / rate)), rounded: how many blocks, in units of 2^-12, a sampled one stands for. bytes at least
 * 1; rate 0 or 1: exactly 4096. Within 2e-4 of the exact value. Context: malloc. */
uint64_t ppa_poisson_weight(uint64_t bytes, uint64_t rate) PPA_CTX_MALLOC;

#endif
