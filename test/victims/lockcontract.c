/* SPDX-License-Identifier: Apache-2.0
 *
 * Every locking function through every result that can be had: mutexes of each type, protocol and robustness, free,
 * held by the caller, held by another that lets go, held by another that does not, and left by a dead owner; rwlocks,
 * conditions, semaphores, barriers, spin locks, joins. Each call is a line with its result and errno. */
#include "lockkinds.h"

#include <semaphore.h>

/* ---- mutexes ---- */

static void make(void)
{
	SAY(LINE("%s init", kind->name), make_mutex());
}

enum way { LOCK, TRY, TIMED, PAST, BAD_TIME, CLOCK, CLOCK_PAST, BAD_CLOCK, WAYS };
static const char *const ways[WAYS] = {
	"lock",	     "trylock",	       "timedlock",	     "timedlock past", "timedlock bad time",
	"clocklock", "clocklock past", "clocklock bad clock"};

static int take(enum way way)
{
	struct timespec real = from_now(CLOCK_REALTIME, way == PAST ? -10 : SHORT_MS);
	struct timespec mono = from_now(CLOCK_MONOTONIC, way == CLOCK_PAST ? -10 : SHORT_MS);
	struct timespec bad = {1, 1000000000};

	switch (way) {
	case LOCK:
		return pthread_mutex_lock(&mutex);
	case TRY:
		return pthread_mutex_trylock(&mutex);
	case BAD_TIME:
		return pthread_mutex_timedlock(&mutex, &bad);
#ifdef __GLIBC__
	case CLOCK:
	case CLOCK_PAST:
		return pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &mono);
	case BAD_CLOCK:
		return pthread_mutex_clocklock(&mutex, CLOCK_PROCESS_CPUTIME_ID, &mono);
#else
	case CLOCK:
	case CLOCK_PAST:
	case BAD_CLOCK:
		(void)mono;
#endif
	default:
		return pthread_mutex_timedlock(&mutex, &real);
	}
}

static void say_take(const char *state, enum way way, int *rc)
{
	SAY(LINE("%s %s %s", kind->name, state, ways[way]), *rc = take(way));
	if (*rc == 0 || *rc == EOWNERDEAD)
		SAY(LINE("%s %s %s, then unlock", kind->name, state, ways[way]), pthread_mutex_unlock(&mutex));
}

static void free_and_own(enum way way)
{
	int rc;

	make();
	say_take("free", way, &rc);
	SAY(LINE("%s unlock of a free one", kind->name),
	    kind->type == PTHREAD_MUTEX_ERRORCHECK ? pthread_mutex_unlock(&mutex) : 0);
	/* Some ways would wait for themselves for ever. */
	if (way == LOCK && kind->type != PTHREAD_MUTEX_ERRORCHECK && kind->type != PTHREAD_MUTEX_RECURSIVE)
		return;
	make();
	SAY(LINE("%s own", kind->name), rc = pthread_mutex_lock(&mutex));
	say_take("own", way, &rc);
	SAY(LINE("%s own, unlock", kind->name), pthread_mutex_unlock(&mutex));
}

static void others(enum way way)
{
	struct helper stays = {.first = lock_it, .then = unlock_it}, goes = stays;
	int rc;

	make();
	goes.linger_ms = LATE_MS;
	helper_start(&stays);
	if (way != LOCK)
		say_take("held", way, &rc);
	SAY(LINE("%s held, unlock by another", kind->name),
	    kind->type == PTHREAD_MUTEX_ERRORCHECK ? pthread_mutex_unlock(&mutex) : 0);
	helper_end(&stays);
	if (way != LOCK)
		return;
	helper_start(&goes);
	say_take("let go", way, &rc);
	helper_end(&goes);
}

