/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that sleeps for ever and is given names by another: "first", and after a gate "second". Gate, says ready, gate, says
 * renamed, gate, end. What pthread_setname_np returns for a name that is too long is libc's. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "victim.h"

static void *sleeper(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void say(const char *what)
{
	puts(what);
	fflush(stdout);
}

int main(void)
{
	pthread_t t;

	victim_gate();
	victim_check(!pthread_create(&t, NULL, sleeper, NULL), "pthread_create");
	errno = 77;
	victim_check(!pthread_setname_np(t, "first"), "name");
	usleep(100000);
	say("ready");
	victim_gate();
	victim_check(!pthread_setname_np(t, "second"), "name");
	victim_check(pthread_setname_np(t, "far too long for a name") == ERANGE, "a name that is too long");
	say("renamed");
	victim_gate();
	return 0;
}
