// link: agent/heap/poisson.c -lm
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: distances are exponential with the mean asked for; a sampled block stands for 1 / (1 - exp(-bytes / rate))
 * blocks; sums of weights over sampled blocks are the truth in the mean, in bytes and in counts; and none of it touches
 * the floating-point state. */
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/heap/poisson.h"

static uint64_t next(void)
{
	static uint64_t counter;
	uint64_t z = counter += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static void gap_is_the_logarithm(void **state)
{
	(void)state;
	for (int i = 0; i < 200000; i++) {
		uint64_t r = next() >> (i % 64), rate = 2 + (next() >> (32 + i % 31));
		double exact = -log((double)(r | 1) / 18446744073709551616.0) * (double)rate;
		double got = (double)ppa_poisson_gap(r, rate);

		/* Rounded down; the logarithm has 32 digits behind the point. */
		double digits = (double)rate / 2147483648.0 + 1e-3;

		assert_true(got <= exact * (1 + 1e-8) + digits && got >= exact * (1 - 1e-8) - 1 - digits);
	}
}

static void gaps_have_the_right_mean_and_spread(void **state)
{
	enum { N = 1000000 };
	const uint64_t rate = 524288;
	double sum = 0, squares = 0, mean;

	(void)state;
	for (int i = 0; i < N; i++) {
		double g = (double)ppa_poisson_gap(next(), rate) + 0.5;

		sum += g;
		squares += g * g;
	}
	mean = sum / N;
	assert_true(fabs(mean / (double)rate - 1) < 5 / sqrt(N));
	/* An exponential distribution's deviation is its mean. */
	assert_true(fabs(sqrt(squares / N - mean * mean) / (double)rate - 1) < 8 / sqrt(N));
}

static void weight_is_one_over_the_probability(void **state)
{
	(void)state;
	for (double rate = 2; rate < 4.3e9; rate *= 1.3) {
		for (double bytes = 1; bytes < 1e14; bytes *= 1.07) {
			uint64_t b = (uint64_t)bytes, r = (uint64_t)rate;
			double p = -expm1(-(double)b / (double)r);

			assert_true(fabs((double)ppa_poisson_weight(b, r) / 4096 * p - 1) < 2e-4);
		}
	}
}

static void every_block_at_rate_one(void **state)
{
	(void)state;
	for (uint64_t b = 1; b; b *= 2)
		for (uint64_t r = 0; r <= 1; r++)
			assert_int_equal(ppa_poisson_weight(b, r), 4096);
	assert_int_equal(ppa_poisson_weight(UINT64_MAX, PPA_POISSON_RATE_MAX), 4096);
}

/* As the hook does it: count down, sample, start over. */
static void sums_are_unbiased(void **state)
{
	static const uint64_t sizes[] = {0, 16, 100, 4000, 70000, 3000000};
	enum { NSIZES = 6, BLOCKS = 3000000 };
	const uint64_t rate = 65536;
	double objects[NSIZES] = {0}, truth[NSIZES] = {0};
	uint64_t left = ppa_poisson_gap(next(), rate);

	(void)state;
	for (int i = 0; i < BLOCKS; i++) {
		uint64_t n = next() % 1000;
		int k = n < 400 ? 0 : n < 800 ? 1 : n < 950 ? 2 : n < 990 ? 3 : n < 999 ? 4 : 5;

		truth[k]++;
		if (sizes[k] < left) {
			left -= sizes[k] + 1;
			continue;
		}
		objects[k] += (double)ppa_poisson_weight(sizes[k] + 1, rate) / 4096;
		left = ppa_poisson_gap(next(), rate);
	}
	for (int k = 0; k < NSIZES; k++) {
		double p = -expm1(-(double)(sizes[k] + 1) / (double)rate);
		double sigma = sqrt(truth[k] * (1 - p) / p);

		assert_true(fabs(objects[k] - truth[k]) <= 4.5 * sigma + 1e-3 * truth[k]);
	}
}

static void floating_point_state_is_left_alone(void **state)
{
	volatile uint64_t sink;

	(void)state;
	feclearexcept(FE_ALL_EXCEPT);
	for (int i = 0; i < 1000; i++) {
		sink = ppa_poisson_gap(next(), 524288);
		sink = ppa_poisson_weight(1 + (next() >> 40), 524288);
	}
	(void)sink;
	assert_int_equal(fetestexcept(FE_ALL_EXCEPT), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gap_is_the_logarithm),
		cmocka_unit_test(gaps_have_the_right_mean_and_spread),
		cmocka_unit_test(weight_is_one_over_the_probability),
		cmocka_unit_test(every_block_at_rate_one),
		cmocka_unit_test(sums_are_unbiased),
		cmocka_unit_test(floating_point_state_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
