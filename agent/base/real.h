/* SPDX-License-Identifier: Apache-2.0
 *
 * The genuine functions behind our hooks, resolved once with dlsym(RTLD_NEXT). Inside this library a plain call of
 * an interposed name reaches our own hook; code of ours that means libc's calls through this table.
 *
 * A hook may run before our constructor (another library's constructor starts a thread), so ppa_real() resolves on
 * first use; racing resolvers store equal pointers. */
#ifndef PPA_BASE_REAL_H
#define PPA_BASE_REAL_H

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/types.h>
#include <time.h>

#include "agent/base/attr.h"

struct termios;
struct winsize;

struct ppa_real {
	int (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	void (*pthread_exit)(void *) __attribute__((noreturn));
	int (*pthread_setname_np)(pthread_t, const char *);
	int (*thrd_create)(unsigned long *, int (*)(void *), void *); /* thrd_t is pthread_t in every libc */
	void (*thrd_exit)(int) __attribute__((noreturn));
	int (*pthread_sigmask)(int, const sigset_t *, sigset_t *);
	int (*sigprocmask)(int, const sigset_t *, sigset_t *);
	int (*sigaction)(int, const struct sigaction *, struct sigaction *);
	void (*(*signal)(int, void (*)(int)))(int);
	int (*sigwait)(const sigset_t *, int *);
	int (*sigwaitinfo)(const sigset_t *, siginfo_t *);
	int (*sigtimedwait)(const sigset_t *, siginfo_t *, const struct timespec *);
	int (*sigpending)(sigset_t *);
	int (*signalfd)(int, const sigset_t *, int);
	pid_t (*fork)(void);
	int (*daemon)(int, int);
	pid_t (*forkpty)(int *, char *, const struct termios *, const struct winsize *);
	int (*execve)(const char *, char *const *, char *const *);
	int (*execv)(const char *, char *const *);
	int (*execvp)(const char *, char *const *);
	int (*execvpe)(const char *, char *const *, char *const *);
	int (*fexecve)(int, char *const *, char *const *);
	int (*posix_spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
			   char *const *, char *const *);
	int (*posix_spawnp)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
			    char *const *, char *const *);
	int (*dlclose)(void *);
	void *(*dlopen)(const char *, int);
	void *(*dlmopen)(long, const char *, int);
};

/* The table, complete but for functions the libc lacks (NULL). Context: any. */
const struct ppa_real *ppa_real(void) PPA_CTX_ANY;

#endif
