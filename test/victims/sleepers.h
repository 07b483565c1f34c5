/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that sleep in every way, and know how their sleeps must end. Included by programs that are compiled in
 * different ways, because what a sleeper's stack looks like depends on it.
 *
 *   still THREADS SPINNERS   sleep for ever, each in a function named after its way: nap_poll below stay_poll, and so on;
 *                            spinners burn in spin_about. Prints "ready", and ends after the next line of input.
 *   count THREADS SPINNERS   sleep for 100 to 600 ms, over and over, and count every return that is not the time-out: EINTR, too
 *                            early, more than half a second too late. At the same time one thread a way sleeps for long
 *                            and is woken by signals that the program sends itself: each must end its sleep with EINTR.
 *                            Ends after the next line of input, and prints what it counted, and how often in all on
 *                            standard error. */
#ifndef SLEEPERS_H
#define SLEEPERS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#include "victim.h"

enum {
	FOREVER_MS = 10000000,
	LATE_MS = 500,
	WAYS_THAT_END = 8,
	WAIT_PRIVATE = 128
}; /* the last is futex(2)'s; musl-gcc has no header */

/* What a sleeper sleeps on; each has its own. */
struct bed {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	sem_t sem;
	int timer, word;
};

static int sleepers_epoll;

static struct timespec sleepers_in(clockid_t clock, long ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += ms % 1000 * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	return t;
}

static struct timespec sleepers_span(long ms)
{
	struct timespec t;

	t.tv_sec = ms / 1000;
	t.tv_nsec = ms % 1000 * 1000000;
	return t;
}

/* Each gives 0 when the time is over, EINTR when a signal came, something else when it is broken. */

VICTIM_NOINLINE static int nap_poll(struct bed *b, long ms)
{
	int rc = poll(NULL, 0, (int)ms);

	(void)b;
	return rc == 0 ? 0 : errno;
}

VICTIM_NOINLINE static int nap_nanosleep(struct bed *b, long ms)
{
	struct timespec t = sleepers_span(ms);
	int rc = nanosleep(&t, NULL);

	(void)b;
	return rc == 0 ? 0 : errno;
}

VICTIM_NOINLINE static int nap_futex(struct bed *b, long ms)
{
	struct timespec t = sleepers_span(ms);
	long rc = syscall(SYS_futex, &b->word, WAIT_PRIVATE, 0, &t, NULL, 0);

	return rc < 0 && errno == ETIMEDOUT ? 0 : rc == 0 ? ECANCELED : errno;
}

VICTIM_NOINLINE static int nap_epoll(struct bed *b, long ms)
{
	struct epoll_event event;
	int rc = epoll_wait(sleepers_epoll, &event, 1, (int)ms);

	(void)b;
	return rc == 0 ? 0 : errno;
}

VICTIM_NOINLINE static int nap_sem(struct bed *b, long ms)
{
	struct timespec t = sleepers_in(CLOCK_REALTIME, ms);
	int rc = sem_timedwait(&b->sem, &t);

	return rc < 0 && errno == ETIMEDOUT ? 0 : rc == 0 ? ECANCELED : errno;
}

