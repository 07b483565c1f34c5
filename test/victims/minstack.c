/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads on the smallest stack libc allows, threads on stacks of their own with a guard page below, and threads with
 * an alternate signal stack of 8 KiB whose own handler runs on it with USED bytes of its own: a sampling signal on top
 * must not overflow any of them. minstack ROUNDS USED; prints what was done. (Two signal frames of a CPU with AVX-512
 * are 7.2 KiB, so 900 bytes are left for the handler and for what our handler needs.) */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "victim.h"

enum { ALT_BYTES = 8192 };

static size_t used;
static atomic_int small_runs, own_runs, handled;

static void *small_thread(void *arg)
{
	victim_burn_ns(5000000);
	atomic_fetch_add((atomic_int *)arg, 1);
	return NULL;
}

static void on_usr1(int sig)
{
	volatile char *own = __builtin_alloca(used);

	memset((char *)own, sig, used);
	victim_burn_ns(3000000);
	atomic_fetch_add(&handled, own[used / 2] == sig);
}

static void *alt_thread(void *arg)
{
	stack_t alt = {
		.ss_sp = mmap(NULL, ALT_BYTES + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};

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
	struct sigaction a = {.sa_handler = on_usr1, .sa_flags = SA_ONSTACK | SA_RESTART};
	pthread_attr_t small, own;
	pthread_t t[3];
	char *stack = mmap(NULL, 4096 + PTHREAD_STACK_MIN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(stack, 4096, PROT_NONE);
	used = (size_t)victim_arg(argc, argv, 2, 64);
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
