/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits of every kind, each measured by whoever waits and printed when all is done:
 *
 *	wait KIND TID BEGIN END WAKER	(CLOCK_MONOTONIC nanoseconds; WAKER 0: nobody)
 *	latency TID NS			(from a post to the return of the wait for it)
 *
 * KIND is what `go tool trace` should make of it: sync, network, sleep, syscall. Prints "ready" before the gate, waits for
 * a second line at the end. Without an argument of its own; the directory for the file is TMPDIR or /tmp. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "victim.h"

enum { ROUNDS = 20, HELD_US = 15000, PAUSE_US = 5000, FILE_BYTES = 8 << 20, LINES = 65536 };

static char lines[LINES];
static size_t nlines;
static pthread_mutex_t lines_mutex = PTHREAD_MUTEX_INITIALIZER;

static int tid(void)
{
	return (int)syscall(SYS_gettid);
}

static uint64_t now(void)
{
	return victim_clock_ns(CLOCK_MONOTONIC);
}

static void tell(const char *kind, uint64_t begin, uint64_t end, int waker)
{
	pthread_mutex_lock(&lines_mutex);
	nlines += (size_t)snprintf(lines + nlines, LINES - nlines, "wait %s %d %llu %llu %d\n", kind, tid(),
				   (unsigned long long)begin, (unsigned long long)end, waker);
	pthread_mutex_unlock(&lines_mutex);
}

/* ---- a mutex: one holds it, the other comes meanwhile ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t mutex_held;
static atomic_int mutex_holder;

static VICTIM_NOINLINE void release_mutex(void)
{
	pthread_mutex_unlock(&mutex);
	VICTIM_NO_TAIL_CALL();
}

static void *hold_mutex(void *unused)
{
	mutex_holder = tid();
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&mutex);
		sem_post(&mutex_held);
		usleep(HELD_US);
		release_mutex();
		usleep(PAUSE_US);
	}
	return unused;
}

static void *want_mutex(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begin, end;

		while (sem_trywait(&mutex_held))
			usleep(500);
		begin = now();
		pthread_mutex_lock(&mutex);
		end = now();
		pthread_mutex_unlock(&mutex);
		tell("sync", begin, end, mutex_holder);
	}
	return unused;
}

/* ---- a condition ---- */

static pthread_mutex_t condition_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int ntrue;
static atomic_int signaller;

static VICTIM_NOINLINE void signal_condition(void)
{
	pthread_cond_signal(&condition);
	VICTIM_NO_TAIL_CALL();
}

static void *make_true(void *unused)
{
	signaller = tid();
	for (int i = 0; i < ROUNDS; i++) {
		usleep(HELD_US);
		pthread_mutex_lock(&condition_mutex);
		ntrue++;
		signal_condition();
		pthread_mutex_unlock(&condition_mutex);
	}
	return unused;
}

static void *want_true(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begin = 0, end = 0;

		pthread_mutex_lock(&condition_mutex);
		while (!ntrue) {
			begin = now();
			pthread_cond_wait(&condition, &condition_mutex);
			end = now();
		}
		ntrue--;
		pthread_mutex_unlock(&condition_mutex);
		if (end)
			tell("sync", begin, end, signaller);
	}
	return unused;
}

/* ---- a semaphore, and how long the wake-up takes ---- */

static sem_t semaphore;
static atomic_int poster;
static _Atomic uint64_t posted;

static VICTIM_NOINLINE void post_semaphore(void)
{
	posted = now();
	sem_post(&semaphore);
	VICTIM_NO_TAIL_CALL();
}

static void *post(void *unused)
{
	poster = tid();
	for (int i = 0; i < ROUNDS; i++) {
		usleep(HELD_US);
		post_semaphore();
	}
	return unused;
}

static void *want_post(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begin = now(), end;

		sem_wait(&semaphore);
		end = now();
		tell("sync", begin, end, poster);
		pthread_mutex_lock(&lines_mutex);
		nlines += (size_t)snprintf(lines + nlines, LINES - nlines, "latency %d %llu\n", tid(),
					   (unsigned long long)(end - posted));
		pthread_mutex_unlock(&lines_mutex);
	}
	return unused;
}

