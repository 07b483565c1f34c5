/* SPDX-License-Identifier: Apache-2.0
 *
 * What an agent that is switched off may not have: threads, timers, sockets, descriptors, heap, signal handlers.
 * Printed after a fork and a thread have come and gone; equal with and without the agent. */
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "victim.h"

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n - 2;
}

static int lines(const char *path)
{
	FILE *f = fopen(path, "re");
	int c, n = 0;

	while (f && (c = getc(f)) != EOF)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

static void *thread(void *arg)
{
	victim_burn_ns(1000000);
	return arg;
}

int main(void)
{
	size_t heap = mallinfo2().uordblks, mapped = mallinfo2().hblkhd;
	pthread_t t;
	pid_t pid;

	printf("heap at start %zu mapped %zu\n", heap, mapped);
	victim_check(!pthread_create(&t, NULL, thread, NULL), "pthread_create");
	pthread_join(t, NULL);
	pid = fork();
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	printf("threads %d\n", entries("/proc/self/task"));
	printf("descriptors %d\n", entries("/proc/self/fd"));
	printf("timers %d\n", lines("/proc/self/timers"));
	for (int s = 1; s <= 64; s++) {
		struct sigaction a;

		if (sigaction(s, NULL, &a) == 0 && a.sa_handler != SIG_DFL)
			printf("handler on %d\n", s);
	}
	return 0;
}
