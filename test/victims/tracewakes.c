/* SPDX-License-Identifier: Apache-2.0
 *
 * Wake-ups of every kind, one after the other, ROUNDS each: a thread goes to sleep, another one wakes it a moment later.
 * Each is printed when all is done:
 *
 *	wake KIND TID AT END GENUINE-AT GENUINE-END	(CLOCK_MONOTONIC nanoseconds; TID: who was woken)
 *
 * AT is read by the waker just before it calls the function that wakes, END by the woken thread just after its own
 * function returned; GENUINE- are those of genuine.c, where it is preloaded. The waker's function is wake_KIND. Prints "ready" before the gate, waits for a second line at the
 * end.
 *
 *	birth TID FIRST GENUINE-END
 *
 * tracewakes storm: two threads hand semaphores to and fro, as fast as they can, until the second gate.
 *
 * Of threads that are created, too: FIRST is when the thread looked at the clock first, GENUINE-END when libc's
 * pthread_create had returned. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "victim.h"

enum { ROUNDS = 200, ASLEEP_US = 250, KINDS = 5, BIRTHS = 100 };

static const char *const names[KINDS] = {"post", "signal", "unlock", "barrier", "futex"};
static struct wake {
	uint64_t at, end, genuine_at, genuine_end;
} wakes[KINDS][ROUNDS];

struct genuine {
	uint64_t at, end;
};
struct genuine *genuine_clock(void) __attribute__((weak));

static atomic_int asleep, awake; /* rounds begun and ended by the sleeper */
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, held = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static atomic_int word, turn;

static uint64_t now(void)
{
	return victim_clock_ns(CLOCK_MONOTONIC);
}

static void woke(struct wake *w)
{
	if (genuine_clock)
		w->genuine_at = genuine_clock()->at;
}

static void slept(struct wake *w)
{
	w->end = now();
	if (genuine_clock)
		w->genuine_end = genuine_clock()->end;
}

/* ---- one wake-up: the waker's function and the sleeper's ---- */

static VICTIM_NOINLINE void wake_post(struct wake *w)
{
	w->at = now();
	sem_post(&semaphore);
	woke(w);
	VICTIM_NO_TAIL_CALL();
}

static VICTIM_NOINLINE void sleep_post(struct wake *w)
{
	sem_wait(&semaphore);
	slept(w);
	VICTIM_NO_TAIL_CALL();
}

static VICTIM_NOINLINE void wake_signal(struct wake *w)
{
	pthread_mutex_lock(&mutex);
	word = 1;
	pthread_mutex_unlock(&mutex);
	/* Not under the mutex, for which the woken thread would wait next. */
	w->at = now();
	pthread_cond_signal(&condition);
	woke(w);
	VICTIM_NO_TAIL_CALL();
}

static VICTIM_NOINLINE void sleep_signal(struct wake *w)
{
	pthread_mutex_lock(&mutex);
	while (!word) {
		pthread_cond_wait(&condition, &mutex);
		slept(w);
	}
	word = 0;
	pthread_mutex_unlock(&mutex);
}

static VICTIM_NOINLINE void wake_unlock(struct wake *w)
{
	w->at = now();
	pthread_mutex_unlock(&held);
	woke(w);
	VICTIM_NO_TAIL_CALL();
}

static VICTIM_NOINLINE void sleep_unlock(struct wake *w)
{
	pthread_mutex_lock(&held);
	slept(w);
	pthread_mutex_unlock(&held);
}

static VICTIM_NOINLINE void wake_barrier(struct wake *w)
{
	w->at = now();
	pthread_barrier_wait(&barrier);
	woke(w);
	VICTIM_NO_TAIL_CALL();
}

static VICTIM_NOINLINE void sleep_barrier(struct wake *w)
{
	pthread_barrier_wait(&barrier);
	slept(w);
	VICTIM_NO_TAIL_CALL();
}

static VICTIM_NOINLINE void wake_futex(struct wake *w)
{
	word = 1;
	w->at = now();
	syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	woke(w);
	VICTIM_NO_TAIL_CALL();
}

