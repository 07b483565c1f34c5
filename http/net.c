/* SPDX-License-Identifier: Apache-2.0
 *
 * Socket system calls for the server threads; see net.h for why not libc's. Only waiting is more than a call: sending
 * has two clocks, one for a peer that stopped reading and one for a peer that reads a byte now and then, so that no
 * client holds a worker for longer than its answer can be worth. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* POLLRDHUP */
#endif
#include "http/net.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/sys.h"
#include "agent/base/thread.h"

enum { HIGH_FD = 900, HIGH_FD_SMALL_TABLE = 200, NS_PER_MS = 1000000 };

int ppa_net_adopt(int fd)
{
	long high;

	if (fd < 0 || ppa_thread_fds_are_private())
		return fd;
	high = ppa_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, HIGH_FD, 0, 0, 0);
	if (high < 0)
		high = ppa_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, HIGH_FD_SMALL_TABLE, 0, 0, 0);
	if (high < 0)
		return fd;
	ppa_sys_close(fd);
	return (int)high;
}

int ppa_net_socket(int family, int type)
{
	return ppa_net_adopt((int)ppa_syscall(SYS_socket, family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0, 0, 0));
}

int ppa_net_accept(int fd)
{
	return ppa_net_adopt((int)ppa_syscall(SYS_accept4, fd, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0));
}

int ppa_net_bind(int fd, const struct sockaddr *sa, socklen_t len)
{
	return (int)ppa_syscall(SYS_bind, fd, (long)sa, (long)len, 0, 0, 0);
}

int ppa_net_connect(int fd, const struct sockaddr *sa, socklen_t len)
{
	return (int)ppa_syscall(SYS_connect, fd, (long)sa, (long)len, 0, 0, 0);
}

int ppa_net_listen(int fd, int backlog)
{
	return (int)ppa_syscall(SYS_listen, fd, backlog, 0, 0, 0, 0);
}

int ppa_net_set_option(int fd, int level, int name, int value)
{
	return (int)ppa_syscall(SYS_setsockopt, fd, level, name, (long)&value, sizeof(value), 0);
}

int ppa_net_local_address(int fd, struct sockaddr *sa, socklen_t *len)
{
	return (int)ppa_syscall(SYS_getsockname, fd, (long)sa, (long)len, 0, 0, 0);
}

long ppa_net_recv(int fd, void *buf, size_t len, int flags)
{
	return ppa_syscall(SYS_recvfrom, fd, (long)buf, (long)len, flags | MSG_DONTWAIT, 0, 0);
}

long ppa_net_send(int fd, const void *buf, size_t len, int flags)
{
	return ppa_syscall(SYS_sendto, fd, (long)buf, (long)len, flags | MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0);
}

int ppa_net_poll(int fd, short events, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = events};
	struct timespec ts = {timeout_ms / 1000, (long)(timeout_ms % 1000) * NS_PER_MS};
	long n = ppa_syscall(SYS_ppoll, (long)&p, 1, timeout_ms < 0 ? 0 : (long)&ts, 0, 8, 0);

	return n < 0 ? (int)n : n == 0 ? 0 : p.revents;
}

int ppa_net_send_all(int fd, const void *buf, size_t len, size_t *sent, int idle_ms, int64_t total_ms)
{
	uint64_t end = ppa_sys_clock_ns(CLOCK_MONOTONIC) + (uint64_t)total_ms * NS_PER_MS;

	while (*sent < len) {
		long n = ppa_net_send(fd, (const char *)buf + *sent, len - *sent, 0);
		int ready;

		if (n > 0)
			*sent += (size_t)n;
		if (*sent < len && ppa_sys_clock_ns(CLOCK_MONOTONIC) > end)
			return -ETIMEDOUT;
		if (n > 0 || n == -EINTR)
			continue;
		if (n != -EAGAIN)
			return n == 0 ? -EPIPE : (int)n;
		ready = ppa_net_poll(fd, POLLOUT, idle_ms);
		if (ready == 0)
			return -ETIMEDOUT;
		if (ready < 0 && ready != -EINTR)
			return ready;
	}
	return 0;
}

void ppa_net_shutdown_write(int fd)
{
	ppa_syscall(SYS_shutdown, fd, SHUT_WR, 0, 0, 0, 0);
}

bool ppa_net_is_gone(int fd)
{
	int seen = ppa_net_poll(fd, POLLRDHUP, 0);

	return seen < 0 || (seen & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

int ppa_net_epoll_create(void)
{
	return ppa_net_adopt((int)ppa_syscall(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0, 0, 0, 0));
}

int ppa_net_epoll_ctl(int epoll_fd, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = {.events = events, .data = {.u64 = data}};

	return (int)ppa_syscall(SYS_epoll_ctl, epoll_fd, op, fd, (long)&ev, 0, 0);
}

int ppa_net_epoll_wait(int epoll_fd, struct epoll_event *ev, int n, int timeout_ms)
{
	return (int)ppa_syscall(SYS_epoll_pwait, epoll_fd, (long)ev, n, timeout_ms, 0, 8);
}

void ppa_net_sleep_ms(int ms)
{
	struct timespec left = {ms / 1000, (long)(ms % 1000) * NS_PER_MS};

	while (ppa_syscall(SYS_nanosleep, (long)&left, (long)&left, 0, 0, 0, 0) == -EINTR)
		;
}

const char *ppa_net_error_text(int err)
{
	static const struct {
		int err;
		const char *text;
	} texts[] = {
		{EACCES, "permission denied"},
		{EPERM, "not permitted"},
		{EADDRINUSE, "address in use"},
		{EADDRNOTAVAIL, "no such address on this machine"},
		{EAFNOSUPPORT, "address family not supported"},
		{ENOENT, "no such directory"},
		{ENOTDIR, "not a directory"},
		{EISDIR, "is a directory"},
		{EEXIST, "exists and is not a socket"},
		{EROFS, "read-only file system"},
		{ENAMETOOLONG, "path too long"},
		{ELOOP, "too many symbolic links"},
		{ENOSPC, "no space left"},
		{ENOMEM, "out of memory"},
		{ENOBUFS, "out of socket memory"},
		{EMFILE, "too many open files"},
		{ENFILE, "too many open files in the system"},
		{EINVAL, "invalid argument"},
	};

	for (size_t i = 0; i < PPA_ARRAY_LEN(texts); i++) {
		if (texts[i].err == err)
			return texts[i].text;
	}
	return "unexpected error";
}
