/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads with names, each burning MILLISECONDS (30) after the gate: named COUNT numbered ("worker-0", "worker-1" ...: one name
 * when digits are collapsed) or named COUNT lettered ("t-aa", "t-ab" ...: all different), then MILLISECONDS. Gate, burn, "named NANOSECONDS" that all burnt,
 * gate, end. */
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>

#include "victim.h"

static pthread_barrier_t start, done;
static int is_lettered;
static uint64_t each_ns;
static _Atomic uint64_t burnt_ns;

VICTIM_NOINLINE static void named_work(void)
{
	uint64_t begin = victim_clock_ns(CLOCK_THREAD_CPUTIME_ID);

	victim_burn_ns(each_ns);
	burnt_ns += victim_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
	VICTIM_NO_TAIL_CALL();
}

static void *named_start(void *arg)
{
	long i = (long)arg;
	char name[16];

	if (is_lettered)
		snprintf(name, sizeof(name), "t-%c%c", (char)('a' + i / 26 % 26), (char)('a' + i % 26));
	else
		snprintf(name, sizeof(name), "worker-%ld", i);
	prctl(PR_SET_NAME, name);
	pthread_barrier_wait(&start);
	named_work();
	pthread_barrier_wait(&done);
	for (;;)
		pause();
	return NULL;
}

int main(int argc, char **argv)
{
	long n = victim_arg(argc, argv, 1, 4);
	pthread_t t;

	is_lettered = argc > 2 && !strcmp(argv[2], "lettered");
	each_ns = (uint64_t)victim_arg(argc, argv, 3, 30) * 1000000;
	pthread_barrier_init(&start, NULL, (unsigned)n + 1);
	pthread_barrier_init(&done, NULL, (unsigned)n + 1);
	for (long i = 0; i < n; i++)
		victim_check(!pthread_create(&t, NULL, named_start, (void *)i), "pthread_create");
	victim_gate();
	pthread_barrier_wait(&start);
	pthread_barrier_wait(&done);
	printf("named %llu\n", (unsigned long long)burnt_ns);
	fflush(stdout);
	victim_gate();
	return 0;
}