static void dead_owner(enum way way, bool repairs)
{
	struct helper dies = {.first = lock_it};
	int rc;

	if (!kind->robust)
		return;
	make();
	helper_start(&dies);
	helper_end(&dies);
	SAY(LINE("%s dead owner %s", kind->name, ways[way]), rc = take(way));
	if (rc == EOWNERDEAD && repairs)
		SAY(LINE("%s consistent", kind->name), pthread_mutex_consistent(&mutex));
	SAY(LINE("%s dead owner %s, unlock", kind->name, ways[way]),
	    rc == 0 || rc == EOWNERDEAD ? pthread_mutex_unlock(&mutex) : 0);
	say_take(repairs ? "repaired" : "beyond repair", way, &rc);
}

/* The owner dies while somebody waits. */
static void dying_owner(void)
{
	struct helper dies = {.first = lock_it, .linger_ms = LATE_MS};
	int rc;

	if (!kind->robust)
		return;
	make();
	helper_start(&dies);
	say_take("dying owner", LOCK, &rc);
	helper_end(&dies);
}

static void too_often(void)
{
#ifdef __GLIBC__
	int rc;

	if (kind->type != PTHREAD_MUTEX_RECURSIVE)
		return;
	make();
	pthread_mutex_lock(&mutex);
	mutex.__data.__count = UINT32_MAX;
	SAY(LINE("%s too often", kind->name), rc = pthread_mutex_lock(&mutex));
	SAY(LINE("%s too often, timed", kind->name), rc = take(TIMED));
#endif
}

static void mutexes(void)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		kind = &kinds[i];
		for (enum way way = 0; way < WAYS; way++) {
			free_and_own(way);
			others(way);
			dead_owner(way, true);
			dead_owner(way, false);
		}
		dying_owner();
		too_often();
	}
}

/* ---- rwlocks ---- */

static pthread_rwlock_t rw;

enum rw_way {
	RD,
	WR,
	TRY_RD,
	TRY_WR,
	TIMED_RD,
	TIMED_WR,
	CLOCK_RD,
	CLOCK_WR,
	BAD_TIME_RD,
	BAD_TIME_WR,
	BAD_CLOCK_RD,
	BAD_CLOCK_WR,
	RW_WAYS
};
static const char *const rw_ways[RW_WAYS] = {"rdlock",	    "wrlock",	   "tryrdlock",	   "trywrlock",
					     "timedrdlock", "timedwrlock", "clockrdlock",  "clockwrlock",
					     "rd bad time", "wr bad time", "rd bad clock", "wr bad clock"};

static int rw_take(enum rw_way way)
{
	struct timespec real = from_now(CLOCK_REALTIME, SHORT_MS), mono = from_now(CLOCK_MONOTONIC, SHORT_MS);
	struct timespec bad = {1, -1};

	switch (way) {
	case RD:
		return pthread_rwlock_rdlock(&rw);
	case WR:
		return pthread_rwlock_wrlock(&rw);
	case TRY_RD:
		return pthread_rwlock_tryrdlock(&rw);
	case TRY_WR:
		return pthread_rwlock_trywrlock(&rw);
	case TIMED_RD:
		return pthread_rwlock_timedrdlock(&rw, &real);
	case TIMED_WR:
		return pthread_rwlock_timedwrlock(&rw, &real);
	case BAD_TIME_RD:
		return pthread_rwlock_timedrdlock(&rw, &bad);
	case BAD_TIME_WR:
		return pthread_rwlock_timedwrlock(&rw, &bad);
#ifdef __GLIBC__
	case CLOCK_RD:
		return pthread_rwlock_clockrdlock(&rw, CLOCK_MONOTONIC, &mono);
	case CLOCK_WR:
		return pthread_rwlock_clockwrlock(&rw, CLOCK_MONOTONIC, &mono);
	case BAD_CLOCK_RD:
		return pthread_rwlock_clockrdlock(&rw, CLOCK_PROCESS_CPUTIME_ID, &mono);
	case BAD_CLOCK_WR:
		return pthread_rwlock_clockwrlock(&rw, CLOCK_PROCESS_CPUTIME_ID, &mono);
#endif
	default:
		(void)mono;
		return 0;
	}
}