/* ---- a barrier: one is always late ---- */

static pthread_barrier_t barrier;
static atomic_int latecomer;

static VICTIM_NOINLINE void come_late(void)
{
	pthread_barrier_wait(&barrier);
	VICTIM_NO_TAIL_CALL();
}

static void *be_late(void *unused)
{
	latecomer = tid();
	for (int i = 0; i < ROUNDS; i++) {
		usleep(HELD_US);
		come_late();
	}
	return unused;
}

static void *be_early(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begin = now();

		pthread_barrier_wait(&barrier);
		tell("sync", begin, now(), latecomer);
	}
	return unused;
}

/* ---- threads: created, named by the kernel, joined ---- */

static void *sleep_a_while(void *id)
{
	*(atomic_int *)id = tid();
	usleep(HELD_US);
	return id;
}

static void *join_threads(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		atomic_int id = 0;
		uint64_t begin;
		pthread_t t;

		pthread_create(&t, NULL, sleep_a_while, &id);
		while (!id)
			usleep(200);
		begin = now();
		pthread_join(t, NULL);
		tell("sync", begin, now(), id);
	}
	return unused;
}

/* ---- sockets, sleep, files ---- */

static int pair[2], other_pair[2];

static void *say(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		usleep(HELD_US);
		if (write(pair[1], "x", 1) != 1 || send(other_pair[1], "x", 1, 0) != 1)
			abort();
	}
	return unused;
}

static void *hear(void *unused)
{
	char c;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begin = now();

		if (read(pair[0], &c, 1) != 1)
			abort();
		tell("network", begin, now(), 0);
	}
	return unused;
}

static void *watch(void *unused)
{
	char c;

	for (int i = 0; i < ROUNDS; i++) {
		struct pollfd p = {other_pair[0], POLLIN, 0};
		uint64_t begin = now();

		poll(&p, 1, -1);
		tell("network", begin, now(), 0);
		if (recv(other_pair[0], &c, 1, 0) != 1)
			abort();
	}
	return unused;
}

static void *doze(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct timespec t = {0, HELD_US * 1000};
		uint64_t begin = now();

		nanosleep(&t, NULL);
		tell("sleep", begin, now(), 0);
	}
	return unused;
}

static void *store(void *bytes)
{
	const char *dir = getenv("TMPDIR");
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/tracewaits.XXXXXX", dir ? dir : "/tmp");
	fd = mkstemp(path);
	if (fd < 0)
		abort();
	unlink(path);
	for (int i = 0; i < ROUNDS / 2; i++) {
		uint64_t begin = now();

		if (pwrite(fd, bytes, FILE_BYTES, 0) != FILE_BYTES)
			abort();
		tell("syscall", begin, now(), 0);
		usleep(PAUSE_US);
	}
	close(fd);
	return bytes;
}

int main(void)
{
	static void *(*const all[])(void *) = {hold_mutex, want_mutex, make_true, want_true,	post,
					       want_post,  be_late,    be_early,  join_threads, say,
					       hear,	   watch,      doze,	  store};
	enum { N = sizeof(all) / sizeof(*all) };
	char *bytes = calloc(1, FILE_BYTES);
	pthread_t t[N];

	memset(bytes, 1, FILE_BYTES);
	sem_init(&semaphore, 0, 0);
	sem_init(&mutex_held, 0, 0);
	pthread_barrier_init(&barrier, NULL, 2);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || socketpair(AF_UNIX, SOCK_STREAM, 0, other_pair))
		return 1;
	printf("ready\n");
	fflush(stdout);
	victim_gate();
	for (int i = 0; i < N; i++)
		pthread_create(&t[i], NULL, all[i], bytes);
	for (int i = 0; i < N; i++)
		pthread_join(t[i], NULL);
	fwrite(lines, 1, nlines, stdout);
	printf("done\n");
	fflush(stdout);
	victim_gate();
	return 0;
}
