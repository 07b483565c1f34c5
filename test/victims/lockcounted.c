/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutexes and conditions by whether the call waits, whatever comes of it: each way to wait is a function of its own, and
 * each call a line with its result, so that what was recorded for a function can be compared with its lines. */
#include "lockkinds.h"

static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static bool told;

static void make(void)
{
	victim_check(!make_mutex(), "pthread_mutex_init");
}

enum way { LOCK, TRY, TIMED, BAD_TIME };

static inline __attribute__((always_inline)) int take(enum way way)
{
	struct timespec soon = from_now(CLOCK_REALTIME, SHORT_MS), bad = {1, 1000000000};

	switch (way) {
	case LOCK:
		return pthread_mutex_lock(&mutex);
	case TRY:
		return pthread_mutex_trylock(&mutex);
	case BAD_TIME:
		return pthread_mutex_timedlock(&mutex, &bad);
	default:
		return pthread_mutex_timedlock(&mutex, &soon);
	}
}

/* No tail call in it, and no two of them are one. */
#define COUNTED(name)                                                                                                  \
	static __attribute__((noinline)) int name(enum way way)                                                        \
	{                                                                                                              \
		int rc = take(way);                                                                                    \
		__asm__ volatile("/* " #name " */" ::: "memory");                                                      \
		return rc;                                                                                             \
	}

COUNTED(waits_for_the_dying)
COUNTED(waits_beyond_repair)
COUNTED(waits_in_vain)
COUNTED(never_waits)

/* Until the main thread sleeps in the kernel for a lock or a condition. */
static void until_main_sleeps(void *unused)
{
	(void)unused;
	victim_until_in(getpid(), SYS_futex);
}

static void lock_of_the_dying(void)
{
	struct helper dies = {.first = lock_it, .then = until_main_sleeps, .linger_ms = 1};

	make();
	helper_start(&dies);
	SAY(LINE("%s waits for the dying", kind->name), waits_for_the_dying(LOCK));
	helper_end(&dies);
}

static void unlock_when_main_sleeps(void *unused)
{
	until_main_sleeps(unused);
	pthread_mutex_unlock(&mutex);
}

/* Who holds it has it from the dead, and lets it go as it is while somebody waits. */
static void lock_of_the_careless(void)
{
	struct helper dies = {.first = lock_it};
	struct helper inherits = {.first = lock_it, .then = unlock_when_main_sleeps, .linger_ms = 1};

	make();
	helper_start(&dies);
	helper_end(&dies);
	helper_start(&inherits);
	SAY(LINE("%s waits beyond repair", kind->name), waits_beyond_repair(LOCK));
	helper_end(&inherits);
}

static void lock_that_stays(void)
{
	struct helper stays = {.first = lock_it, .then = unlock_it};

	make();
	helper_start(&stays);
	SAY(LINE("%s waits in vain", kind->name), waits_in_vain(TIMED));
	helper_end(&stays);
}

static void lock_without_wait(void)
{
	struct helper stays = {.first = lock_it, .then = unlock_it}, dies = {.first = lock_it};

	make();
	pthread_mutex_lock(&mutex);
	SAY(LINE("%s never waits: for itself", kind->name), never_waits(LOCK));
	SAY(LINE("%s never waits: for itself, timed", kind->name), never_waits(TIMED));
	make();
	helper_start(&stays);
	SAY(LINE("%s never waits: held", kind->name), never_waits(TRY));
	SAY(LINE("%s never waits: bad time", kind->name), never_waits(BAD_TIME));
	helper_end(&stays);
	if (!kind->robust)
		return;
	make();
	helper_start(&dies);
	helper_end(&dies);
	SAY(LINE("%s never waits: dead owner", kind->name), never_waits(LOCK));
	pthread_mutex_unlock(&mutex);
	SAY(LINE("%s never waits: beyond repair", kind->name), never_waits(LOCK));
	SAY(LINE("%s never waits: beyond repair, timed", kind->name), never_waits(TIMED));
}

static void mutexes_that_wait(void)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		kind = &kinds[i];
		lock_that_stays();
		if (kind->robust) {
			lock_of_the_dying();
			lock_of_the_careless();
		}
		if (kind->type == PTHREAD_MUTEX_ERRORCHECK)
			lock_without_wait();
	}
}

/* ---- conditions ---- */

static void lock_tell_die(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&mutex);
	told = true;
	pthread_cond_broadcast(&cond);
}

static void nothing(void *unused)
{
	(void)unused;
}

/* The mutex comes back from a thread that died with it. */
static __attribute__((noinline)) int waits_for_an_heir(int how)
{
	struct timespec late = from_now(CLOCK_REALTIME, 60000), late_mono = from_now(CLOCK_MONOTONIC, 60000);
	int rc = 0;

	while (!told && !rc) {
		if (how == 0)
			rc = pthread_cond_wait(&cond, &mutex);
		else if (how == 1)
			rc = pthread_cond_timedwait(&cond, &mutex, &late);
		else
#ifdef __GLIBC__
			rc = pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &late_mono);
#else
			rc = pthread_cond_timedwait(&cond, &mutex, &late);
		(void)late_mono;
#endif
	}
	return rc;
}

static void heirs(void)
{
	static const struct kind robust = {"robust heir", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, 1};

	kind = &robust;
	for (int how = 0; how < 3; how++) {
		struct helper dies = {.first = nothing, .then = lock_tell_die, .linger_ms = 1};

		make();
		told = false;
		pthread_mutex_lock(&mutex);
		helper_start(&dies);
		SAY(LINE("%s %d waits for an heir", kind->name, how), waits_for_an_heir(how));
		helper_end(&dies);
	}
}

int main(void)
{
	victim_gate();
	mutexes_that_wait();
	heirs();
	printf("done\n");
	fflush(stdout);
	victim_gate();
	return 0;
}
