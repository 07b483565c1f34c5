/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers for sampling: splitmix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators")
 * over one shared counter. Not secret, good enough that no program beats in time with it. */
#ifndef PPA_PROFILE_RANDOM_H
#define PPA_PROFILE_RANDOM_H

#include <stdint.h>

#include "agent/base/attr.h"

/* Seed from the clock and the process. Context: init, child. */
void ppa_random_seed(void) PPA_CTX_INIT;

/* Uniform in [0, 2^64). Context: signal. */
uint64_t ppa_random_next(void) PPA_CTX_SIGNAL;

/* Uniform in [0, bound), bound > 0; the bias of the multiply is under 2^-32 for the bounds used. Context: any. */
uint64_t ppa_random_below(uint64_t bound) PPA_CTX_ANY;

#endif
