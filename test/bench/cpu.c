/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu THREADS WORK: after the gate, WORK rounds of arithmetic at the bottom of a recursion 20 deep, divided among the
 * threads. The work is fixed and the CPU time is measured, so whatever a profiler takes shows. The threads exist before
 * the gate: what their creation costs is another program's question. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "test/bench/gate.h"

enum { DEPTH = 20, THREADS_MAX = 1024, STACK_BYTES = 64 << 10, STEPS = 2000 };

static pthread_barrier_t start;
static long rounds;

/* Nothing here may become a jump or a loop: the frames are what is unwound. */
static __attribute__((noinline, noclone)) uint64_t recurse(int depth, uint64_t x)
{
	if (depth == 0) {
		for (int i = 0; i < STEPS; i++) {
			x = x * 6364136223846793005u + 1442695040888963407u;
			__asm__ volatile("" : "+r"(x));
		}
		return x;
	}
	x = recurse(depth - 1, x + (uint64_t)depth);
	__asm__ volatile("" : "+r"(x));
	return x ^ (uint64_t)depth;
}

static void work(void)
{
	uint64_t x = 1;

	for (long i = 0; i < rounds; i++)
		x = recurse(DEPTH, x);
	__asm__ volatile("" : : "r"(x));
}

static void *thread(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&start);
	work();
	return NULL;
}

int main(int argc, char **argv)
{
	static pthread_t threads[THREADS_MAX];
	long nthreads = bench_arg(argc, argv, 1, 1);
	pthread_attr_t attr;

	if (nthreads < 1 || nthreads > THREADS_MAX)
		return 2;
	rounds = bench_arg(argc, argv, 2, 100000) / nthreads;
	pthread_barrier_init(&start, NULL, (unsigned)nthreads);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	for (long i = 1; i < nthreads; i++)
		if (pthread_create(&threads[i], &attr, thread, NULL))
			return 2;
	bench_gate();
	pthread_barrier_wait(&start);
	work();
	for (long i = 1; i < nthreads; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
