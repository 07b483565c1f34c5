/* SPDX-License-Identifier: Apache-2.0 */
// flags: -shared -Wl,--no-as-needed build/stub/libc.so.6 build/stub/libpthread.so.0 build/stub/libdl.so.2 build/stub/librt.so.1
/* The least that any agent of this kind must do: it stands before the same functions as ours, with calls that go
 * straight on, and has one idle thread (which alone ends the C library's shortcuts for programs with one thread). What
 * the agent costs is measured against this, and this against nothing. With the variable BENCH_ALONE it has no thread.
 *
 * It is for the machine it is measured on, a glibc since 2.34: there dlsym allocates only to tell of a failure, so the
 * allocator's functions, resolved first, need no early blocks of their own as the agent has. */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define REAL(name) (*(__typeof__(&name))real[name##_])

#define NAMES(X)                                                                                                       \
	X(malloc)                                                                                                      \
	X(free)                                                                                                        \
	X(calloc)                                                                                                      \
	X(realloc)                                                                                                     \
	X(reallocarray)                                                                                                \
	X(posix_memalign)                                                                                              \
	X(aligned_alloc)                                                                                               \
	X(memalign)                                                                                                    \
	X(valloc)                                                                                                      \
	X(pvalloc)                                                                                                     \
	X(malloc_usable_size)                                                                                          \
	X(mmap)                                                                                                        \
	X(mmap64)                                                                                                      \
	X(munmap)                                                                                                      \
	X(mremap)                                                                                                      \
	X(pthread_create)                                                                                              \
	X(pthread_exit)                                                                                                \
	X(pthread_sigmask)                                                                                             \
	X(sigprocmask)                                                                                                 \
	X(sigaction)                                                                                                   \
	X(signal)                                                                                                      \
	X(sigwait)                                                                                                     \
	X(sigwaitinfo)                                                                                                 \
	X(sigtimedwait)                                                                                                \
	X(sigpending)                                                                                                  \
	X(signalfd)                                                                                                    \
	X(fork)                                                                                                        \
	X(daemon)                                                                                                      \
	X(forkpty)                                                                                                     \
	X(execve)                                                                                                      \
	X(execv)                                                                                                       \
	X(execvp)                                                                                                      \
	X(execvpe)                                                                                                     \
	X(fexecve)                                                                                                     \
	X(posix_spawn)                                                                                                 \
	X(posix_spawnp)                                                                                                \
	X(dlopen)                                                                                                      \
	X(dlmopen)                                                                                                     \
	X(dlclose)                                                                                                     \
	X(pthread_mutex_lock)                                                                                          \
	X(pthread_mutex_timedlock)                                                                                     \
	X(pthread_mutex_unlock)                                                                                        \
	X(pthread_rwlock_rdlock)                                                                                       \
	X(pthread_rwlock_wrlock)                                                                                       \
	X(pthread_rwlock_unlock)                                                                                       \
	X(pthread_cond_wait)                                                                                           \
	X(pthread_cond_timedwait)                                                                                      \
	X(pthread_join)                                                                                                \
	X(sem_wait)                                                                                                    \
	X(sem_timedwait)

#define INDEX(name) name##_,
enum { NAMES(INDEX) COUNT };

static void *real[COUNT];

static void resolve(void)
{
#define RESOLVE(name) real[name##_] = dlsym(RTLD_NEXT, #name);
	NAMES(RESOLVE)
}

/* Another library's constructor may come before ours. Each function asks for its own address: it is at hand anyway. */
static inline void ready(int name)
{
	if (__builtin_expect(!real[name], 0))
		resolve();
}

/* Declared here, not included: <pty.h> and <sys/signalfd.h> have no use but these two lines. */
struct termios;
struct winsize;
EXPORT pid_t forkpty(int *m, char *name, const struct termios *t, const struct winsize *w);
EXPORT int signalfd(int fd, const sigset_t *set, int flags);
/* C23, which this libc does not know. */
EXPORT void free_sized(void *p, size_t size);
EXPORT void free_aligned_sized(void *p, size_t alignment, size_t size);

#define PASS(type, name, parameters, arguments)                                                                        \
	EXPORT type name parameters                                                                                    \
	{                                                                                                              \
		ready(name##_);                                                                                        \
		return REAL(name) arguments;                                                                           \
	}

PASS(void *, malloc, (size_t size), (size))
PASS(void, free, (void *p), (p))
PASS(void *, calloc, (size_t n, size_t size), (n, size))
PASS(void *, realloc, (void *p, size_t size), (p, size))
PASS(void *, reallocarray, (void *p, size_t n, size_t size), (p, n, size))
PASS(int, posix_memalign, (void **p, size_t alignment, size_t size), (p, alignment, size))
PASS(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size))
PASS(void *, memalign, (size_t alignment, size_t size), (alignment, size))
PASS(void *, valloc, (size_t size), (size))
PASS(void *, pvalloc, (size_t size), (size))
PASS(size_t, malloc_usable_size, (void *p), (p))
PASS(void *, mmap, (void *p, size_t len, int prot, int flags, int fd, off_t at), (p, len, prot, flags, fd, at))
PASS(void *, mmap64, (void *p, size_t len, int prot, int flags, int fd, off64_t at), (p, len, prot, flags, fd, at))
PASS(int, munmap, (void *p, size_t len), (p, len))
PASS(int, pthread_create, (pthread_t * t, const pthread_attr_t *a, void *(*fn)(void *), void *p), (t, a, fn, p))
PASS(int, pthread_sigmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old))
PASS(int, sigprocmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old))
PASS(int, sigaction, (int n, const struct sigaction *act, struct sigaction *old), (n, act, old))
PASS(sighandler_t, signal, (int n, sighandler_t h), (n, h))
PASS(int, sigwait, (const sigset_t *set, int *n), (set, n))
PASS(int, sigwaitinfo, (const sigset_t *set, siginfo_t *si), (set, si))
PASS(int, sigtimedwait, (const sigset_t *set, siginfo_t *si, const struct timespec *t), (set, si, t))
PASS(int, sigpending, (sigset_t * set), (set))
PASS(int, signalfd, (int fd, const sigset_t *set, int flags), (fd, set, flags))
PASS(pid_t, fork, (void), ())
PASS(int, daemon, (int nochdir, int noclose), (nochdir, noclose))
PASS(pid_t, forkpty, (int *m, char *name, const struct termios *t, const struct winsize *w), (m, name, t, w))
PASS(int, execve, (const char *path, char *const argv[], char *const env[]), (path, argv, env))
PASS(int, execv, (const char *path, char *const argv[]), (path, argv))
PASS(int, execvp, (const char *file, char *const argv[]), (file, argv))
PASS(int, execvpe, (const char *file, char *const argv[], char *const env[]), (file, argv, env))
PASS(int, fexecve, (int fd, char *const argv[], char *const env[]), (fd, argv, env))
PASS(int, posix_spawn,
     (pid_t * pid, const char *path, const posix_spawn_file_actions_t *fa, const posix_spawnattr_t *sa,
      char *const argv[], char *const env[]),
     (pid, path, fa, sa, argv, env))
