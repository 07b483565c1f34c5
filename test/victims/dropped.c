/* SPDX-License-Identifier: Apache-2.0
 *
 * A daemon that gave up its privileges, of whose threads the kernel then shows next to nothing, even to itself: "waiter"
 * waits for a condition for ever, "jumper" has left such a wait by a jump and sleeps elsewhere, "napper" wakes every 1.5 s,
 * "dozer" every 0.7 s, "spinner" burns. Gate, says ready, gate, end. Without privileges to give up it says so and ends. With
 * an argument it keeps them. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include "victim.h"

enum { NOBODY = 65534 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, others_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER, others_never = PTHREAD_COND_INITIALIZER;
static sigjmp_buf out;

__attribute__((noinline)) void wait_for_work(void)
{
	pthread_mutex_lock(&lock);
	for (;;)
		pthread_cond_wait(&never, &lock);
}

__attribute__((noinline)) void wait_and_leave(void)
{
	pthread_mutex_lock(&others_lock);
	for (;;)
		pthread_cond_wait(&others_never, &others_lock);
}

static void leave(int sig)
{
	siglongjmp(out, sig);
}

static void *waiter(void *arg)
{
	victim_check(!pthread_setname_np(pthread_self(), "waiter"), "name");
	wait_for_work();
	return arg;
}

static void *jumper(void *arg)
{
	victim_check(!pthread_setname_np(pthread_self(), "jumper"), "name");
	if (!sigsetjmp(out, 1))
		wait_and_leave();
	poll(NULL, 0, -1);
	return arg;
}

static void *napper(void *arg)
{
	victim_check(!pthread_setname_np(pthread_self(), "napper"), "name");
	for (;;)
		poll(NULL, 0, 1500);
	return arg;
}

static void *dozer(void *arg)
{
	victim_check(!pthread_setname_np(pthread_self(), "dozer"), "name");
	for (;;)
		poll(NULL, 0, 700);
	return arg;
}

static void *spinner(void *arg)
{
	victim_check(!pthread_setname_np(pthread_self(), "spinner"), "name");
	for (;;)
		victim_burn_ns(1000000);
	return arg;
}

int main(int argc, char **argv)
{
	static void *(*const all[])(void *) = {waiter, napper, dozer, spinner, jumper};
	struct sigaction act = {.sa_handler = leave};
	pthread_t t;

	(void)argv;
	victim_gate();
	if (argc < 2 && (setgid(NOBODY) || setuid(NOBODY))) {
		puts("no privileges");
		return 0;
	}
	sigaction(SIGUSR1, &act, NULL);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		victim_check(!pthread_create(&t, NULL, all[i], NULL), "pthread_create");
	usleep(100000);
	pthread_kill(t, SIGUSR1);
	usleep(100000);
	puts("ready");
	fflush(stdout);
	victim_gate();
	return 0;
}