VICTIM_NOINLINE static int nap_clock(struct bed *b, long ms)
{
	struct timespec t = sleepers_in(CLOCK_MONOTONIC, ms);

	(void)b;
	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

VICTIM_NOINLINE static int nap_select(struct bed *b, long ms)
{
	struct timespec t = sleepers_span(ms);
	/* A frame whose size only the running program knows. */
	volatile char *room = (volatile char *)__builtin_alloca((size_t)(ms % 97) * 16 + 16);
	int rc;

	room[0] = (char)(ms + (b != NULL));
	rc = pselect(0, NULL, NULL, NULL, &t, NULL);
	room[1] = room[0];
	return rc == 0 ? 0 : errno;
}

VICTIM_NOINLINE static int nap_big(struct bed *b, long ms)
{
	volatile char room[20000];
	int rc;

	room[ms % 20000] = (char)(b != NULL);
	rc = poll(NULL, 0, (int)ms);
	room[0] = room[ms % 20000];
	return rc == 0 ? 0 : errno;
}

/* From here on a signal does not end the sleep. */

VICTIM_NOINLINE static int nap_cond(struct bed *b, long ms)
{
	struct timespec t = sleepers_in(CLOCK_REALTIME, ms);
	int rc;

	pthread_mutex_lock(&b->mutex);
	rc = pthread_cond_timedwait(&b->cond, &b->mutex, &t);
	pthread_mutex_unlock(&b->mutex);
	return rc == ETIMEDOUT ? 0 : rc ? rc : ECANCELED;
}

VICTIM_NOINLINE static int nap_read(struct bed *b, long ms)
{
	struct itimerspec t;
	uint64_t n;
	ssize_t rc;

	memset(&t, 0, sizeof(t));
	t.it_value = sleepers_span(ms);
	timerfd_settime(b->timer, 0, &t, NULL);
	rc = read(b->timer, &n, sizeof(n));
	return rc == (ssize_t)sizeof(n) ? 0 : errno;
}

/* One frame more, of a kind that every way has. */
#define STAY(way)                                                                                                      \
	VICTIM_NOINLINE static int stay_##way(struct bed *b, long ms)                                                  \
	{                                                                                                              \
		volatile long extra = ms;                                                                              \
		int rc = nap_##way(b, extra);                                                                          \
                                                                                                                       \
		VICTIM_NO_TAIL_CALL();                                                                                 \
		return rc;                                                                                             \
	}
STAY(poll)
STAY(nanosleep)
STAY(futex)
STAY(epoll)
STAY(sem)
STAY(clock)
STAY(select)
STAY(big)
STAY(cond)
STAY(read)

static const struct {
	int (*stay)(struct bed *b, long ms);
	const char *name;
} ways[] = {
	{stay_poll, "poll"}, {stay_nanosleep, "nanosleep"}, {stay_futex, "futex"},   {stay_epoll, "epoll"},
	{stay_sem, "sem"},   {stay_clock, "clock"},	    {stay_select, "select"}, {stay_big, "big"},
	{stay_cond, "cond"}, {stay_read, "read"},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

struct sleeper {
	struct bed bed;
	int way;
	unsigned random;
	long calls, interrupted, early, late, broken, worst_ms;
	long woken, kills; /* of those that are woken by signals */
	pthread_t thread;
};

static volatile int sleepers_over;

static void sleepers_init(struct sleeper *s, int nth)
{
	memset(s, 0, sizeof(*s));
	pthread_mutex_init(&s->bed.mutex, NULL);
	pthread_cond_init(&s->bed.cond, NULL);
	sem_init(&s->bed.sem, 0, 0);
	s->way = nth % WAYS;
	s->bed.timer = ways[s->way].stay == stay_read ? timerfd_create(CLOCK_MONOTONIC, 0) : -1;
	s->random = (unsigned)nth * 2654435761u + 1;
}

static void *sleepers_still(void *p)
{
	struct sleeper *s = (struct sleeper *)p;

	for (;;)
		ways[s->way].stay(&s->bed, FOREVER_MS);
	return NULL;
}

static void sleepers_once(struct sleeper *s, long ms)
{
	uint64_t begin = victim_clock_ns(CLOCK_MONOTONIC);
	int rc = ways[s->way].stay(&s->bed, ms);
	long took = (long)((victim_clock_ns(CLOCK_MONOTONIC) - begin) / 1000000);

	s->calls++;
	s->interrupted += rc == EINTR;
	s->broken += rc != 0 && rc != EINTR;
	s->early += rc == 0 && took < ms - 2; /* the real-time clock may be slewed */
	s->late += rc == 0 && took > ms + LATE_MS;
	if (took - ms > s->worst_ms)
		s->worst_ms = took - ms;
}

static void *sleepers_count(void *p)
{
	struct sleeper *s = (struct sleeper *)p;

	while (!sleepers_over) {
		s->random = s->random * 1103515245u + 12345;
		sleepers_once(s, 100 + (long)(s->random >> 16) % 500);
	}
	return NULL;
}

static void sleepers_handler(int sig)
{
	(void)sig;
}

static void *sleepers_woken(void *p)
{
	struct sleeper *s = (struct sleeper *)p;

	while (!sleepers_over)
		if (ways[s->way].stay(&s->bed, FOREVER_MS) == EINTR)
			__atomic_add_fetch(&s->woken, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

VICTIM_NOINLINE static void spin_about(void)
{
	victim_spin(20000);
}

static void *sleepers_spin(void *p)
{
	while (!sleepers_over)
		spin_about();
	return p;
}

/* Until it sleeps again: how long a signal must wait to find it asleep. */
static void sleepers_wake(struct sleeper *s)
{
	long before = __atomic_load_n(&s->woken, __ATOMIC_SEQ_CST);

	pthread_kill(s->thread, SIGUSR1);
	s->kills++;
	for (int i = 0; i < 2000 && __atomic_load_n(&s->woken, __ATOMIC_SEQ_CST) == before; i++)
		victim_sleep_ms(1);
	victim_sleep_ms(5);
}

static struct sleeper *woken;

static void *sleepers_waker(void *p)
{
	victim_sleep_ms(200);
	while (!sleepers_over) {
		for (int i = 0; i < WAYS_THAT_END; i++)
			sleepers_wake(&woken[i]);
		victim_sleep_ms(50);
	}
	return p;
}

static void sleepers_start(pthread_t *t, void *(*fn)(void *), void *arg, const char *name)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 << 10);
	victim_check(pthread_create(t, &attr, fn, arg) == 0, "a thread could be created");
	pthread_setname_np(*t, name);
	pthread_attr_destroy(&attr);
}

static int sleepers_count_main(struct sleeper *s, long n)
{
	long calls = 0, interrupted = 0, early = 0, late = 0, broken = 0, worst = 0, kills = 0, ended = 0;
	struct sigaction sa;
	pthread_t waker;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = sleepers_handler;
	sigaction(SIGUSR1, &sa, NULL);
	woken = (struct sleeper *)calloc(WAYS_THAT_END, sizeof(*woken));
	for (int i = 0; i < WAYS_THAT_END; i++) {
		sleepers_init(&woken[i], i);
		sleepers_start(&woken[i].thread, sleepers_woken, &woken[i], "woken");
	}
	sleepers_start(&waker, sleepers_waker, NULL, "waker");
	for (long i = 0; i < n; i++)
		sleepers_start(&s[i].thread, sleepers_count, &s[i], ways[s[i].way].name);
	printf("ready\n");
	fflush(stdout);
	victim_gate();
	sleepers_over = 1;
	pthread_join(waker, NULL);
	for (long i = 0; i < n; i++) {
		pthread_join(s[i].thread, NULL);
		calls += s[i].calls;
		interrupted += s[i].interrupted;
		early += s[i].early;
		late += s[i].late;
		broken += s[i].broken;
		worst = s[i].worst_ms > worst ? s[i].worst_ms : worst;
	}
	for (int i = 0; i < WAYS_THAT_END; i++) {
		kills += woken[i].kills;
		ended += woken[i].woken;
	}
	printf("interrupted %ld, early %ld, late %ld, broken %ld; by own signals %ld too few\n", interrupted, early,
	       late, broken, kills - ended);
	fprintf(stderr, "pprofagent: %ld sleeps, %ld signals; at most %ld ms late\n", calls, kills, worst);
	return 0;
}

static int sleepers_main(int argc, char **argv)
{
	int is_count = argc > 1 && strcmp(argv[1], "count") == 0;
	long n = victim_arg(argc, argv, 2, 20), spinners = victim_arg(argc, argv, 3, 0);
	struct sleeper *s = (struct sleeper *)calloc((size_t)n + 1, sizeof(*s));
	pthread_t t;

	sleepers_epoll = epoll_create1(0);
	for (long i = 0; i < n; i++)
		sleepers_init(&s[i], (int)i);
	for (long i = 0; i < spinners; i++)
		sleepers_start(&t, sleepers_spin, NULL, "spinner");
	if (is_count)
		return sleepers_count_main(s, n);
	for (long i = 0; i < n; i++)
		sleepers_start(&s[i].thread, sleepers_still, &s[i], ways[s[i].way].name);
	printf("ready\n");
	fflush(stdout);
	victim_gate();
	fflush(NULL);
	_exit(0);
}

#endif
