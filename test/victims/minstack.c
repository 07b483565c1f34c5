/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads on the smallest stack libc allows, threads on stacks of their own with a guard page below, and threads with
 * an alternate signal stack of 8 KiB whose own handlers run on it, deep enough that little is left over: a sampling
 * signal on top must not overflow any of them. minstack ROUNDS; prints what was done. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "victim.h"

enum { ALT_BYTES = 8192 };

static atomic_int small_runs, own_runs, handled;

static void *small_thread(void *arg)
{
	victim_burn_ns(5000000);
	atomic_fetch_add((atomic_int *)arg, 1);
	return NULL;
}

static void on_usr1(int sig)
{
	volatile char used[1024];

	memset((char *)used, sig, sizeof(used));
	victim_burn_ns(3000000);
	atomic_fetch_add(&handled, used[17] == sig);
}

static void *alt_thread(void *arg)
{
	stack_t alt = { .ss_sp = mmap(NULL, ALT_BYTES + 4096, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) };

	mprotect(alt.ss_sp, 4096, PROT_NONE);
	alt.ss_sp = (char *)alt.ss_sp + 4096;
	alt.ss_size = ALT_BYTES;
	victim_check(!sigaltstack(&alt, NULL), "sigaltstack");
	for (int i = 0; i < 5; i++) {
		raise(SIGUSR1);
		victim_burn_ns(1000000);
	}
	alt.ss_flags = SS_DISABLE;
	sigaltstack(&alt, NULL);
	munmap((char *)alt.ss_sp - 4096, ALT_BYTES + 4096);
	return arg;
}

int main(int argc, char **argv)
{
	long rounds = victim_arg(argc, argv, 1, 20);
	struct sigaction a = { .sa_handler = on_usr1, .sa_flags = SA_ONSTACK | SA_RESTART };
	pthread_attr_t small, own;
	pthread_t t[3];
	char *stack = mmap(NULL, 4096 + PTHREAD_STACK_MIN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(stack, 4096, PROT_NONE);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN);
	pthread_attr_init(&own);
	pthread_attr_setstack(&own, stack + 4096, PTHREAD_STACK_MIN);
	sigaction(SIGUSR1, &a, NULL);
	victim_gate();
	for (long i = 0; i < rounds; i++) {
		victim_check(!pthread_create(&t[0], &small, small_thread, &small_runs), "smallest stack");
		victim_check(!pthread_create(&t[1], &own, small_thread, &own_runs), "own stack");
		victim_check(!pthread_create(&t[2], NULL, alt_thread, NULL), "pthread_create");
		for (int k = 0; k < 3; k++)
			pthread_join(t[k], NULL);
	}
	printf("small %d own %d handled %d\n", small_runs, own_runs, handled);
	return 0;
}
