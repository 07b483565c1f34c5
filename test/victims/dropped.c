/* SPDX-License-Identifier: Apache-2.0
 *
 * A daemon that gave up its privileges, of whose threads the kernel then shows next to nothing, even to itself: "sleeper"
 * waits for ever, "spinner" burns. Gate, says ready, gate, end. Without privileges to give up it says so and ends. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "victim.h"

enum { NOBODY = 65534 };

static void *sleeper(void *arg)
{
	victim_check(!pthread_setname_np(pthread_self(), "sleeper"), "name");
	poll(NULL, 0, -1);
	return arg;
}

static void *spinner(void *arg)
{
	victim_check(!pthread_setname_np(pthread_self(), "spinner"), "name");
	for (;;)
		victim_burn_ns(1000000);
	return arg;
}

int main(void)
{
	pthread_t t;

	victim_gate();
	if (setgid(NOBODY) || setuid(NOBODY)) {
		puts("no privileges");
		return 0;
	}
	victim_check(!pthread_create(&t, NULL, sleeper, NULL) && !pthread_create(&t, NULL, spinner, NULL),
		     "pthread_create");
	usleep(100000);
	puts("ready");
	fflush(stdout);
	victim_gate();
	return 0;
}
