/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs started in every way that is not fork and exec by hand: posix_spawn, vfork, system, popen, and execs that
 * fail; ROUNDS times, in a thread and in main. Prints the sum of statuses, then burns half a second in after_spawning,
 * which must still be profiled: a hook that runs in a vfork child shares our memory but not our timers. */
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "victim.h"

extern char **environ;

static int status_of(pid_t pid)
{
	int status;

	victim_check(pid > 0 && waitpid(pid, &status, 0) == pid, "waitpid");
	if (WIFSIGNALED(status))
		printf("BROKEN: killed by signal %d\n", WTERMSIG(status));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

static int spawned(int search)
{
	char *args[] = {(char *)"sh", (char *)"-c", (char *)"exit 3", NULL};
	pid_t pid;
	int err = search ? posix_spawnp(&pid, "sh", NULL, NULL, args, environ)
			 : posix_spawn(&pid, "/bin/sh", NULL, NULL, args, environ);

	victim_check(!err, "posix_spawn");
	return status_of(pid);
}

static int vforked(int fails)
{
	pid_t pid = vfork();

	if (pid == 0) {
		if (fails)
			execl("/nonexistent", "x", (char *)NULL);
		else
			execl("/bin/sh", "sh", "-c", "exit 4", (char *)NULL);
		_exit(6);
	}
	return status_of(pid);
}

static int piped(void)
{
	FILE *f = popen("echo 1234", "r");
	int n = 0;

	victim_check(f && fscanf(f, "%d", &n) == 1 && n == 1234, "popen");
	return WEXITSTATUS(pclose(f)) + 5;
}

static int failed(void)
{
	char *args[] = {(char *)"x", NULL};

	return execv("/nonexistent", args) + execvp("no-such-program-anywhere", args) +
	       execl("/etc", "x", (char *)NULL);
}

static void *spawn_all(void *arg)
{
	static const char *const names[] = {"spawn", "spawnp", "vfork", "vfork failing", "system", "popen", "failed"};
	long rounds = *(long *)arg, sums[7] = {0};

	for (long i = 0; i < rounds; i++) {
		victim_burn_ns(1000000);
		sums[0] += spawned(0);
		sums[1] += spawned(1);
		sums[2] += vforked(0);
		sums[3] += vforked(1);
		sums[4] += WEXITSTATUS(system("exit 9"));
		sums[5] += piped();
		sums[6] += failed();
	}
	for (int i = 0; i < 7; i++)
		printf("%s %ld\n", names[i], sums[i]);
	return NULL;
}

VICTIM_NOINLINE static void after_spawning(void)
{
	victim_burn_ns(500000000);
	VICTIM_NO_TAIL_CALL();
}

static void *after_start(void *arg)
{
	after_spawning();
	return arg;
}

int main(int argc, char **argv)
{
	long rounds = victim_arg(argc, argv, 1, 20);
	pthread_t t;

	victim_gate();
	victim_check(!pthread_create(&t, NULL, spawn_all, &rounds), "pthread_create");
	pthread_join(t, NULL);
	spawn_all(&rounds);
	fflush(stdout);
	victim_check(!pthread_create(&t, NULL, after_start, NULL), "pthread_create");
	after_spawning();
	pthread_join(t, NULL);
	puts("spawned");
	fflush(stdout);
	victim_gate();
	return 0;
}
