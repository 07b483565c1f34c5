/* SPDX-License-Identifier: Apache-2.0
 *
 * dlsym gives the oldest version of a symbol before glibc 2.36, and of condition variables the oldest is another type
 * (a pointer to the real one): theirs is asked for by name. What failed leaves no message for the target's dlerror, nor
 * memory in its heap.
 *
 * All is looked up in our constructor, or by a call that comes before it from another library's. A mutex is apart: the
 * caller may be an allocator that comes before ours and holds its own lock, and the message for a name that libc does not
 * have would be allocated there. Names that exist are found without a word. */
#include "agent/hook/lock_real.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#include "agent/base/resolve.h"

extern const char *gnu_get_libc_version(void) __attribute__((weak));

#define ENTRY(field, symbol)                                                                                           \
	{                                                                                                              \
		symbol, offsetof(struct ppa_lock_real, field)                                                          \
	}

static const struct entry {
	const char *name;
	size_t offset;
} entries[] = {
	ENTRY(mutex_lock, "pthread_mutex_lock"),
	ENTRY(mutex_unlock, "pthread_mutex_unlock"),
	ENTRY(mutex_trylock, "pthread_mutex_trylock"),
	ENTRY(mutex_timedlock, "pthread_mutex_timedlock"),
	ENTRY(mutex_clocklock, "pthread_mutex_clocklock"),
	ENTRY(rwlock_rdlock, "pthread_rwlock_rdlock"),
	ENTRY(rwlock_tryrdlock, "pthread_rwlock_tryrdlock"),
	ENTRY(rwlock_timedrdlock, "pthread_rwlock_timedrdlock"),
	ENTRY(rwlock_clockrdlock, "pthread_rwlock_clockrdlock"),
	ENTRY(rwlock_wrlock, "pthread_rwlock_wrlock"),
	ENTRY(rwlock_trywrlock, "pthread_rwlock_trywrlock"),
	ENTRY(rwlock_timedwrlock, "pthread_rwlock_timedwrlock"),
	ENTRY(rwlock_clockwrlock, "pthread_rwlock_clockwrlock"),
	ENTRY(rwlock_unlock, "pthread_rwlock_unlock"),
	ENTRY(cond_signal, "pthread_cond_signal"),
	ENTRY(cond_broadcast, "pthread_cond_broadcast"),
	ENTRY(cond_wait, "pthread_cond_wait"),
	ENTRY(cond_timedwait, "pthread_cond_timedwait"),
	ENTRY(cond_clockwait, "pthread_cond_clockwait"),
	ENTRY(sem_post, "sem_post"),
	ENTRY(sem_wait, "sem_wait"),
	ENTRY(sem_timedwait, "sem_timedwait"),
	ENTRY(sem_clockwait, "sem_clockwait"),
	ENTRY(sem_getvalue, "sem_getvalue"),
	ENTRY(barrier_wait, "pthread_barrier_wait"),
	ENTRY(spin_lock, "pthread_spin_lock"),
	ENTRY(spin_trylock, "pthread_spin_trylock"),
	ENTRY(spin_unlock, "pthread_spin_unlock"),
	ENTRY(join, "pthread_join"),
	ENTRY(timedjoin, "pthread_timedjoin_np"),
	ENTRY(clockjoin, "pthread_clockjoin_np"),
	ENTRY(mtx_lock, "mtx_lock"),
	ENTRY(mtx_trylock, "mtx_trylock"),
	ENTRY(mtx_timedlock, "mtx_timedlock"),
	ENTRY(mtx_unlock, "mtx_unlock"),
	ENTRY(cnd_signal, "cnd_signal"),
	ENTRY(cnd_broadcast, "cnd_broadcast"),
	ENTRY(cnd_wait, "cnd_wait"),
	ENTRY(cnd_timedwait, "cnd_timedwait"),
	ENTRY(thrd_join, "thrd_join"),
};

struct ppa_lock_real ppa_lock_table;

/* ---- what a libc may lack: everything with a clock before glibc 2.30 and in musl; C11 before glibc 2.28 ---- */

/* The same moment on the clock that the older functions know. 0 or EINVAL. */
static int to_realtime(clockid_t clock, const struct timespec *at, struct timespec *out)
{
	struct timespec now;

	*out = *at;
	if (clock == CLOCK_REALTIME)
		return 0;
	if (clock != CLOCK_MONOTONIC || at->tv_nsec < 0 || at->tv_nsec >= 1000000000)
		return EINVAL;
	clock_gettime(CLOCK_MONOTONIC, &now);
	out->tv_sec -= now.tv_sec;
	out->tv_nsec -= now.tv_nsec;
	clock_gettime(CLOCK_REALTIME, &now);
	out->tv_sec += now.tv_sec;
	out->tv_nsec += now.tv_nsec;
	if (out->tv_nsec < 0) {
		out->tv_nsec += 1000000000;
		out->tv_sec--;
	} else if (out->tv_nsec >= 1000000000) {
		out->tv_nsec -= 1000000000;
		out->tv_sec++;
	}
	return 0;
}

static int mutex_clocklock(pthread_mutex_t *m, clockid_t clock, const struct timespec *at)
{
	struct timespec real;

	return to_realtime(clock, at, &real) ? EINVAL : ppa_lock_table.mutex_timedlock(m, &real);
}

static int rwlock_clockrdlock(pthread_rwlock_t *l, clockid_t clock, const struct timespec *at)
{
	struct timespec real;

	return to_realtime(clock, at, &real) ? EINVAL : ppa_lock_table.rwlock_timedrdlock(l, &real);
}

