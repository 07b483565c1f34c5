/* SPDX-License-Identifier: Apache-2.0
 *
 * For programs that try mutexes of every kind, one after the other: each type, protocol and robustness. */
#ifndef TEST_VICTIMS_LOCKKINDS_H
#define TEST_VICTIMS_LOCKKINDS_H

#include "lockcontract.h"

static char line[128];

#define LINE(...) (snprintf(line, sizeof(line), __VA_ARGS__), line)

struct kind {
	const char *name;
	int type, protocol, robust;
};

static const struct kind kinds[] = {
	{"normal", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, 0},
	{"errorcheck", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, 0},
	{"recursive", PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, 0},
#ifdef __GLIBC__
	{"adaptive", PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_PRIO_NONE, 0},
#endif
	{"robust", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, 1},
	{"robust errorcheck", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, 1},
	{"robust recursive", PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, 1},
	{"pi", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, 0},
	{"pi errorcheck", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_INHERIT, 0},
	{"pi recursive", PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_INHERIT, 0},
	{"pi robust", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_INHERIT, 1},
	{"protect", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_PROTECT, 0},
};

static const struct kind *kind;
static pthread_mutex_t mutex;

/* A new mutex of the kind; what pthread_mutex_init gives. */
static int make_mutex(void)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, kind->type);
	pthread_mutexattr_setprotocol(&a, kind->protocol);
	pthread_mutexattr_setrobust(&a, kind->robust ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED);
	memset(&mutex, 0, sizeof(mutex));
	return pthread_mutex_init(&mutex, &a);
}

/* For a helper's thread. */
static void lock_it(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&mutex);
}

static void unlock_it(void *unused)
{
	(void)unused;
	pthread_mutex_unlock(&mutex);
}

#endif
