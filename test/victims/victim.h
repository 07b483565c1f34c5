/* SPDX-License-Identifier: Apache-2.0
 *
 * What the victims share. A victim waits at a gate (a line on standard input) before it does anything worth
 * profiling, so that the test can start a profile first; it burns CPU by its threads' own clocks, so that it knows the
 * truth; and it prints only what must be equal with and without the agent, unless its head says otherwise. */
#ifndef VICTIM_H
#define VICTIM_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define VICTIM_NOINLINE __attribute__((noinline, noclone))

/* Keeps the call above from becoming a jump: the caller must stay on the stack. */
#define VICTIM_NO_TAIL_CALL() __asm__ volatile("")

/* Wait for the next line, or the end, of standard input. */
static inline void victim_gate(void)
{
	char c;
	ssize_t n;

	do {
		n = read(0, &c, 1);
	} while ((n < 0 && errno == EINTR) || (n == 1 && c != '\n'));
}

static inline uint64_t victim_clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t victim_cpu_ns(void)
{
	return victim_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Arithmetic the compiler cannot drop, in the frame of whoever calls it. */
static inline __attribute__((always_inline)) void victim_spin(unsigned rounds)
{
	uint64_t x = rounds | 1;

	for (unsigned i = 0; i < rounds; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		__asm__ volatile("" : "+r"(x));
	}
}

/* Burn CPU time of the calling thread, in the frame of whoever calls it. Keeps errno. */
static inline __attribute__((always_inline)) void victim_burn_ns(uint64_t ns)
{
	uint64_t end = victim_cpu_ns() + ns;

	do
		victim_spin(4000);
	while (victim_cpu_ns() < end);
}

static inline void victim_sleep_ms(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

	while (nanosleep(&t, &t) != 0 && errno == EINTR)
		;
}

#define VICTIM_ANY_CALL (-1)

/* Until that thread of this process sleeps in that system call, or in any, for at most 10 s. A test that acts on a waiter
 * after a fixed time instead may come before it, where the host takes the processor away. */
static inline void victim_until_in(pid_t tid, long call)
{
	char path[64], text[32] = "", number[16];

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
	snprintf(number, sizeof(number), "%ld ", call);
	for (int i = 0; i < 10000; i++) {
		FILE *f = fopen(path, "r");

		if (!f || !fgets(text, sizeof(text), f))
			text[0] = 0;
		if (f)
			fclose(f);
		/* Of one that runs there is a word, no number. */
		if (call == VICTIM_ANY_CALL ? text[0] >= '0' && text[0] <= '9' : !strncmp(text, number, strlen(number)))
			return;
		victim_sleep_ms(1);
	}
}

static inline void victim_check(int ok, const char *what)
{
	if (ok)
		return;
	printf("BROKEN: %s\n", what);
	fflush(stdout);
	_exit(99);
}

static inline long victim_arg(int argc, char **argv, int i, long otherwise)
{
	return argc > i ? strtol(argv[i], NULL, 0) : otherwise;
}

#endif
