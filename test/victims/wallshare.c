/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that know where their time goes: sleeper sleeps in part_sleep, waiter waits for main in part_wait, mixed
 * sleeps 7 ms in part_nap and burns 5 in part_burn in turn, and measures it. From the gate to the next line of input;
 * prints "mixed function nanoseconds". Once its time is over a sleeper waits for a CPU, which is not sleep: that counts
 * with part_burn. Main waits in part_gate. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>

#include "victim.h"

enum { NAP_NS = 7060000 }; /* with the kernel's slack */

static volatile int over;
static sem_t go, end;
static uint64_t napped_ns, burnt_ns;

static uint64_t clock_now(void)
{
	return victim_clock_ns(CLOCK_MONOTONIC);
}

VICTIM_NOINLINE static void part_nap(void)
{
	uint64_t begin = clock_now();

	victim_sleep_ms(7);
	begin += NAP_NS;
	napped_ns += NAP_NS;
	burnt_ns += clock_now() - begin;
}

VICTIM_NOINLINE static void part_burn(void)
{
	uint64_t begin = clock_now();

	victim_burn_ns(5000000);
	burnt_ns += clock_now() - begin;
}

static void *mixed(void *p)
{
	sem_wait(&go);
	while (!over) {
		part_nap();
		part_burn();
	}
	return p;
}

VICTIM_NOINLINE static void part_sleep(void)
{
	while (!over)
		victim_sleep_ms(20);
}

static void *sleeper(void *p)
{
	sem_wait(&go);
	part_sleep();
	return p;
}

VICTIM_NOINLINE static void part_wait(void)
{
	sem_wait(&end);
	VICTIM_NO_TAIL_CALL();
}

static void *waiter(void *p)
{
	sem_wait(&go);
	part_wait();
	return p;
}

VICTIM_NOINLINE static void part_gate(void)
{
	victim_gate();
	VICTIM_NO_TAIL_CALL();
}

int main(void)
{
	void *(*const fns[])(void *) = {mixed, sleeper, waiter};
	static const char *const names[] = {"mixed", "sleeper", "waiter"};
	pthread_t t[3];

	sem_init(&go, 0, 0);
	sem_init(&end, 0, 0);
	for (int i = 0; i < 3; i++) {
		pthread_create(&t[i], NULL, fns[i], NULL);
		pthread_setname_np(t[i], names[i]);
	}
	victim_gate();
	for (int i = 0; i < 3; i++)
		sem_post(&go);
	part_gate();
	over = 1;
	sem_post(&end);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	printf("mixed part_nap %lu\nmixed part_burn %lu\n", (unsigned long)napped_ns, (unsigned long)burnt_ns);
	return 0;
}
