/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads whose numbers the kernel gives twice, and one that is in a system call all the time.
 *
 * Prints "ready" when thread "locker" waits in wait_for_file for a lock on a file (flock). After the gate main creates and
 * joins ROUNDS threads, one after the other, in be_again, and asks the kernel each time for the number of the one before
 * (/proc/sys/kernel/ns_last_pid, which takes privilege; nobody else may have taken it meanwhile). Prints
 *
 *	life TID END	(in the order of birth; CLOCK_MONOTONIC nanoseconds, after the join)
 *	done		("refused" first, if the kernel does not let us)
 *
 * The second gate ends it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/syscall.h>

#include "victim.h"

enum { ROUNDS = 20, LIFE_US = 3000, PAUSE_US = 1000 };

static atomic_int locker_tid;
static char path[4096];

static VICTIM_NOINLINE void wait_for_file(int fd)
{
	flock(fd, LOCK_EX);
	VICTIM_NO_TAIL_CALL();
}

static void *locker(void *unused)
{
	int fd = open(path, O_RDWR);

	locker_tid = (int)syscall(SYS_gettid);
	wait_for_file(fd);
	return unused;
}

static void *be_again(void *tid)
{
	*(int *)tid = (int)syscall(SYS_gettid);
	usleep(LIFE_US);
	return tid;
}

static int ask_for(int tid)
{
	char text[20];
	int n = snprintf(text, sizeof(text), "%d", tid - 1), fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
	int is_set = fd >= 0 && write(fd, text, (size_t)n) == n;

	if (fd >= 0)
		close(fd);
	return is_set;
}

int main(void)
{
	const char *dir = getenv("TMPDIR");
	pthread_t t;
	int fd, tids[ROUNDS] = {0}, is_refused = 0;
	uint64_t ends[ROUNDS];

	snprintf(path, sizeof(path), "%s/tracereuse.XXXXXX", dir ? dir : "/tmp");
	fd = mkstemp(path);
	if (fd < 0 || flock(fd, LOCK_EX))
		return 1;
	pthread_create(&t, NULL, locker, NULL);
	while (!locker_tid)
		usleep(PAUSE_US);
	usleep(20 * PAUSE_US);
	unlink(path);
	printf("ready\n");
	fflush(stdout);
	victim_gate();
	for (int i = 0; i < ROUNDS; i++) {
		is_refused |= i && !ask_for(tids[i - 1]);
		pthread_create(&t, NULL, be_again, &tids[i]);
		pthread_join(t, NULL);
		ends[i] = victim_clock_ns(CLOCK_MONOTONIC);
		usleep(PAUSE_US);
	}
	if (is_refused)
		printf("refused\n");
	for (int i = 0; i < ROUNDS; i++)
		printf("life %d %llu\n", tids[i], (unsigned long long)ends[i]);
	printf("done\n");
	fflush(stdout);
	victim_gate();
	return 0;
}