static VICTIM_NOINLINE void sleep_futex(struct wake *w)
{
	syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	slept(w);
	word = 0;
}

static void (*const wakers[KINDS])(struct wake *) = {wake_post, wake_signal, wake_unlock, wake_barrier, wake_futex};
static void (*const sleepers[KINDS])(struct wake *) = {sleep_post, sleep_signal, sleep_unlock, sleep_barrier,
						       sleep_futex};

/* ---- rounds ---- */

static void rest(void)
{
	struct timespec t = {0, ASLEEP_US * 1000};

	nanosleep(&t, NULL);
}

static void await(atomic_int *what, int n)
{
	struct timespec t = {0, 20000};

	while (*what < n)
		nanosleep(&t, NULL);
}

static struct birth {
	int tid;
	uint64_t first, genuine_end;
} births[BIRTHS];

static void *be_born(void *birth)
{
	struct birth *b = birth;

	b->first = now();
	b->tid = (int)syscall(SYS_gettid);
	return b;
}

static void create_threads(void)
{
	pthread_t t;

	for (int i = 0; i < BIRTHS; i++) {
		pthread_create(&t, NULL, be_born, &births[i]);
		if (genuine_clock)
			births[i].genuine_end = genuine_clock()->end;
		pthread_join(t, NULL);
	}
}

static void *sleep_always(void *tid)
{
	*(int *)tid = (int)syscall(SYS_gettid);
	for (int i = 0; i < KINDS * ROUNDS; i++) {
		await(&turn, i + 1);
		asleep = i + 1;
		sleepers[i / ROUNDS](&wakes[i / ROUNDS][i % ROUNDS]);
		awake = i + 1;
	}
	return tid;
}

static sem_t to, fro;

static void *return_serve(void *unused)
{
	for (;;) {
		sem_wait(&to);
		sem_post(&fro);
	}
	return unused;
}

static void *serve(void *unused)
{
	for (;;) {
		sem_post(&to);
		sem_wait(&fro);
	}
	return unused;
}

static int storm(void)
{
	pthread_t t[2];

	sem_init(&to, 0, 0);
	sem_init(&fro, 0, 0);
	pthread_create(&t[0], NULL, serve, NULL);
	pthread_create(&t[1], NULL, return_serve, NULL);
	printf("storm\n");
	fflush(stdout);
	victim_gate();
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t t;
	int tid = 0;

	(void)argv;

	sem_init(&semaphore, 0, 0);
	pthread_barrier_init(&barrier, NULL, 2);
	printf("ready\n");
	fflush(stdout);
	victim_gate();
	if (argc > 1)
		return storm();
	pthread_create(&t, NULL, sleep_always, &tid);
	for (int i = 0; i < KINDS * ROUNDS; i++) {
		int locks = wakers[i / ROUNDS] == wake_unlock;

		if (locks)
			pthread_mutex_lock(&held);
		turn = i + 1;
		await(&asleep, i + 1);
		rest();
		wakers[i / ROUNDS](&wakes[i / ROUNDS][i % ROUNDS]);
		rest();
		/* On a busy machine it may not have come to the mutex yet, which is then not to be taken again. */
		await(&awake, i + 1);
	}
	pthread_join(t, NULL);
	create_threads();
	for (int i = 0; i < BIRTHS; i++)
		printf("birth %d %llu %llu\n", births[i].tid, (unsigned long long)births[i].first,
		       (unsigned long long)births[i].genuine_end);
	for (int k = 0; k < KINDS; k++)
		for (int i = 0; i < ROUNDS; i++)
			printf("wake %s %d %llu %llu %llu %llu\n", names[k], tid, (unsigned long long)wakes[k][i].at,
			       (unsigned long long)wakes[k][i].end, (unsigned long long)wakes[k][i].genuine_at,
			       (unsigned long long)wakes[k][i].genuine_end);
	printf("done\n");
	fflush(stdout);
	victim_gate();
	return 0;
}
