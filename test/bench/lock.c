/* SPDX-License-Identifier: Apache-2.0
 *
 * lock pair|waited|rwlock|contended THREADS OPERATIONS: what locking, and whoever stands before it, costs.
 *
 *   pair       an operation locks a mutex of the thread's own and unlocks it
 *   waited     the same in a process in which somebody has waited for a mutex: from then on who unlocks has to look
 *   rwlock     the same with a read lock
 *   contended  an operation holds one mutex, shared by all threads, for HELD_NS and works OUTSIDE_NS without it
 *
 * Operations are divided among the threads. Work is a fixed number of rounds, calibrated before the gate, so that CPU
 * time tells what the locking costs. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "test/bench/gate.h"

enum { THREADS_MAX = 64, HELD_NS = 1000, OUTSIDE_NS = 5000, ROUNDS_A_US = 800 };

static struct {
	const char *mode;
	long operations; /* each thread */
	pthread_barrier_t start;
	pthread_mutex_t mutex;
} job;

static inline void work(unsigned ns)
{
	uint64_t x = ns | 1;

	for (unsigned i = 0; i < ns * ROUNDS_A_US / 1000; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		__asm__ volatile("" : "+r"(x));
	}
}

static void pairs(void)
{
	pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER;

	for (long i = 0; i < job.operations; i++) {
		pthread_mutex_lock(&mine);
		pthread_mutex_unlock(&mine);
	}
}

static void reads(void)
{
	pthread_rwlock_t mine = PTHREAD_RWLOCK_INITIALIZER;

	for (long i = 0; i < job.operations; i++) {
		pthread_rwlock_rdlock(&mine);
		pthread_rwlock_unlock(&mine);
	}
}

static void contended(void)
{
	for (long i = 0; i < job.operations; i++) {
		pthread_mutex_lock(&job.mutex);
		work(HELD_NS);
		pthread_mutex_unlock(&job.mutex);
		work(OUTSIDE_NS);
	}
}

static void *wait_once(void *unused)
{
	pthread_mutex_lock(&job.mutex);
	pthread_mutex_unlock(&job.mutex);
	return unused;
}

/* One thread waits for another that sleeps, for long enough to have met it. */
static void have_somebody_wait(void)
{
	const struct timespec held = {0, 100000000};
	pthread_t waiter;

	pthread_mutex_lock(&job.mutex);
	if (pthread_create(&waiter, NULL, wait_once, NULL))
		exit(2);
	nanosleep(&held, NULL);
	pthread_mutex_unlock(&job.mutex);
	pthread_join(waiter, NULL);
}

static void *thread(void *unused)
{
	pthread_barrier_wait(&job.start);
	if (strcmp(job.mode, "pair") == 0 || strcmp(job.mode, "waited") == 0)
		pairs();
	else if (strcmp(job.mode, "rwlock") == 0)
		reads();
	else
		contended();
	return unused;
}

int main(int argc, char **argv)
{
	static pthread_t threads[THREADS_MAX];
	long n = bench_arg(argc, argv, 2, 1);

	if (argc < 2 || n < 1 || n > THREADS_MAX)
		return 2;
	job.mode = argv[1];
	job.operations = bench_arg(argc, argv, 3, 1000000) / n;
	pthread_barrier_init(&job.start, NULL, (unsigned)n);
	pthread_mutex_init(&job.mutex, NULL);
	if (strcmp(job.mode, "waited") == 0)
		have_somebody_wait();
	bench_gate();
	for (long i = 1; i < n; i++)
		if (pthread_create(&threads[i], NULL, thread, NULL))
			return 2;
	thread(NULL);
	for (long i = 1; i < n; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
