/* SPDX-License-Identifier: Apache-2.0
 *
 * spawn N PROGRAM: after the gate, start PROGRAM and wait for it, N times; prints the median time from before
 * posix_spawn to the end of the wait, and the CPU time a start took, both in nanoseconds. With the variable
 * BENCH_PRELOAD the children, and only they, get it as LD_PRELOAD. */
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "test/bench/gate.h"

enum { N_MAX = 10000, ENV_MAX = 256 };

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static int64_t children_cpu_ns(void)
{
	struct rusage r;

	getrusage(RUSAGE_CHILDREN, &r);
	return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000000LL +
	       (r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1000LL;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static char **child_environment(void)
{
	static char *env[ENV_MAX + 2];
	static char preload[4096];
	const char *wanted = getenv("BENCH_PRELOAD");
	int n = 0;

	for (char **e = environ; *e && n < ENV_MAX; e++)
		if (strncmp(*e, "BENCH_PRELOAD=", 14) && strncmp(*e, "LD_PRELOAD=", 11))
			env[n++] = *e;
	if (wanted && *wanted) {
		snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", wanted);
		env[n++] = preload;
	}
	return env;
}

int main(int argc, char **argv)
{
	static int64_t took[N_MAX];
	long n = bench_arg(argc, argv, 1, 500);
	char **env = child_environment();
	int64_t cpu;

	if (n < 1 || n > N_MAX || argc < 3)
		return 2;
	bench_gate();
	cpu = children_cpu_ns();
	for (long i = 0; i < n; i++) {
		int64_t begin = now_ns();
		pid_t pid;
		int status;

		if (posix_spawn(&pid, argv[2], NULL, NULL, argv + 2, env) || waitpid(pid, &status, 0) != pid || status)
			return 2;
		took[i] = now_ns() - begin;
	}
	cpu = (children_cpu_ns() - cpu) / n;
	qsort(took, (size_t)n, sizeof(took[0]), compare);
	printf("%lld %lld\n", (long long)took[n / 2], (long long)cpu);
	return 0;
}
