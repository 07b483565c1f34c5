/* SPDX-License-Identifier: Apache-2.0
 *
 * lockholders MODE ROUNDS: two threads hold a lock in turn, hold_long for 2 ms and hold_short for 20 us; each time four
 * others ask for it meanwhile, get it one after the other and release it at once. MODE:
 *
 *   mutex adaptive recursive pi c11   a mutex of that kind; recursive is locked and unlocked once more by its holder
 *   spin                              a spin lock
 *   writer                            a rwlock, written by the holders, read by the others
 *   readers                           a rwlock, read by the holders, written by the others
 *   condition                         the long holder gives the mutex away in a condition wait instead of unlocking it
 *
 * Every wait is timed and every release logged, and at the end the program says the truth: for each role how long it
 * waited and how long others waited because of it, each wait being cut at the releases in it. Output: lines
 * "waited|caused ROLE NANOSECONDS COUNT", then "done"; then it waits at its gate. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <threads.h>

#include "victim.h"

enum { WAITERS = 4, ROLES = 2 + WAITERS, ROUNDS_MAX = 4000, CONTENDED_NS = 2000 };
static const char *const names[ROLES] = {"hold_long", "hold_short", "wait_a", "wait_b", "wait_c", "wait_d"};

struct event {
	uint64_t from, to; /* of a wait; of a release only to */
	int role;
};

static struct {
	void (*take)(void), (*give)(int role);		     /* of the holders */
	void (*waiter_take)(void), (*waiter_give)(int role); /* of the others */
	long rounds;
	pthread_barrier_t ready, over;
	struct event waits[WAITERS * ROUNDS_MAX], releases[(2 + WAITERS) * ROUNDS_MAX];
	_Atomic int nwaits, nreleases;
} job;

static struct {
	pthread_mutex_t mutex;
	pthread_rwlock_t rwlock;
	pthread_spinlock_t spin;
	mtx_t mtx;
	pthread_cond_t never;
} lock;

static uint64_t now(void)
{
	return victim_clock_ns(CLOCK_MONOTONIC);
}

static void log_release(int role)
{
	job.releases[job.nreleases++] = (struct event){0, now(), role};
}

/* ---- the ways to take and to give ---- */

#define TAKE(name, call)                                                                                               \
	static void name(void)                                                                                         \
	{                                                                                                              \
		call;                                                                                                  \
		VICTIM_NO_TAIL_CALL();                                                                                 \
	}
TAKE(mutex_lock, pthread_mutex_lock(&lock.mutex))
TAKE(spin_lock, pthread_spin_lock(&lock.spin))
TAKE(read_lock, pthread_rwlock_rdlock(&lock.rwlock))
TAKE(write_lock, pthread_rwlock_wrlock(&lock.rwlock))
TAKE(c11_lock, mtx_lock(&lock.mtx))

#define GIVE(name, call)                                                                                               \
	static void name(int role)                                                                                     \
	{                                                                                                              \
		log_release(role);                                                                                     \
		call;                                                                                                  \
		VICTIM_NO_TAIL_CALL();                                                                                 \
	}
GIVE(mutex_unlock, pthread_mutex_unlock(&lock.mutex))
GIVE(spin_unlock, pthread_spin_unlock(&lock.spin))
GIVE(rwlock_unlock, pthread_rwlock_unlock(&lock.rwlock))
GIVE(c11_unlock, mtx_unlock(&lock.mtx))

static void nested_lock(void)
{
	pthread_mutex_lock(&lock.mutex);
	pthread_mutex_lock(&lock.mutex);
	VICTIM_NO_TAIL_CALL();
}

static void nested_unlock(int role)
{
	pthread_mutex_unlock(&lock.mutex);
	log_release(role);
	pthread_mutex_unlock(&lock.mutex);
	VICTIM_NO_TAIL_CALL();
}

/* Releases the mutex, comes back with it a moment later, and releases it for good. */
static void condition_unlock(int role)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	log_release(role);
	pthread_cond_timedwait(&lock.never, &lock.mutex, &t);
	log_release(role);
	pthread_mutex_unlock(&lock.mutex);
	VICTIM_NO_TAIL_CALL();
}

/* ---- roles ---- */

static void pass(uint64_t ns)
{
	uint64_t end = now() + ns;

	if (ns >= 1000000)
		victim_sleep_ms((unsigned)(ns / 1000000));
	while (now() < end)
		;
}

#define HOLD(name, role, ns)                                                                                           \
	static VICTIM_NOINLINE void name(void)                                                                         \
	{                                                                                                              \
		job.take();                                                                                            \
		pthread_barrier_wait(&job.ready);                                                                      \
		pass(ns);                                                                                              \
		job.give(role);                                                                                        \
		VICTIM_NO_TAIL_CALL();                                                                                 \
	}
HOLD(hold_long, 0, 2000000)
HOLD(hold_short, 1, 20000)

static void logged_wait(int role, void (*take)(void), void (*give)(int))
{
	uint64_t from = now();

	take();
	job.waits[job.nwaits++] = (struct event){from, now(), role};
	give(role);
}

