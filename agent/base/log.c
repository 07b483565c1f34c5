/* SPDX-License-Identifier: Apache-2.0
 *
 * One line to the target's standard error, and four ways not to disturb it:
 *
 *   descriptor 2 may no longer be standard error (a daemon closed it and opened its database): the file must still be
 *   the one that was there at start-up, by device and inode;
 *   a pipe nobody reads must not block the target: if it is not writable at once, the line is dropped;
 *   a pipe nobody holds must not kill it: SIGPIPE is blocked around the write and taken back if it came;
 *   our own threads have another descriptor table: there descriptor 2 is borrowed for the one write, by pidfd_getfd,
 *   or by opening it through /proc where a sandbox forbids that. */
#include "agent/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "agent/base/sys.h"
#include "agent/base/thread.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

enum { LINE_BYTES = 512, KERNEL_SIGSET_BYTES = 8, STDERR = 2 };

static struct {
	bool known; /* descriptor 2 was open at start-up */
	bool quiet;
	dev_t dev;
	ino_t ino;
} target_stderr;

static bool identify(int fd, dev_t *dev, ino_t *ino)
{
	struct stat st;

	if (ppa_syscall(SYS_fstat, fd, (long)&st, 0, 0, 0, 0))
		return false;
	*dev = st.st_dev;
	*ino = st.st_ino;
	return true;
}

void ppa_log_init(void)
{
	target_stderr.known = identify(STDERR, &target_stderr.dev, &target_stderr.ino);
}

void ppa_log_set_quiet(bool quiet)
{
	target_stderr.quiet = quiet;
}

static bool is_unchanged(int fd)
{
	dev_t dev;
	ino_t ino;

	return identify(fd, &dev, &ino) && dev == target_stderr.dev && ino == target_stderr.ino;
}

/* Descriptor 2 of the process, in the table of this thread; -1 if it cannot be had. */
static int borrow_stderr(void)
{
	char path[40];
	int pid = ppa_sys_getpid();
	int pidfd = (int)ppa_syscall(SYS_pidfd_open, pid, 0, 0, 0, 0, 0);
	int fd = -1;

	if (pidfd >= 0) {
		fd = (int)ppa_syscall(SYS_pidfd_getfd, pidfd, STDERR, 0, 0, 0, 0);
		ppa_sys_close(pidfd);
	}
	if (fd >= 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/%d/fd/2", pid);
	fd = (int)ppa_syscall(SYS_openat, AT_FDCWD, (long)path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
			      0, 0, 0);
	return fd < 0 ? -1 : fd;
}

static void write_line(int fd, const char *line, size_t len)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	struct timespec zero = {0, 0};
	uint64_t sigpipe = 1ULL << (SIGPIPE - 1), old = 0, pending = 0;

	if (!is_unchanged(fd))
		return;
	if (ppa_syscall(SYS_ppoll, (long)&p, 1, (long)&zero, 0, 0, 0) != 1 || !(p.revents & POLLOUT))
		return;
	ppa_syscall(SYS_rt_sigpending, (long)&pending, KERNEL_SIGSET_BYTES, 0, 0, 0, 0);
	ppa_syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&sigpipe, (long)&old, KERNEL_SIGSET_BYTES, 0, 0);
	if (ppa_syscall(SYS_write, fd, (long)line, (long)len, 0, 0, 0) == -EPIPE && !(pending & sigpipe))
		ppa_syscall(SYS_rt_sigtimedwait, (long)&sigpipe, 0, (long)&zero, KERNEL_SIGSET_BYTES, 0, 0);
	ppa_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&old, 0, KERNEL_SIGSET_BYTES, 0, 0);
}

void ppa_log(const char *fmt, ...)
{
	static const char prefix[] = "pprofagent: ";
	char line[LINE_BYTES];
	size_t len = sizeof(prefix) - 1;
	int saved = errno, n, fd;
	va_list ap;

	if (target_stderr.quiet || !target_stderr.known)
		return;
	memcpy(line, prefix, len);
	va_start(ap, fmt);
	n = vsnprintf(line + len, sizeof(line) - len - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		goto out;
	len += (size_t)n < sizeof(line) - len - 1 ? (size_t)n : sizeof(line) - len - 2;
	line[len++] = '\n';
	if (!ppa_thread_is_ours()) {
		write_line(STDERR, line, len);
	} else if ((fd = borrow_stderr()) >= 0) {
		write_line(fd, line, len);
		ppa_sys_close(fd);
	}
out:
	errno = saved;
}
