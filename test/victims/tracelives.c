/* SPDX-License-Identifier: Apache-2.0
 *
 * tracelives THREADS: threads of every life, for a trace to show. All the time a thread "sleeper" waits for a
 * condition that never comes, a "reader" for a byte in a pipe, a "spinner" burns CPU in spin_hard, and 64 MiB of heap
 * are in use. Prints "ready". After the gate a thread "leaver" leaves its start routine, but not the destructor of its
 * key, hold_on, before the end; and main creates and joins, in create_children, THREADS threads "child", which
 * run child_routine, one after the other, and prints
 *
 *	done BEGIN END	(CLOCK_MONOTONIC nanoseconds)
 *
 * The second gate ends it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "victim.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int pipe_ends[2];
static volatile int sink;
static void *volatile block;

static VICTIM_NOINLINE void wait_for_ever(void)
{
	pthread_mutex_lock(&mutex);
	for (;;)
		pthread_cond_wait(&never, &mutex);
}

static void *sleeper(void *unused)
{
	pthread_setname_np(pthread_self(), "sleeper");
	wait_for_ever();
	return unused;
}

static VICTIM_NOINLINE void read_pipe(void)
{
	char c;

	while (read(pipe_ends[0], &c, 1) != 0)
		;
}

static void *reader(void *unused)
{
	pthread_setname_np(pthread_self(), "reader");
	read_pipe();
	return unused;
}

static VICTIM_NOINLINE void spin_hard(void)
{
	for (;;) {
		victim_spin(100000);
		sink++;
	}
}

static void *spinner(void *unused)
{
	pthread_setname_np(pthread_self(), "spinner");
	spin_hard();
	return unused;
}

static pthread_key_t key;
static int told[2];

static VICTIM_NOINLINE void hold_on(void *unused)
{
	(void)unused;
	read_pipe();
	VICTIM_NO_TAIL_CALL();
}

static void *leaver(void *unused)
{
	char c;

	pthread_setname_np(pthread_self(), "leaver");
	pthread_setspecific(key, &key);
	while (read(told[0], &c, 1) < 0)
		;
	return unused;
}

static void *child_routine(void *unused)
{
	pthread_setname_np(pthread_self(), "child");
	sink++;
	return unused;
}

static VICTIM_NOINLINE void create_children(int n)
{
	for (int i = 0; i < n; i++) {
		pthread_t t;

		if (pthread_create(&t, NULL, child_routine, NULL))
			exit(1);
		pthread_join(t, NULL);
	}
}

int main(int argc, char **argv)
{
	void *(*const lives[])(void *) = {sleeper, reader, spinner, leaver};
	uint64_t begin;
	pthread_t t;

	if (pipe(pipe_ends) || pipe(told) || pthread_key_create(&key, hold_on))
		return 1;
	for (int i = 0; i < 4; i++)
		if (pthread_create(&t, NULL, lives[i], NULL))
			return 1;
	block = malloc(64 << 20);
	if (!block)
		return 1;
	puts("ready");
	fflush(stdout);
	victim_gate();
	begin = victim_clock_ns(CLOCK_MONOTONIC);
	victim_check(write(told[1], "", 1) == 1, "pipe");
	create_children(argc > 1 ? atoi(argv[1]) : 10);
	printf("done %llu %llu\n", (unsigned long long)begin, (unsigned long long)victim_clock_ns(CLOCK_MONOTONIC));
	fflush(stdout);
	victim_gate();
	return 0;
}
