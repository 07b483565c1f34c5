/* SPDX-License-Identifier: Apache-2.0
 *
 * A process ends when its last thread does. lastthread main: main leaves by pthread_exit, and a worker returns after it.
 * lastthread fork: a worker forks, and its child, where it is the only thread, returns from the start routine. lastthread
 * both: the fork happens after main has left. Handlers of atexit run each time, and the status is 0. */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>

#include "victim.h"

static void at_end(void)
{
	static const char text[] = "the handler of atexit ran\n";

	if (write(1, text, sizeof(text) - 1) < 0)
		_exit(98);
}

static void *late(void *arg)
{
	victim_gate();
	victim_sleep_ms(100);
	return arg;
}

static void *forks(void *arg)
{
	pid_t pid;
	int status;

	victim_gate();
	victim_sleep_ms(100);
	pid = fork();
	if (pid == 0)
		return arg;
	victim_check(waitpid(pid, &status, 0) == pid, "waitpid");
	printf("the child ended with status %#x\n", (unsigned)status);
	exit(0);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "main";
	pthread_t t;

	atexit(at_end);
	victim_check(!pthread_create(&t, NULL, strcmp(how, "main") ? forks : late, NULL), "pthread_create");
	if (!strcmp(how, "fork"))
		pthread_join(t, NULL);
	pthread_exit(NULL);
}
