/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocking calls that are no locks: readiness, sockets, files, sleeping, children. Measured for the block profile if
 * PPROF_BLOCK_IO asks for it, under a leaf of their own, [blocking I/O], and while a trace is recorded; otherwise each hook is
 * one look and a jump, with every register as it came. All of these may be called in signal handlers, and most are cancellation points: the genuine
 * function is called at once and once.
 *
 * How long a call took is all that is known: one that had its answer at hand counts for as little as it waited. */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/resolve.h"
#include "agent/base/self.h"
#include "agent/lock/contention.h"
#include "agent/thread/parked.h"
#include "agent/trace/trace.h"

/* Without fcntl.h, in which the mode is one of any number of arguments: it travels in the same register, there or not. */
int open(const char *path, int flags, mode_t mode);
int open64(const char *path, int flags, mode_t mode);
int openat(int dir, const char *path, int flags, mode_t mode);
int openat64(int dir, const char *path, int flags, mode_t mode);
int flock(int fd, int op);

extern const char *gnu_get_libc_version(void) __attribute__((weak));

#define NAMES(X)                                                                                                       \
	X(poll)                                                                                                        \
	X(ppoll)                                                                                                       \
	X(select)                                                                                                      \
	X(pselect)                                                                                                     \
	X(epoll_wait)                                                                                                  \
	X(epoll_pwait)                                                                                                 \
	X(read)                                                                                                        \
	X(recv)                                                                                                        \
	X(recvfrom)                                                                                                    \
	X(recvmsg)                                                                                                     \
	X(accept)                                                                                                      \
	X(accept4)                                                                                                     \
	X(connect)                                                                                                     \
	X(readv)                                                                                                       \
	X(write)                                                                                                       \
	X(writev)                                                                                                      \
	X(send)                                                                                                        \
	X(sendto)                                                                                                      \
	X(sendmsg)                                                                                                     \
	X(pread)                                                                                                       \
	X(pwrite)                                                                                                      \
	X(open)                                                                                                        \
	X(openat)                                                                                                      \
	X(fsync)                                                                                                       \
	X(fdatasync)                                                                                                   \
	X(flock)                                                                                                       \
	X(nanosleep)                                                                                                   \
	X(clock_nanosleep)                                                                                             \
	X(sleep)                                                                                                       \
	X(usleep)                                                                                                      \
	X(wait)                                                                                                        \
	X(waitpid)                                                                                                     \
	X(waitid)                                                                                                      \
	X(wait3)                                                                                                       \
	X(wait4)

/* In glibc these are functions of their own; musl knows them as other names of the same. */
#define NAMES64(X)                                                                                                     \
	X(pread)                                                                                                       \
	X(pwrite)                                                                                                      \
	X(open)                                                                                                        \
	X(openat)

#define FIELD(name) __typeof__(&name) name;
#define FIELD64(name) __typeof__(&name##64) name##64;
struct genuine {
	NAMES(FIELD)
	NAMES64(FIELD64)
};

/* Until they are known each is a function that asks (below), so that a hook need not look. */
static struct genuine real;

static __attribute__((noinline, cold)) void resolve(void)
{
	struct ppa_resolving r = ppa_resolve_begin();

#define RESOLVE(name) *(void **)&real.name = dlsym(RTLD_NEXT, #name);
#define RESOLVE64(name)                                                                                                \
	*(void **)&real.name##64 = gnu_get_libc_version ? dlsym(RTLD_NEXT, #name "64") : (void *)real.name;
	NAMES(RESOLVE)
	NAMES64(RESOLVE64)
	ppa_resolve_end(&r);
}

__attribute__((constructor)) static void resolve_at_start(void)
{
	resolve();
}

/* Most answer -1 and errno. */
static enum ppa_wait_outcome by_errno(bool is_failed)
{
	if (!is_failed)
		return PPA_WAIT_GOT;
	return errno == EINTR || errno == ETIMEDOUT ? PPA_WAIT_VAIN : PPA_WAIT_REFUSED;
}

static enum ppa_wait_outcome by_error(int err)
{
	if (!err)
		return PPA_WAIT_GOT;
	return err == EINTR ? PPA_WAIT_VAIN : PPA_WAIT_REFUSED;
}

/* The hook of a function: kind for whoever dumps threads, object it waits for, which descriptor (struct ppa_trace_wait's fd),
 * outcome of its result r, arguments in parentheses, then its parameters. */
