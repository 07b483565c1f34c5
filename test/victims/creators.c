/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads created from known places: 200 that end (spawn_quick), a pool of 16 that stays (spawn_pool), 8 that each create 3
 * more (spawn_parents, spawn_children), 4 as in C11 (spawn_c11), one by raw clone, which no hook sees, and 5 attempts that fail (spawn_failing).
 * Prints "ready"; on the next line of input spawn_later creates 30 more, "later" is printed, and the line after that
 * ends it. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <threads.h>

#include "victim.h"

enum { QUICK = 200, POOL = 16, PARENTS = 8, CHILDREN = 3, FAILING = 5, C11 = 4, LATER = 30 };

static void *stay(void *p)
{
	for (;;)
		victim_sleep_ms(100000);
	return p;
}

static void *end(void *p)
{
	return p;
}

VICTIM_NOINLINE static void spawn(void *(*fn)(void *), pthread_t *t)
{
	victim_check(pthread_create(t, NULL, fn, NULL) == 0, "a thread could be created");
}

VICTIM_NOINLINE static void spawn_quick(void)
{
	pthread_t t;

	for (int i = 0; i < QUICK; i++) {
		spawn(end, &t);
		pthread_join(t, NULL);
	}
}

VICTIM_NOINLINE static void spawn_pool(void)
{
	pthread_t t;

	for (int i = 0; i < POOL; i++)
		spawn(stay, &t);
	VICTIM_NO_TAIL_CALL();
}

VICTIM_NOINLINE static void spawn_children(void)
{
	pthread_t t;

#pragma GCC unroll 1
	for (int i = 0; i < CHILDREN; i++)
		spawn(stay, &t);
	VICTIM_NO_TAIL_CALL();
}

static void *parent(void *p)
{
	spawn_children();
	return stay(p);
}

VICTIM_NOINLINE static void spawn_parents(void)
{
	pthread_t t;

	for (int i = 0; i < PARENTS; i++)
		spawn(parent, &t);
	VICTIM_NO_TAIL_CALL();
}

static int stay_c11(void *p)
{
	stay(p);
	return 0;
}

VICTIM_NOINLINE static void spawn_c11(void)
{
	thrd_t t;

#pragma GCC unroll 1
	for (int i = 0; i < C11; i++)
		victim_check(thrd_create(&t, stay_c11, NULL) == thrd_success, "a thread as in C11 could be created");
}

/* An attribute that no system can satisfy. */
VICTIM_NOINLINE static void spawn_failing(void)
{
	struct sched_param p = {.sched_priority = 0};
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, (size_t)1 << 46);
	pthread_attr_setschedparam(&attr, &p);
	for (int i = 0; i < FAILING; i++)
		victim_check(pthread_create(&t, &attr, end, NULL) != 0, "no thread has a stack of 64 TiB");
}

VICTIM_NOINLINE static void spawn_later(void)
{
	pthread_t t;

	for (int i = 0; i < LATER; i++) {
		spawn(end, &t);
		pthread_join(t, NULL);
	}
}

static char clone_stack[64 << 10] __attribute__((aligned(16)));

static int cloned(void *p)
{
	(void)p;
	for (;;) {
		struct timespec t = {1000, 0};

		nanosleep(&t, NULL);
	}
	return 0;
}

int main(void)
{
	spawn_quick();
	spawn_pool();
	spawn_parents();
	spawn_failing();
	spawn_c11();
	victim_check(clone(cloned, clone_stack + sizeof(clone_stack),
			   CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, NULL) > 0,
		     "clone");
	victim_sleep_ms(200); /* the children's children */
	printf("ready\n");
	fflush(stdout);
	victim_gate();
	spawn_later();
	printf("later\n");
	fflush(stdout);
	victim_gate();
	fflush(NULL);
	_exit(0);
}
