/* SPDX-License-Identifier: Apache-2.0
 *
 * What the lockcontract victims share: a line for each call, with its result and what became of errno; a helper thread
 * that holds something meanwhile; calls that are to be interrupted. */
#ifndef LOCKCONTRACT_H
#define LOCKCONTRACT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>

#include "victim.h"

enum { ERRNO_BEFORE = 4321, SHORT_MS = 4, LATE_MS = 15 };

static inline const char *result_name(int rc)
{
	static const struct {
		int rc;
		const char *name;
	} names[] = {{0, "0"},
		     {EBUSY, "EBUSY"},
		     {EOWNERDEAD, "EOWNERDEAD"},
		     {ENOTRECOVERABLE, "ENOTRECOVERABLE"},
		     {EDEADLK, "EDEADLK"},
		     {ETIMEDOUT, "ETIMEDOUT"},
		     {EINVAL, "EINVAL"},
		     {EAGAIN, "EAGAIN"},
		     {EPERM, "EPERM"},
		     {EINTR, "EINTR"},
		     {ENOSYS, "ENOSYS"},
		     {EFAULT, "EFAULT"},
		     {ESRCH, "ESRCH"},
		     {ERRNO_BEFORE, "untouched"},
		     {-1, "-1"}};
	static __thread char number[16];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].rc == rc)
			return names[i].name;
	snprintf(number, sizeof(number), "%d", rc);
	return number;
}

/* A call and its line. */
#define SAY(what, call)                                                                                                \
	do {                                                                                                           \
		int rc_, errno_;                                                                                       \
		errno = ERRNO_BEFORE;                                                                                  \
		rc_ = (int)(call);                                                                                     \
		errno_ = errno;                                                                                        \
		printf("%s: %s", what, result_name(rc_));                                                              \
		printf(" errno %s\n", result_name(errno_));                                                            \
	} while (0)

static inline struct timespec from_now(clockid_t clock, long ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_sec += ms / 1000 - 1;
	t.tv_nsec += 1000000000 + ms % 1000 * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

/* A thread that does something, then waits until it is told, then does something else. */
struct helper {
	void (*first)(void *), (*then)(void *);
	void *arg;
	long linger_ms; /* at least so long before then; without being told if it is not 0 */
	pthread_t thread;
	int to[2], from[2];
};

static inline void *helper_main(void *p)
{
	struct helper *h = p;
	char c = 0;

	h->first(h->arg);
	victim_check(write(h->from[1], &c, 1) == 1, "pipe");
	if (h->linger_ms)
		victim_sleep_ms((unsigned)h->linger_ms);
	else
		victim_check(read(h->to[0], &c, 1) == 1, "pipe");
	if (h->then)
		h->then(h->arg);
	return NULL;
}

static inline void helper_start(struct helper *h)
{
	char c;

	victim_check(!pipe(h->to) && !pipe(h->from), "pipe");
	victim_check(!pthread_create(&h->thread, NULL, helper_main, h), "pthread_create");
	victim_check(read(h->from[0], &c, 1) == 1, "pipe");
}

static inline void helper_end(struct helper *h)
{
	char c = 0;

	victim_check(h->linger_ms || write(h->to[1], &c, 1) == 1, "pipe");
	pthread_join(h->thread, NULL);
	for (int i = 0; i < 2; i++) {
		close(h->to[i]);
		close(h->from[i]);
	}
}

#endif
