/* SPDX-License-Identifier: Apache-2.0
 *
 * The plain target: spin THREADS MILLISECONDS burns that much CPU in each thread, in outer -> middle -> inner, prints
 * "spun" and ends with status 7. No gate unless SPIN_GATE is set: an entrypoint has nobody to wait for.
 * MILLISECONDS 0: until killed. */
#include <pthread.h>

#include "victim.h"

static long milliseconds;

VICTIM_NOINLINE static void inner(void)
{
	victim_burn_ns(1000000);
	VICTIM_NO_TAIL_CALL();
}

VICTIM_NOINLINE static void middle(void)
{
	inner();
	VICTIM_NO_TAIL_CALL();
}

VICTIM_NOINLINE static void outer(void)
{
	for (long i = 0; milliseconds == 0 || i < milliseconds; i++)
		middle();
}

static void *spin_start(void *arg)
{
	outer();
	return arg;
}

int main(int argc, char **argv)
{
	long nthreads = victim_arg(argc, argv, 1, 1);
	pthread_t threads[64];

	milliseconds = victim_arg(argc, argv, 2, 100);
	victim_check(nthreads >= 1 && nthreads <= 64, "1 to 64 threads");
	if (getenv("SPIN_GATE"))
		victim_gate();
	for (long i = 1; i < nthreads; i++)
		victim_check(!pthread_create(&threads[i], NULL, spin_start, NULL), "pthread_create");
	outer();
	for (long i = 1; i < nthreads; i++)
		pthread_join(threads[i], NULL);
	puts("spun");
	return 7;
}
