/* SPDX-License-Identifier: Apache-2.0
 *
 * execloop COUNT: burn a little in two threads, exec ourselves with COUNT - 1, and so on. At every start the signal
 * mask, the ignored set and the pending set must be what a program started by a clean exec sees; the first program
 * set SIGUSR1 ignored and SIGUSR2 blocked, which must survive. Prints "done" at the end. Each of the exec functions
 * has its turn. A pending timer signal that survived an exec would kill the new program. Every tenth program, the first
 * one aside, waits until it has timers, which somebody must ask for: it is profiled when it goes. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "victim.h"

extern char **environ;

static void *burner(void *arg)
{
	for (;;)
		victim_burn_ns(1000000);
	return arg;
}

/* Signals 32 and 33 are libc's own: its first pthread_create takes them, whoever ignored them before. */
#define LIBC_SIGNALS (3ull << 31)

/* The value of a line of /proc/self/status: the kernel's word, not a hook's. */
static void read_line(const char *key, char *value, size_t cap)
{
	char line[128];
	FILE *f = fopen("/proc/self/status", "re");
	size_t n = strlen(key);

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, n) && line[n] == ':')
			snprintf(value, cap, "%.16s", line + n + 2);
	if (f)
		fclose(f);
}

static void wait_for_timers(void)
{
	for (int i = 0; i < 60000; i++) {
		char first[4] = "";
		FILE *f = fopen("/proc/self/timers", "re");
		size_t n = f ? fread(first, 1, sizeof(first), f) : 0;

		if (f)
			fclose(f);
		if (n > 0)
			return;
		victim_burn_ns(1000000);
	}
	puts("BROKEN: not profiled within a minute");
	fflush(stdout);
	_exit(97);
}

static void check_line(const char *key, uint64_t expected)
{
	char value[32] = "";

	read_line(key, value, sizeof(value));
	if (((strtoull(value, NULL, 16) ^ expected) & ~LIBC_SIGNALS) == 0 && *value)
		return;
	printf("BROKEN: %s %s but expected %llx\n", key, value, (unsigned long long)expected);
	fflush(stdout);
	_exit(98);
}

int main(int argc, char **argv)
{
	long count = victim_arg(argc, argv, 1, 10);
	int is_first = argc < 3;
	char next[32], ignored[32], *args[] = {argv[0], next, ignored, NULL};
	sigset_t blocked;
	pthread_t t;

	if (is_first) {
		victim_gate();
		signal(SIGUSR1, SIG_IGN);
		sigemptyset(&blocked);
		sigaddset(&blocked, SIGUSR2);
		sigprocmask(SIG_SETMASK, &blocked, NULL);
		read_line("SigIgn", ignored, sizeof(ignored));
	} else {
		snprintf(ignored, sizeof(ignored), "%s", argv[2]);
		check_line("SigBlk", 1ull << (SIGUSR2 - 1));
		check_line("SigIgn", strtoull(argv[2], NULL, 16));
		check_line("SigPnd", 0);
		check_line("ShdPnd", 0);
	}
	if (count == 0) {
		puts("done");
		return 5;
	}
	victim_check(!pthread_create(&t, NULL, burner, NULL), "pthread_create");
	victim_burn_ns(6000000);
	if (!is_first && count % 10 == 0)
		wait_for_timers();
	snprintf(next, sizeof(next), "%ld", count - 1);
	switch (count % 7) {
	case 0:
		execv(argv[0], args);
		break;
	case 1:
		execve(argv[0], args, environ);
		break;
	case 2:
		execvp(argv[0], args);
		break;
	case 3:
		execl(argv[0], argv[0], next, ignored, (char *)NULL);
		break;
	case 4:
		execlp(argv[0], argv[0], next, ignored, (char *)NULL);
		break;
	case 5:
		execle(argv[0], argv[0], next, ignored, (char *)NULL, environ);
		break;
	default:
		fexecve(open(argv[0], O_RDONLY | O_CLOEXEC), args, environ);
	}
	victim_check(0, "exec returned");
	return 1;
}