static void rw_hold(void *way)
{
	rw_take((enum rw_way)(uintptr_t)way);
}

static void rw_give(void *unused)
{
	(void)unused;
	pthread_rwlock_unlock(&rw);
}

static void say_rw(const char *state, enum rw_way way)
{
	int rc;

	SAY(LINE("rwlock %s %s", state, rw_ways[way]), rc = rw_take(way));
	if (rc == 0)
		SAY(LINE("rwlock %s %s, unlock", state, rw_ways[way]), pthread_rwlock_unlock(&rw));
}

static void rwlocks_of(int preference)
{
	pthread_rwlockattr_t a;

	pthread_rwlockattr_init(&a);
#ifdef __GLIBC__
	pthread_rwlockattr_setkind_np(&a, preference);
#else
	(void)preference;
#endif
	SAY(LINE("rwlock kind %d", preference), pthread_rwlock_init(&rw, &a));
	for (enum rw_way way = 0; way < RW_WAYS; way++) {
		struct helper reads = {.first = rw_hold, .then = rw_give, .arg = (void *)(uintptr_t)RD};
		struct helper writes = {.first = rw_hold, .then = rw_give, .arg = (void *)(uintptr_t)WR};
		bool waits_for_ever = way == RD || way == WR;

		say_rw("free", way);
		pthread_rwlock_wrlock(&rw);
		say_rw("written by myself", way);
		pthread_rwlock_unlock(&rw);
		if (waits_for_ever)
			reads.linger_ms = writes.linger_ms = LATE_MS;
		helper_start(&reads);
		say_rw("read by another", way);
		helper_end(&reads);
		helper_start(&writes);
		say_rw("written by another", way);
		helper_end(&writes);
	}
	pthread_rwlock_rdlock(&rw);
	say_rw("read by myself", RD);
	say_rw("read by myself", TIMED_WR);
	pthread_rwlock_unlock(&rw);
	SAY("rwlock destroy", pthread_rwlock_destroy(&rw));
}

/* ---- conditions ---- */

static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static _Atomic bool told;

static void nothing(void *unused)
{
	(void)unused;
}

static void tell(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&mutex);
	told = true;
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&mutex);
}

static void lock_tell_die(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&mutex);
	told = true;
	pthread_cond_broadcast(&cond);
}

/* Waits as it should be done, spurious wake-ups and all. */
static int wait_until_told(int how)
{
	struct timespec late = from_now(CLOCK_REALTIME, 5000), late_mono = from_now(CLOCK_MONOTONIC, 5000);
	int rc = 0;

	while (!told && !rc) {
		if (how == 0)
			rc = pthread_cond_wait(&cond, &mutex);
		else if (how == 1)
			rc = pthread_cond_timedwait(&cond, &mutex, &late);
#ifdef __GLIBC__
		else
			rc = pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &late_mono);
#else
		else
			return 0;
		(void)late_mono;
#endif
	}
	return rc;
}

static void conditions(void)
{
	static const struct kind plain = {"condition", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, 0};
	static const struct kind robust = {"robust condition", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, 1};
	struct timespec bad = {0, 1000000000}, past = from_now(CLOCK_REALTIME, -10), soon;

	kind = &plain;
	make();
	for (int how = 0; how < 3; how++) {
		struct helper teller = {.first = nothing, .then = tell, .linger_ms = LATE_MS};

		told = false;
		pthread_mutex_lock(&mutex);
		helper_start(&teller);
		SAY(LINE("condition %d", how), wait_until_told(how));
		SAY("condition, held afterwards", pthread_mutex_trylock(&mutex));
		pthread_mutex_unlock(&mutex);
		helper_end(&teller);
	}
	SAY("condition without the mutex", pthread_cond_wait(&cond, &mutex));
	SAY("condition without the mutex, timed", pthread_cond_timedwait(&cond, &mutex, &past));
	pthread_mutex_lock(&mutex);
	SAY("condition past", pthread_cond_timedwait(&cond, &mutex, &past));
	SAY("condition bad time", pthread_cond_timedwait(&cond, &mutex, &bad));
	soon = from_now(CLOCK_REALTIME, SHORT_MS);
	SAY("condition soon", pthread_cond_timedwait(&cond, &mutex, &soon));
#ifdef __GLIBC__
	soon = from_now(CLOCK_MONOTONIC, SHORT_MS);
	SAY("condition clock soon", pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &soon));
	SAY("condition bad clock", pthread_cond_clockwait(&cond, &mutex, CLOCK_PROCESS_CPUTIME_ID, &soon));