static int rwlock_clockwrlock(pthread_rwlock_t *l, clockid_t clock, const struct timespec *at)
{
	struct timespec real;

	return to_realtime(clock, at, &real) ? EINVAL : ppa_lock_table.rwlock_timedwrlock(l, &real);
}

/* A condition has a clock of its own, which nobody can ask for: the usual one. */
static int cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock, const struct timespec *at)
{
	struct timespec real;

	return to_realtime(clock, at, &real) ? EINVAL : ppa_lock_table.cond_timedwait(c, m, &real);
}

static int sem_clockwait_(sem_t *s, clockid_t clock, const struct timespec *at)
{
	struct timespec real;

	if (to_realtime(clock, at, &real)) {
		errno = EINVAL;
		return -1;
	}
	return ppa_lock_table.sem_timedwait(s, &real);
}

static int clockjoin(pthread_t t, void **result, clockid_t clock, const struct timespec *at)
{
	struct timespec real;

	return to_realtime(clock, at, &real) ? EINVAL : ppa_lock_table.timedjoin(t, result, &real);
}

static int timedjoin(pthread_t t, void **result, const struct timespec *at)
{
	(void)t, (void)result, (void)at;
	return ENOSYS;
}

static int no_mtx(mtx_t *m)
{
	(void)m;
	return thrd_error;
}

static int no_mtx_timed(mtx_t *m, const struct timespec *at)
{
	(void)m, (void)at;
	return thrd_error;
}

static int no_cnd_wake(cnd_t *c)
{
	(void)c;
	return thrd_error;
}

static int no_cnd(cnd_t *c, mtx_t *m)
{
	(void)c, (void)m;
	return thrd_error;
}

static int no_cnd_timed(cnd_t *c, mtx_t *m, const struct timespec *at)
{
	(void)c, (void)m, (void)at;
	return thrd_error;
}

static int no_thrd_join(thrd_t t, int *result)
{
	(void)t, (void)result;
	return thrd_error;
}

static void emulate(struct ppa_lock_real *t)
{
#define INSTEAD(field, function) t->field = t->field ? t->field : (function)
	INSTEAD(mutex_clocklock, mutex_clocklock);
	INSTEAD(rwlock_clockrdlock, rwlock_clockrdlock);
	INSTEAD(rwlock_clockwrlock, rwlock_clockwrlock);
	INSTEAD(cond_clockwait, cond_clockwait);
	INSTEAD(sem_clockwait, sem_clockwait_);
	INSTEAD(timedjoin, timedjoin);
	INSTEAD(clockjoin, clockjoin);
	INSTEAD(mtx_lock, no_mtx);
	INSTEAD(mtx_trylock, no_mtx);
	INSTEAD(mtx_unlock, no_mtx);
	INSTEAD(mtx_timedlock, no_mtx_timed);
	INSTEAD(cnd_signal, no_cnd_wake);
	INSTEAD(cnd_broadcast, no_cnd_wake);
	INSTEAD(cnd_wait, no_cnd);
	INSTEAD(cnd_timedwait, no_cnd_timed);
	INSTEAD(thrd_join, no_thrd_join);
#undef INSTEAD
}

/* ---- looking up ---- */

#ifdef __GLIBC__
_Static_assert(offsetof(pthread_mutex_t, __data.__kind) == PPA_GLIBC_KIND_AT, "glibc's layout");
#endif

static void *find(const char *name, void *(*by_version)(void *, const char *, const char *))
{
	void *p = NULL;

	/* pthread_cond_t is today's type since 2.3.2; architectures younger than that have only one. */
	if (by_version && __builtin_strncmp(name, "pthread_cond_", 13) == 0)
		p = by_version(RTLD_NEXT, name, "GLIBC_2.3.2");
	return p ? p : dlsym(RTLD_NEXT, name);
}

void ppa_lock_resolve_mutex(void)
{
	struct ppa_resolving r = ppa_resolve_begin();
	struct ppa_lock_real *t = &ppa_lock_table;

	*(void **)&t->mutex_trylock = dlsym(RTLD_NEXT, "pthread_mutex_trylock");
	*(void **)&t->mutex_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
	*(void **)&t->mutex_unlock = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
	ppa_resolve_end(&r);
}

void ppa_lock_resolve(void)
{
	struct ppa_resolving r = ppa_resolve_begin();
	struct ppa_lock_real *t = &ppa_lock_table;
	void *(*by_version)(void *, const char *, const char *) = NULL;
	char *(*forget_error)(void);

	if (gnu_get_libc_version)
		*(void **)&by_version = dlsym(RTLD_DEFAULT, "dlvsym");
	/* musl's type is the first word, its lock the second. */
	t->taken = gnu_get_libc_version ? UINT32_MAX : (uint64_t)UINT32_MAX << 32;
	for (size_t i = 0; i < PPA_ARRAY_LEN(entries); i++)
		*(void **)((char *)t + entries[i].offset) = find(entries[i].name, by_version);
	emulate(t);
	*(void **)&forget_error = dlsym(RTLD_NEXT, "dlerror");
	if (forget_error)
		forget_error();
	ppa_resolve_end(&r);
	/* release: pairs with the acquire in ppa_lock_real. */
	atomic_store_explicit(&t->is_resolved, true, memory_order_release);
}

__attribute__((constructor)) static void resolve_at_start(void)
{
	ppa_lock_real();
}
