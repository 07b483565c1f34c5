/* SPDX-License-Identifier: Apache-2.0
 *
 * A library, to be preloaded behind the agent: what the agent takes for libc's functions is this one's, which read the
 * clock on either side of libc's. So it tells when a thread was really woken and when it really went on, whatever hooks
 * do before and after; genuine_clock() is the calling thread's. */
// flags: -shared -fPIC -Wl,--version-script=test/victims/genuine.map
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <time.h>

struct genuine {
	uint64_t at, end; /* CLOCK_MONOTONIC: before and after the last call */
};

static __thread struct genuine mine __attribute__((tls_model("initial-exec")));

struct genuine *genuine_clock(void);
struct genuine *genuine_clock(void)
{
	return &mine;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *libc(const char *name)
{
	void *p = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2"); /* of conditions */

	return p ? p : dlsym(RTLD_NEXT, name);
}

#define BETWEEN(name, params, ...) BETWEEN_AS(name, name, params, __VA_ARGS__)
#define BETWEEN_AS(name, own, params, ...)                                                                             \
	int own params                                                                                                 \
	{                                                                                                              \
		static int(*_Atomic genuine) params;                                                                   \
		int rc;                                                                                                \
                                                                                                                       \
		if (!genuine)                                                                                          \
			genuine = (int(*) params)libc(#name);                                                          \
		mine.at = now();                                                                                       \
		rc = genuine(__VA_ARGS__);                                                                             \
		mine.end = now();                                                                                      \
		return rc;                                                                                             \
	}

BETWEEN(sem_post, (sem_t * s), s)
BETWEEN(sem_wait, (sem_t * s), s)
/* The agent asks for these by their version. */
__asm__(".symver own_cond_signal, pthread_cond_signal@@GLIBC_2.3.2");
__asm__(".symver own_cond_wait, pthread_cond_wait@@GLIBC_2.3.2");
BETWEEN_AS(pthread_cond_signal, own_cond_signal, (pthread_cond_t * c), c)
BETWEEN_AS(pthread_cond_wait, own_cond_wait, (pthread_cond_t * c, pthread_mutex_t *m), c, m)
BETWEEN(pthread_mutex_lock, (pthread_mutex_t * m), m)
BETWEEN(pthread_mutex_unlock, (pthread_mutex_t * m), m)
BETWEEN(pthread_barrier_wait, (pthread_barrier_t * b), b)
BETWEEN(pthread_create, (pthread_t * t, const pthread_attr_t *a, void *(*f)(void *), void *arg), t, a, f, arg)

long syscall(long nr, ...)
{
	static long (*_Atomic genuine)(long, ...);
	long a[6], rc;
	va_list args;

	va_start(args, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (!genuine)
		genuine = (long (*)(long, ...))libc("syscall");
	mine.at = now();
	rc = genuine(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	mine.end = now();
	return rc;
}
