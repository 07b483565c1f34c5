/* SPDX-License-Identifier: Apache-2.0
 *
 * exec and spawn pass the thread's mask on. Where our number counts as blocked (see signal.c) the new program must find
 * it blocked: it is blocked for real just before, and freed again if the call fails.
 *
 * Timers need no care: the kernel deletes them and flushes their pending signals during exec (flush_itimer_signals in
 * begin_new_exec). The child of a vfork runs these hooks in its parent's memory; they touch nothing but the mask. */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <unistd.h>

#include "agent/base/real.h"
#include "agent/base/sampling_signal.h"

static void set_blocked(int how)
{
	int n = ppa_signal_number(), saved = errno;
	sigset_t set, mask;

	if (!n || ppa_real()->pthread_sigmask(SIG_BLOCK, NULL, &mask) || !ppa_signal_counts_as_in(&mask, n))
		return;
	sigemptyset(&set);
	sigaddset(&set, n);
	ppa_real()->pthread_sigmask(how, &set, NULL);
	errno = saved;
}

PPA_EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	int rc;

	set_blocked(SIG_BLOCK);
	rc = ppa_real()->execve(path, argv, envp);
	set_blocked(SIG_UNBLOCK);
	return rc;
}

PPA_EXPORT int execv(const char *path, char *const argv[])
{
	int rc;

	set_blocked(SIG_BLOCK);
	rc = ppa_real()->execv(path, argv);
	set_blocked(SIG_UNBLOCK);
	return rc;
}

PPA_EXPORT int execvp(const char *file, char *const argv[])
{
	int rc;

	set_blocked(SIG_BLOCK);
	rc = ppa_real()->execvp(file, argv);
	set_blocked(SIG_UNBLOCK);
	return rc;
}

PPA_EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	int rc;

	set_blocked(SIG_BLOCK);
	rc = ppa_real()->execvpe(file, argv, envp);
	set_blocked(SIG_UNBLOCK);
	return rc;
}

PPA_EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	int rc;

	set_blocked(SIG_BLOCK);
	rc = ppa_real()->fexecve(fd, argv, envp);
	set_blocked(SIG_UNBLOCK);
	return rc;
}

/* The list forms collect their arguments on the stack, as libc's do: no allocation between vfork and exec. */
static size_t count_args(va_list ap)
{
	size_t n = 0;

	while (va_arg(ap, char *))
		n++;
	return n;
}

static void collect_args(char **argv, va_list *ap)
{
	while ((*argv++ = va_arg(*ap, char *)))
		;
}

/* ap stands behind the terminating NULL afterwards, where execle finds its environment. The declared attribute says
 * that arg0 is never NULL; programs pass it all the same, so it is laundered. */
#define LIST_ARGV(argv, arg0)                                                                                          \
	const char *first = (arg0);                                                                                    \
	char **argv;                                                                                                   \
	va_list ap;                                                                                                    \
	__asm__("" : "+r"(first));                                                                                     \
	va_start(ap, arg0);                                                                                            \
	argv = __builtin_alloca((2 + (first ? count_args(ap) : 0)) * sizeof(char *));                                  \
	va_end(ap);                                                                                                    \
	va_start(ap, arg0);                                                                                            \
	argv[0] = (char *)(uintptr_t)first;                                                                            \
	if (first)                                                                                                     \
	collect_args(argv + 1, &ap)

PPA_EXPORT int execl(const char *path, const char *arg0, ...)
{
	LIST_ARGV(argv, arg0);
	va_end(ap);
	return execv(path, argv);
}

PPA_EXPORT int execlp(const char *file, const char *arg0, ...)
{
	LIST_ARGV(argv, arg0);
	va_end(ap);
	return execvp(file, argv);
}

PPA_EXPORT int execle(const char *path, const char *arg0, ...)
{
	char *const *envp;

	LIST_ARGV(argv, arg0);
	envp = va_arg(ap, char *const *);
	va_end(ap);
	return execve(path, argv, envp);
}

PPA_EXPORT int posix_spawn(pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *actions,
			   const posix_spawnattr_t *restrict attr, char *const argv[restrict],
			   char *const envp[restrict])
{
	int rc;

	set_blocked(SIG_BLOCK);
	rc = ppa_real()->posix_spawn(pid, path, actions, attr, argv, envp);
	set_blocked(SIG_UNBLOCK);
	return rc;
}

PPA_EXPORT int posix_spawnp(pid_t *restrict pid, const char *restrict file, const posix_spawn_file_actions_t *actions,
			    const posix_spawnattr_t *restrict attr, char *const argv[restrict],
			    char *const envp[restrict])
{
	int rc;

	set_blocked(SIG_BLOCK);
	rc = ppa_real()->posix_spawnp(pid, file, actions, attr, argv, envp);
	set_blocked(SIG_UNBLOCK);
	return rc;
}
