/* SPDX-License-Identifier: Apache-2.0
 *
 * create N: after the gate, N times a thread that does nothing, created and joined. */
#include <pthread.h>

#include "test/bench/gate.h"

static void *thread(void *arg)
{
	return arg;
}

int main(int argc, char **argv)
{
	long n = bench_arg(argc, argv, 1, 20000);

	bench_gate();
	for (long i = 0; i < n; i++) {
		pthread_t t;

		if (pthread_create(&t, NULL, thread, NULL) || pthread_join(t, NULL))
			return 2;
	}
	return 0;
}