#define IO(type, name, kind, object, about, outcome, arguments, ...)                                                   \
	static __attribute__((noinline, cold)) type waiting_##name(uintptr_t caller, __VA_ARGS__)                      \
	{                                                                                                              \
		struct ppa_wait w;                                                                                     \
		type r;                                                                                                \
                                                                                                                       \
		if (ppa_self.is_ours)                                                                                  \
			return real.name arguments;                                                                    \
		PPA_WAIT_MAY_UNWIND();                                                                                 \
		ppa_wait_begin(&w, NULL, kind, object);                                                                \
		w.is_io = true;                                                                                        \
		w.fd = about;                                                                                          \
		ppa_parked_enter(kind, object, w.begin_ns);                                                            \
		r = real.name arguments;                                                                               \
		ppa_parked_leave();                                                                                    \
		ppa_wait_end(&w, outcome, (uintptr_t)real.name, caller);                                               \
		return r;                                                                                              \
	}                                                                                                              \
	static __attribute__((cold)) type boot_##name(__VA_ARGS__)                                                     \
	{                                                                                                              \
		resolve();                                                                                             \
		return real.name arguments;                                                                            \
	}                                                                                                              \
	PPA_EXPORT type name(__VA_ARGS__)                                                                              \
	{                                                                                                              \
		if (ppa_unlikely(ppa_contention_measures_io()))                                                        \
			return waiting_##name((uintptr_t)__builtin_return_address(0), EACH arguments);                 \
		return real.name arguments;                                                                            \
	}
#define EACH(...) __VA_ARGS__

#define FAILED by_errno(r < 0)
#define NETWORK PPA_TRACE_FD_NETWORK
#define FILE_ PPA_TRACE_FD_FILE
#define NOTHING PPA_TRACE_FD_NONE

/* ---- readiness ---- */

IO(int, poll, PPA_PARKED_IO, fds, NETWORK, FAILED, (fds, n, ms), struct pollfd *fds, nfds_t n, int ms)
IO(int, ppoll, PPA_PARKED_IO, fds, NETWORK, FAILED, (fds, n, t, mask), struct pollfd *fds, nfds_t n,
   const struct timespec *t, const sigset_t *mask)
IO(int, select, PPA_PARKED_IO, in, NETWORK, FAILED, (n, in, out, except, t), int n, fd_set *in, fd_set *out,
   fd_set *except, struct timeval *t)
IO(int, pselect, PPA_PARKED_IO, in, NETWORK, FAILED, (n, in, out, except, t, mask), int n, fd_set *in, fd_set *out,
   fd_set *except, const struct timespec *t, const sigset_t *mask)
IO(int, epoll_wait, PPA_PARKED_IO, NULL, NETWORK, FAILED, (fd, events, n, ms), int fd, struct epoll_event *events,
   int n, int ms)
IO(int, epoll_pwait, PPA_PARKED_IO, NULL, NETWORK, FAILED, (fd, events, n, ms, mask), int fd,
   struct epoll_event *events, int n, int ms, const sigset_t *mask)

/* ---- data and connections ---- */

IO(ssize_t, read, PPA_PARKED_IO, NULL, fd, FAILED, (fd, buf, n), int fd, void *buf, size_t n)
IO(ssize_t, recv, PPA_PARKED_IO, NULL, NETWORK, FAILED, (fd, buf, n, flags), int fd, void *buf, size_t n, int flags)
IO(ssize_t, recvfrom, PPA_PARKED_IO, NULL, NETWORK, FAILED, (fd, buf, n, flags, from, len), int fd, void *restrict buf,
   size_t n, int flags, __SOCKADDR_ARG from, socklen_t *restrict len)
IO(ssize_t, recvmsg, PPA_PARKED_IO, NULL, NETWORK, FAILED, (fd, msg, flags), int fd, struct msghdr *msg, int flags)
IO(int, accept, PPA_PARKED_IO, NULL, NETWORK, FAILED, (fd, from, len), int fd, __SOCKADDR_ARG from,
   socklen_t *restrict len)
IO(int, accept4, PPA_PARKED_IO, NULL, NETWORK, FAILED, (fd, from, len, flags), int fd, __SOCKADDR_ARG from,
   socklen_t *restrict len, int flags)
IO(int, connect, PPA_PARKED_IO, NULL, NETWORK, FAILED, (fd, to, len), int fd, __CONST_SOCKADDR_ARG to, socklen_t len)