#endif
	SAY("condition, unlock", pthread_mutex_unlock(&mutex));

	kind = &robust;
	make();
	told = false;
	pthread_mutex_lock(&mutex);
	struct helper dies = {.first = nothing, .then = lock_tell_die, .linger_ms = LATE_MS};
	helper_start(&dies);
	SAY("condition, the mutex's owner dies", wait_until_told(0));
	helper_end(&dies);
	SAY("condition, consistent", pthread_mutex_consistent(&mutex));
	SAY("condition, unlock", pthread_mutex_unlock(&mutex));
}

/* ---- semaphores ---- */

static sem_t sem;

static void post(void *unused)
{
	(void)unused;
	sem_post(&sem);
}

static void interrupt_me(void *thread)
{
	victim_until_in(getpid(), SYS_futex);
	pthread_kill(*(pthread_t *)thread, SIGUSR1);
}

static void on_signal(int sig)
{
	(void)sig;
}

static int sem_take(int how, long ms)
{
	struct timespec real = from_now(CLOCK_REALTIME, ms), mono = from_now(CLOCK_MONOTONIC, ms);

	if (how == 0)
		return sem_wait(&sem);
	if (how == 1)
		return sem_timedwait(&sem, &real);
#ifdef __GLIBC__
	return sem_clockwait(&sem, CLOCK_MONOTONIC, &mono);
#else
	(void)mono;
	return 0;
#endif
}

static void semaphores(void)
{
	static const char *const names[] = {"sem_wait", "sem_timedwait", "sem_clockwait"};
	struct timespec bad = {0, -5}, now = from_now(CLOCK_MONOTONIC, 0);
	pthread_t self = pthread_self();

	sem_init(&sem, 0, 0);
	for (int how = 0; how < 3; how++) {
		struct helper posts = {.first = nothing, .then = post, .linger_ms = LATE_MS};
		struct helper interrupts = {.first = nothing, .then = interrupt_me, .arg = &self, .linger_ms = LATE_MS};

		sem_post(&sem);
		SAY(LINE("%s with one", names[how]), sem_take(how, 5000));
		helper_start(&posts);
		SAY(LINE("%s until posted", names[how]), sem_take(how, 5000));
		helper_end(&posts);
		helper_start(&interrupts);
		SAY(LINE("%s interrupted", names[how]), sem_take(how, 5000));
		helper_end(&interrupts);
		if (how)
			SAY(LINE("%s in vain", names[how]), sem_take(how, SHORT_MS));
	}
	SAY("sem_timedwait bad time", sem_timedwait(&sem, &bad));
	sem_post(&sem);
	SAY("sem_timedwait bad time with one", sem_timedwait(&sem, &bad));
#ifdef __GLIBC__
	SAY("sem_clockwait bad clock", sem_clockwait(&sem, CLOCK_PROCESS_CPUTIME_ID, &now));
#else
	(void)now;
#endif
	SAY("sem_wait at last", sem_wait(&sem));
}

/* ---- barriers, spin locks, joins ---- */

static pthread_barrier_t barrier;
static pthread_spinlock_t spin;

static void *meet(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)pthread_barrier_wait(&barrier);
}

static void spin_hold(void *unused)
{
	(void)unused;
	pthread_spin_lock(&spin);
}

static void spin_give(void *unused)
{
	(void)unused;
	pthread_spin_unlock(&spin);
}

