/* SPDX-License-Identifier: Apache-2.0
 *
 * forkstorm COUNT MEGABYTES: fork COUNT times while two other threads allocate and burn; every child allocates, burns
 * 1 ms, and ends with a status of its own; some fork again. With MEGABYTES, that much memory is touched first, so that
 * each fork takes long (a profiling timer must not restart it for ever). Prints the sum of statuses. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "victim.h"

static atomic_int stop;

static void *churn(void *arg)
{
	while (!atomic_load(&stop)) {
		void *p = malloc(100 + (size_t)(rand() % 4000));

		memset(p, 1, 100);
		victim_spin(20000);
		free(p);
	}
	return arg;
}

static int child(int i)
{
	char *p = malloc(5000);
	int status;
	pid_t pid;

	memset(p, i, 5000);
	victim_burn_ns(1000000);
	if (i % 10 == 0) {
		pid = fork();
		if (pid == 0) {
			victim_burn_ns(1000000);
			_exit(i % 7);
		}
		victim_check(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "grandchild");
		victim_check(WEXITSTATUS(status) == i % 7, "grandchild's status");
	}
	free(p);
	return i % 50;
}

int main(int argc, char **argv)
{
	long count = victim_arg(argc, argv, 1, 100), megabytes = victim_arg(argc, argv, 2, 0);
	long sum = 0, signalled = 0;
	pthread_t t[2];

	if (megabytes) {
		size_t bytes = (size_t)megabytes << 20;
		char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		victim_check(p != MAP_FAILED, "mmap");
		madvise(p, bytes, MADV_NOHUGEPAGE);
		for (size_t i = 0; i < bytes; i += 4096)
			p[i] = 1;
	}
	victim_gate();
	for (int i = 0; i < 2; i++)
		victim_check(!pthread_create(&t[i], NULL, churn, NULL), "pthread_create");
	for (int i = 0; i < count; i++) {
		pid_t pid = fork();
		int status;

		victim_check(pid >= 0, "fork");
		if (pid == 0)
			_exit(child(i));
		victim_check(waitpid(pid, &status, 0) == pid, "waitpid");
		if (WIFEXITED(status))
			sum += WEXITSTATUS(status);
		else
			signalled++;
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	printf("statuses %ld signalled %ld\n", sum, signalled);
	return 0;
}
