/* SPDX-License-Identifier: Apache-2.0
 *
 * lockwaits ROUNDS: a thread that waits in turn for a condition, a semaphore, a barrier, the end of another thread and a
 * futex, each time for about 3 ms and once in a while for 30 us, and times it. Output: "waited wait_for_NAME NANOSECONDS
 * COUNT" for each, then "done". */
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <sys/syscall.h>

#include "victim.h"

enum { CONDITION, SEMAPHORE, BARRIER, JOIN, FUTEX, WAITS, LONG_NS = 3000000, SHORT_NS = 30000 };
static const char *const names[WAITS] = {"wait_for_condition", "wait_for_semaphore", "wait_for_barrier",
					 "wait_for_join", "wait_for_futex"};

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	bool is_told;
	sem_t sem;
	pthread_barrier_t barrier;
	_Atomic int word;
} shared = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

static uint64_t waited[WAITS];
static long count[WAITS];

struct order {
	int what;
	uint64_t ns;
	_Atomic bool is_ready;
};

/* The other side: makes it come about after a while. */
static void *serve(void *p)
{
	struct order *o = p;
	uint64_t end;

	while (!o->is_ready)
		sched_yield();
	end = victim_clock_ns(CLOCK_MONOTONIC) + o->ns;
	if (o->ns >= 1000000)
		victim_sleep_ms((unsigned)(o->ns / 1000000));
	while (victim_clock_ns(CLOCK_MONOTONIC) < end)
		;
	switch (o->what) {
	case CONDITION:
		pthread_mutex_lock(&shared.mutex);
		shared.is_told = true;
		pthread_cond_signal(&shared.cond);
		pthread_mutex_unlock(&shared.mutex);
		break;
	case SEMAPHORE:
		sem_post(&shared.sem);
		break;
	case BARRIER:
		pthread_barrier_wait(&shared.barrier);
		break;
	case FUTEX:
		shared.word = 1;
		syscall(SYS_futex, &shared.word, FUTEX_WAKE_PRIVATE, 1);
		break;
	default:
		break;
	}
	return NULL;
}

#define TIMED(what, call)                                                                                              \
	do {                                                                                                           \
		uint64_t from_ = victim_clock_ns(CLOCK_MONOTONIC);                                                     \
		call;                                                                                                  \
		waited[what] += victim_clock_ns(CLOCK_MONOTONIC) - from_;                                              \
		count[what]++;                                                                                         \
	} while (0)

static VICTIM_NOINLINE void wait_for_condition(void)
{
	pthread_mutex_lock(&shared.mutex);
	while (!shared.is_told)
		TIMED(CONDITION, pthread_cond_wait(&shared.cond, &shared.mutex));
	shared.is_told = false;
	pthread_mutex_unlock(&shared.mutex);
}

static VICTIM_NOINLINE void wait_for_semaphore(void)
{
	TIMED(SEMAPHORE, sem_wait(&shared.sem));
}

static VICTIM_NOINLINE void wait_for_barrier(void)
{
	TIMED(BARRIER, pthread_barrier_wait(&shared.barrier));
}

static VICTIM_NOINLINE void wait_for_join(pthread_t t)
{
	TIMED(JOIN, pthread_join(t, NULL));
}

static VICTIM_NOINLINE void wait_for_futex(void)
{
	while (!shared.word)
		TIMED(FUTEX, syscall(SYS_futex, &shared.word, FUTEX_WAIT_PRIVATE, 0, NULL));
	shared.word = 0;
}

static void wait_for(int what, uint64_t ns)
{
	struct order o = {.what = what, .ns = ns};
	pthread_t t;

	pthread_create(&t, NULL, serve, &o);
	o.is_ready = true;
	switch (what) {
	case CONDITION:
		wait_for_condition();
		break;
	case SEMAPHORE:
		wait_for_semaphore();
		break;
	case BARRIER:
		wait_for_barrier();
		break;
	case JOIN:
		wait_for_join(t);
		return;
	default:
		wait_for_futex();
	}
	pthread_join(t, NULL);
}

int main(int argc, char **argv)
{
	long rounds = victim_arg(argc, argv, 1, 40);

	sem_init(&shared.sem, 0, 0);
	pthread_barrier_init(&shared.barrier, NULL, 2);
	victim_gate();
	for (long i = 0; i < rounds; i++)
		for (int what = 0; what < WAITS; what++)
			wait_for(what, i % 4 ? LONG_NS : SHORT_NS);
	for (int what = 0; what < WAITS; what++)
		printf("waited %s %llu %ld\n", names[what], (unsigned long long)waited[what], count[what]);
	printf("done\n");
	fflush(stdout);
	victim_gate();
	return 0;
}