static void barriers_and_spins(void)
{
	struct helper holds = {.first = spin_hold, .then = spin_give, .linger_ms = LATE_MS};
	pthread_t t;
	void *r;
	int mine;

	pthread_barrier_init(&barrier, NULL, 1);
	SAY("barrier alone", pthread_barrier_wait(&barrier));
	pthread_barrier_init(&barrier, NULL, 2);
	for (int i = 0; i < 3; i++) {
		pthread_create(&t, NULL, meet, NULL);
		if (i)
			victim_sleep_ms(LATE_MS);
		mine = pthread_barrier_wait(&barrier);
		pthread_join(t, &r);
		SAY("barrier of two", mine + (int)(intptr_t)r);
	}
	pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
	SAY("spin free", pthread_spin_lock(&spin));
	SAY("spin try", pthread_spin_trylock(&spin));
	SAY("spin unlock", pthread_spin_unlock(&spin));
	helper_start(&holds);
	SAY("spin held", pthread_spin_lock(&spin));
	SAY("spin unlock", pthread_spin_unlock(&spin));
	helper_end(&holds);
}

static void *later(void *ms)
{
	victim_sleep_ms((unsigned)(uintptr_t)ms);
	return (void *)0x1234;
}

static int tubes[2][2];

/* Not before it is told, however late that is; and a little later. */
static void *later_than_told(void *tube)
{
	char c;

	victim_check(read(*(int *)tube, &c, 1) == 1, "pipe");
	return later((void *)(uintptr_t)LATE_MS);
}

static void tell_later(int *tube)
{
	victim_check(write(tube[1], "", 1) == 1, "pipe");
}

static void joins(void)
{
	pthread_attr_t detached;
	pthread_t t;
	void *r = NULL;

	victim_check(!pipe(tubes[0]) && !pipe(tubes[1]), "pipe");
	SAY("join myself", pthread_join(pthread_self(), NULL));
	pthread_create(&t, NULL, later, (void *)(uintptr_t)LATE_MS);
	SAY("join later", pthread_join(t, &r));
	SAY("join's result", (int)(uintptr_t)r);
	pthread_create(&t, NULL, later, (void *)(uintptr_t)1);
	victim_sleep_ms(LATE_MS);
	SAY("join ended", pthread_join(t, NULL));
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	pthread_create(&t, &detached, later_than_told, tubes[0]);
	SAY("join detached", pthread_join(t, NULL));
	tell_later(tubes[0]);
#ifdef __GLIBC__
	struct timespec soon = from_now(CLOCK_REALTIME, SHORT_MS), bad = {0, -1};

	pthread_create(&t, NULL, later_than_told, tubes[1]);
	SAY("tryjoin", pthread_tryjoin_np(t, NULL));
	SAY("timedjoin in vain", pthread_timedjoin_np(t, &r, &soon));
	soon = from_now(CLOCK_MONOTONIC, SHORT_MS);
	SAY("clockjoin in vain", pthread_clockjoin_np(t, &r, CLOCK_MONOTONIC, &soon));
	tell_later(tubes[1]);
	soon = from_now(CLOCK_REALTIME, 5000);
	SAY("timedjoin", pthread_timedjoin_np(t, &r, &soon));
	SAY("timedjoin's result", (int)(uintptr_t)r);
	/* glibc asks again and again, until the thread has ended. */
	pthread_create(&t, NULL, later, (void *)(uintptr_t)LATE_MS);
	SAY("timedjoin bad time", pthread_timedjoin_np(t, &r, &bad));
	SAY("clockjoin bad clock", pthread_clockjoin_np(t, &r, CLOCK_PROCESS_CPUTIME_ID, &soon));
#endif
}

int main(void)
{
	struct sigaction sa = {.sa_handler = on_signal};

	sigaction(SIGUSR1, &sa, NULL);
	victim_gate();
	mutexes();
	rwlocks_of(0);
	rwlocks_of(2);
	conditions();
	semaphores();
	barriers_and_spins();
	joins();
	printf("done\n");
	fflush(stdout);
	victim_gate();
	return 0;
}
