/* SPDX-License-Identifier: Apache-2.0
 *
 * Truth for shares: two threads run phases of random length (0.1 to 5 ms of CPU) in three functions chosen with
 * probability 0.5, 0.3 and 0.2, and measure what each really took by their own CPU clocks.
 *
 * phases CPU-SECONDS SEED: gate, burn that much in all, print the truth in nanoseconds, gate, end. The spinning is
 * calibrated, not clocked, so that a phase is one function and nothing else; the truth is measured around it. */
#include <pthread.h>

#include "victim.h"

enum { NFUNCTIONS = 3, NTHREADS = 2 };

struct job {
	pthread_t thread;
	uint64_t random, budget_ns, spent_ns[NFUNCTIONS], total_ns;
};

static double rounds_per_ns;

VICTIM_NOINLINE static void burn_half(unsigned rounds)
{
	victim_spin(rounds);
	VICTIM_NO_TAIL_CALL();
}

VICTIM_NOINLINE static void burn_third(unsigned rounds)
{
	victim_spin(rounds);
	__asm__ volatile("nop");
}

VICTIM_NOINLINE static void burn_fifth(unsigned rounds)
{
	victim_spin(rounds);
	__asm__ volatile("nop; nop");
}

static double random_unit(struct job *j)
{
	j->random ^= j->random << 13;
	j->random ^= j->random >> 7;
	j->random ^= j->random << 17;
	return (double)(j->random >> 11) / 9007199254740992.0;
}

static void calibrate(void)
{
	uint64_t start = victim_cpu_ns();

	victim_spin(20000000);
	rounds_per_ns = 20000000.0 / (double)(victim_cpu_ns() - start);
}

static void *run(void *arg)
{
	struct job *j = arg;
	uint64_t now = victim_cpu_ns(), end = now + j->budget_ns;

	while (now < end) {
		double ns = 100000 + random_unit(j) * 4900000, which = random_unit(j);
		unsigned rounds = (unsigned)(ns * rounds_per_ns);
		int f = which < 0.5 ? 0 : which < 0.8 ? 1 : 2;
		uint64_t before = now;

		if (f == 0)
			burn_half(rounds);
		else if (f == 1)
			burn_third(rounds);
		else
			burn_fifth(rounds);
		now = victim_cpu_ns();
		j->spent_ns[f] += now - before;
	}
	j->total_ns = victim_cpu_ns();
	return NULL;
}

int main(int argc, char **argv)
{
	static const char *const names[NFUNCTIONS] = {"burn_half", "burn_third", "burn_fifth"};
	struct job jobs[NTHREADS] = {{0}};
	uint64_t total = 0;
	double cpu = argc > 1 ? strtod(argv[1], NULL) : 1;

	calibrate();
	victim_gate();
	for (int i = 0; i < NTHREADS; i++) {
		jobs[i].random = 0x9e3779b97f4a7c15u * (uint64_t)(victim_arg(argc, argv, 2, 1) * 2 + i + 1);
		jobs[i].budget_ns = (uint64_t)(cpu * 1e9 / NTHREADS);
		victim_check(!pthread_create(&jobs[i].thread, NULL, run, &jobs[i]), "pthread_create");
	}
	for (int i = 0; i < NTHREADS; i++) {
		pthread_join(jobs[i].thread, NULL);
		total += jobs[i].total_ns;
	}
	for (int f = 0; f < NFUNCTIONS; f++)
		printf("%s %llu\n", names[f], (unsigned long long)(jobs[0].spent_ns[f] + jobs[1].spent_ns[f]));
	printf("total %llu\n", (unsigned long long)total);
	fflush(stdout);
	victim_gate();
	return 0;
}
