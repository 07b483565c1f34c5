/* SPDX-License-Identifier: Apache-2.0
 *
 * Logarithm by squaring: the binary digits of log2(m), m in [1, 2), are found one by one, each by squaring m and asking
 * whether that passed 2 (Knuth, The Art of Computer Programming 1, section 1.2.2, exercise 28). Exponential by its
 * series after taking out powers of two. 1 / (1 - exp(-x)) for small x by its Laurent series, 1/x + 1/2 + x/12 -
 * x^3/720 + x^5/30240 (Bernoulli numbers), because 1 - exp(-x) would lose its digits. */
#include "agent/heap/poisson.h"

enum { LOG_DIGITS = 32, FRACTION = 24, UNIT = 4096, CERTAIN = 40 };

#define LN2_Q32 UINT64_C(2977044472)   /* ln 2 * 2^32 */
#define LOG2E_Q32 UINT64_C(6196328019) /* log2 e * 2^32 */

/* log2 of m / 2^63, m with its top bit set, in units of 2^-32. */
PPA_CTX_MALLOC static uint64_t log2_digits(uint64_t m)
{
	uint64_t digits = 0;

	/* Without a branch: the digits are random, and a wrong guess costs more than a step. */
	for (int i = 0; i < LOG_DIGITS; i++) {
		unsigned __int128 square = (unsigned __int128)m * m;
		uint64_t hi = (uint64_t)(square >> 64), twice = (uint64_t)(square >> 63);
		uint64_t digit = hi >> 63, mask = 0 - digit;

		__asm__("" : "+r"(mask)); /* or the compiler sees through it */
		digits = digits << 1 | digit;
		m = twice ^ ((twice ^ hi) & mask);
	}
	return digits;
}

uint64_t ppa_poisson_gap(uint64_t random, uint64_t rate)
{
	int zeros = __builtin_clzll(random | 1);
	/* -log2(random / 2^64), in units of 2^-32 */
	uint64_t bits = ((uint64_t)(zeros + 1) << 32) - log2_digits((random | 1) << zeros);

	return (uint64_t)((((unsigned __int128)bits * LN2_Q32 >> 32) * rate) >> 32);
}

/* exp(-x) for x in units of 2^-24, as a number in units of 2^-32. */
PPA_CTX_MALLOC static uint64_t exp_minus(uint64_t x)
{
	uint64_t halvings = (uint64_t)(((unsigned __int128)x * LOG2E_Q32) >> FRACTION); /* x / ln 2, units of 2^-32 */
	uint64_t whole = halvings >> 32;
	uint64_t y = (halvings & UINT32_MAX) * LN2_Q32 >> 32; /* the rest, below ln 2 */
	uint64_t sum = UINT64_C(1) << 32, term = sum;

	for (uint64_t n = 1; n <= 12; n++) {
		term = (term * y >> 32) / n;
		sum = n & 1 ? sum - term : sum + term;
	}
	return whole < 64 ? sum >> whole : 0;
}

uint64_t ppa_poisson_weight(uint64_t bytes, uint64_t rate)
{
	uint64_t x, x3, x5, w;

	if (rate <= 1 || bytes / rate >= CERTAIN)
		return UNIT;
	x = (bytes << FRACTION) / rate;
	if (bytes > rate) {
		w = ((uint64_t)UNIT << 33) / ((UINT64_C(1) << 32) - exp_minus(x));
		return (w + 1) >> 1;
	}
	x3 = (x * x >> FRACTION) * x >> FRACTION;
	x5 = (x3 * x >> FRACTION) * x >> FRACTION;
	/* At most 2^56: rate / bytes below 2^32, times 2^24. */
	w = (rate << FRACTION) / bytes + (UINT64_C(1) << (FRACTION - 1)) + x / 12 - x3 / 720 + x5 / 30240;
	return (w + (1 << (FRACTION - 13))) >> (FRACTION - 12);
}