PASS(int, posix_spawnp,
     (pid_t * pid, const char *file, const posix_spawn_file_actions_t *fa, const posix_spawnattr_t *sa,
      char *const argv[], char *const env[]),
     (pid, file, fa, sa, argv, env))
PASS(void *, dlopen, (const char *file, int mode), (file, mode))
PASS(void *, dlmopen, (Lmid_t space, const char *file, int mode), (space, file, mode))
PASS(int, dlclose, (void *handle), (handle))

PASS(int, pthread_mutex_lock, (pthread_mutex_t * m), (m))
PASS(int, pthread_mutex_timedlock, (pthread_mutex_t * m, const struct timespec *t), (m, t))
PASS(int, pthread_mutex_unlock, (pthread_mutex_t * m), (m))
PASS(int, pthread_rwlock_rdlock, (pthread_rwlock_t * l), (l))
PASS(int, pthread_rwlock_wrlock, (pthread_rwlock_t * l), (l))
PASS(int, pthread_rwlock_unlock, (pthread_rwlock_t * l), (l))
PASS(int, pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t *m), (c, m))
PASS(int, pthread_cond_timedwait, (pthread_cond_t * c, pthread_mutex_t *m, const struct timespec *t), (c, m, t))
PASS(int, pthread_join, (pthread_t t, void **result), (t, result))
PASS(int, sem_wait, (sem_t * s), (s))
PASS(int, sem_timedwait, (sem_t * s, const struct timespec *t), (s, t))

EXPORT void free_sized(void *p, size_t size)
{
	(void)size;
	ready(free_);
	REAL(free)(p);
}

EXPORT void free_aligned_sized(void *p, size_t alignment, size_t size)
{
	(void)alignment;
	(void)size;
	ready(free_);
	REAL(free)(p);
}

EXPORT void *mremap(void *p, size_t old_len, size_t new_len, int flags, ...)
{
	va_list ap;
	void *to;

	ready(mremap_);
	va_start(ap, flags);
	to = va_arg(ap, void *);
	va_end(ap);
	return REAL(mremap)(p, old_len, new_len, flags, to);
}

EXPORT void pthread_exit(void *ret)
{
	ready(pthread_exit_);
	REAL(pthread_exit)(ret);
	__builtin_unreachable();
}

/* The list forms: the same as execv and its kin, with the arguments gathered first. */
enum { ARGUMENTS_MAX = 256 };

#define GATHER(first, name)                                                                                            \
	char *argv[ARGUMENTS_MAX] = {(char *)(first)};                                                                 \
	va_list ap;                                                                                                    \
	int n = 0;                                                                                                     \
	ready(name##_);                                                                                                \
	va_start(ap, first);                                                                                           \
	while (argv[n] && n < ARGUMENTS_MAX - 2)                                                                       \
		argv[++n] = va_arg(ap, char *);                                                                        \
	argv[n] = NULL

EXPORT int execl(const char *path, const char *arg, ...)
{
	GATHER(arg, execv);
	va_end(ap);
	return REAL(execv)(path, argv);
}

EXPORT int execlp(const char *file, const char *arg, ...)
{
	GATHER(arg, execvp);
	va_end(ap);
	return REAL(execvp)(file, argv);
}

EXPORT int execle(const char *path, const char *arg, ...)
{
	GATHER(arg, execve);
	char *const *env = va_arg(ap, char *const *);

	va_end(ap);
	return REAL(execve)(path, argv, env);
}

static void *idle(void *unused)
{
	for (;;)
		pause();
	return unused;
}

__attribute__((constructor)) static void init(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;

	resolve();
	if (getenv("BENCH_ALONE"))
		return;
	sigfillset(&all);
	REAL(pthread_sigmask)(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	REAL(pthread_create)(&thread, &attr, idle, NULL);
	pthread_attr_destroy(&attr);
	REAL(pthread_sigmask)(SIG_SETMASK, &old, NULL);
}