IO(ssize_t, readv, PPA_PARKED_IO, NULL, fd, FAILED, (fd, v, n), int fd, const struct iovec *v, int n)
IO(ssize_t, write, PPA_PARKED_IO, NULL, fd, FAILED, (fd, buf, n), int fd, const void *buf, size_t n)
IO(ssize_t, writev, PPA_PARKED_IO, NULL, fd, FAILED, (fd, v, n), int fd, const struct iovec *v, int n)
IO(ssize_t, send, PPA_PARKED_IO, NULL, fd, FAILED, (fd, buf, n, flags), int fd, const void *buf, size_t n, int flags)
IO(ssize_t, sendto, PPA_PARKED_IO, NULL, fd, FAILED, (fd, buf, n, flags, to, len), int fd, const void *buf, size_t n,
   int flags, __CONST_SOCKADDR_ARG to, socklen_t len)
IO(ssize_t, sendmsg, PPA_PARKED_IO, NULL, fd, FAILED, (fd, msg, flags), int fd, const struct msghdr *msg, int flags)

/* ---- files ---- */

IO(ssize_t, pread, PPA_PARKED_IO, NULL, FILE_, FAILED, (fd, buf, n, at), int fd, void *buf, size_t n, off_t at)
IO(ssize_t, pread64, PPA_PARKED_IO, NULL, FILE_, FAILED, (fd, buf, n, at), int fd, void *buf, size_t n, off64_t at)
IO(ssize_t, pwrite, PPA_PARKED_IO, NULL, FILE_, FAILED, (fd, buf, n, at), int fd, const void *buf, size_t n, off_t at)
IO(ssize_t, pwrite64, PPA_PARKED_IO, NULL, FILE_, FAILED, (fd, buf, n, at), int fd, const void *buf, size_t n,
   off64_t at)
IO(int, open, PPA_PARKED_IO, NULL, FILE_, FAILED, (path, flags, mode), const char *path, int flags, mode_t mode)
IO(int, open64, PPA_PARKED_IO, NULL, FILE_, FAILED, (path, flags, mode), const char *path, int flags, mode_t mode)
IO(int, openat, PPA_PARKED_IO, NULL, FILE_, FAILED, (dir, path, flags, mode), int dir, const char *path, int flags,
   mode_t mode)
IO(int, openat64, PPA_PARKED_IO, NULL, FILE_, FAILED, (dir, path, flags, mode), int dir, const char *path, int flags,
   mode_t mode)
IO(int, fsync, PPA_PARKED_IO, NULL, FILE_, FAILED, (fd), int fd)
IO(int, fdatasync, PPA_PARKED_IO, NULL, FILE_, FAILED, (fd), int fd)
IO(int, flock, PPA_PARKED_IO, NULL, FILE_, FAILED, (fd, op), int fd, int op)

/* ---- sleep ---- */

IO(int, nanosleep, PPA_PARKED_SLEEP, NULL, NOTHING, FAILED, (t, left), const struct timespec *t, struct timespec *left)
IO(int, clock_nanosleep, PPA_PARKED_SLEEP, NULL, NOTHING, by_error(r), (clock, flags, t, left), clockid_t clock,
   int flags, const struct timespec *t, struct timespec *left)
IO(unsigned, sleep, PPA_PARKED_SLEEP, NULL, NOTHING, PPA_WAIT_GOT, (s), unsigned s)
IO(int, usleep, PPA_PARKED_SLEEP, NULL, NOTHING, FAILED, (us), useconds_t us)

/* ---- children ---- */

IO(pid_t, wait, PPA_PARKED_CHILD, NULL, NOTHING, FAILED, (status), int *status)
IO(pid_t, waitpid, PPA_PARKED_CHILD, NULL, NOTHING, FAILED, (pid, status, options), pid_t pid, int *status, int options)
IO(int, waitid, PPA_PARKED_CHILD, NULL, NOTHING, FAILED, (type, id, info, options), idtype_t type, id_t id,
   siginfo_t *info, int options)
IO(pid_t, wait3, PPA_PARKED_CHILD, NULL, NOTHING, FAILED, (status, options, usage), int *status, int options,
   struct rusage *usage)
IO(pid_t, wait4, PPA_PARKED_CHILD, NULL, NOTHING, FAILED, (pid, status, options, usage), pid_t pid, int *status,
   int options, struct rusage *usage)

#define BOOT(name) .name = boot_##name,
#define BOOT64(name) .name##64 = boot_##name##64,
static struct genuine real = {NAMES(BOOT) NAMES64(BOOT64)};