#define WAIT(name, role)                                                                                               \
	static VICTIM_NOINLINE void name(void)                                                                         \
	{                                                                                                              \
		logged_wait(role, job.waiter_take, job.waiter_give);                                                   \
		VICTIM_NO_TAIL_CALL();                                                                                 \
	}
WAIT(wait_a, 2)
WAIT(wait_b, 3)
WAIT(wait_c, 4)
WAIT(wait_d, 5)

static void *holder(void *p)
{
	bool is_long = p != NULL;

	for (long i = 0; i < job.rounds; i++) {
		if ((i & 1) == is_long) {
			if (is_long)
				hold_long();
			else
				hold_short();
		}
		pthread_barrier_wait(&job.over);
	}
	return NULL;
}

static void *waiter(void *p)
{
	static void (*const fns[])(void) = {wait_a, wait_b, wait_c, wait_d};

	for (long i = 0; i < job.rounds; i++) {
		pthread_barrier_wait(&job.ready);
		fns[(uintptr_t)p]();
		pthread_barrier_wait(&job.over);
	}
	return NULL;
}

/* ---- the truth ---- */

static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	return x->to < y->to ? -1 : x->to > y->to;
}

static void tell(void)
{
	uint64_t waited[ROLES] = {0}, caused[ROLES + 1] = {0};
	long nwaited[ROLES] = {0}, ncaused[ROLES + 1] = {0};

	qsort(job.releases, (size_t)job.nreleases, sizeof(job.releases[0]), by_time);
	for (int i = 0; i < job.nwaits; i++) {
		const struct event *w = &job.waits[i];
		uint64_t at = w->from;
		int last = ROLES;

		waited[w->role] += w->to - w->from;
		if (w->to - w->from < CONTENDED_NS)
			continue;
		nwaited[w->role]++;
		for (int k = 0; k < job.nreleases && job.releases[k].to < w->to; k++)
			if (job.releases[k].to > at) {
				last = job.releases[k].role;
				caused[last] += job.releases[k].to - at;
				at = job.releases[k].to;
			}
		caused[last] += w->to - at;
		ncaused[last]++;
	}
	for (int i = 0; i < ROLES; i++) {
		printf("waited %s %llu %ld\n", names[i], (unsigned long long)waited[i], nwaited[i]);
		printf("caused %s %llu %ld\n", names[i], (unsigned long long)caused[i], ncaused[i]);
	}
	printf("done\n");
	fflush(stdout);
}

/* ---- modes ---- */

static void make_mutex(int type, int protocol)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, type);
	pthread_mutexattr_setprotocol(&attr, protocol);
	pthread_mutex_init(&lock.mutex, &attr);
}

static bool choose(const char *mode)
{
	job.take = job.waiter_take = mutex_lock;
	job.give = job.waiter_give = mutex_unlock;
	make_mutex(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE);
	if (strcmp(mode, "mutex") == 0)
		return true;
	if (strcmp(mode, "adaptive") == 0) {
		make_mutex(PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_PRIO_NONE);
	} else if (strcmp(mode, "pi") == 0) {
		make_mutex(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT);
	} else if (strcmp(mode, "recursive") == 0) {
		make_mutex(PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE);
		job.take = nested_lock;
		job.give = nested_unlock;
	} else if (strcmp(mode, "condition") == 0) {
		job.give = condition_unlock;
	} else if (strcmp(mode, "spin") == 0) {
		job.take = job.waiter_take = spin_lock;
		job.give = job.waiter_give = spin_unlock;
	} else if (strcmp(mode, "c11") == 0) {
		job.take = job.waiter_take = c11_lock;
		job.give = job.waiter_give = c11_unlock;
	} else if (strcmp(mode, "writer") == 0 || strcmp(mode, "readers") == 0) {
		bool writes = *mode == 'w';

		job.take = writes ? write_lock : read_lock;
		job.waiter_take = writes ? read_lock : write_lock;
		job.give = job.waiter_give = rwlock_unlock;
	} else {
		return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	pthread_t threads[ROLES];

	job.rounds = victim_arg(argc, argv, 2, 400);
	if (argc < 2 || job.rounds > ROUNDS_MAX || !choose(argv[1]))
		return 2;
	pthread_rwlock_init(&lock.rwlock, NULL);
	pthread_spin_init(&lock.spin, PTHREAD_PROCESS_PRIVATE);
	mtx_init(&lock.mtx, mtx_plain);
	pthread_cond_init(&lock.never, NULL);
	pthread_barrier_init(&job.ready, NULL, 1 + WAITERS);
	pthread_barrier_init(&job.over, NULL, 2 + WAITERS);
	victim_gate();
	for (uintptr_t i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, holder, (void *)(1 - i));
	for (uintptr_t i = 0; i < WAITERS; i++)
		pthread_create(&threads[2 + i], NULL, waiter, (void *)i);
	for (int i = 0; i < ROLES; i++)
		pthread_join(threads[i], NULL);
	tell();
	victim_gate();
	return 0;
}
