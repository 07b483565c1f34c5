/* SPDX-License-Identifier: Apache-2.0
 *
 * Binding, and telling our own kind from strangers. Whole trees of processes inherit one PPROF_ADDR and only one of them
 * can have it; that is normal and not worth a line, while a stranger on the port is. Whoever holds an address therefore
 * also holds an abstract socket named after it, which lives in the same network namespace and dies with its process.
 * The lock is taken before the address: a process that finds the address busy but got the lock has met a stranger.
 *
 * A socket file outlives its server. Only the holder of the lock may replace a stale one, so that two starting processes
 * cannot remove each other's. Its mode is set on the descriptor before bind, which the kernel carries over to the file:
 * there is no moment at which others could connect, and umask, which belongs to the target, is not touched.
 *
 * SO_REUSEADDR lets us in while old connections linger; SO_REUSEPORT, which would split connections between us and the
 * holder, is never set. */
#include "http/listen.h"

#include <arpa/inet.h>
#include <endian.h> /* htobe16: htons is a function of libc's at -O0 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "agent/base/sys.h"
#include "http/net.h"

enum { BACKLOG = 256, SOCKET_FILE_MODE = 0600 };

_Static_assert(PPA_LISTEN_PATH_MAX == sizeof(((struct sockaddr_un *)0)->sun_path), "the kernel's limit");

/* FNV-1a, 64 bits: a path of any length becomes part of a short name. */
static unsigned long long hash_path(const char *path)
{
	unsigned long long h = 14695981039346656037ULL;

	for (; *path; path++)
		h = (h ^ (unsigned char)*path) * 1099511628211ULL;
	return h;
}

/* The descriptor, or -EADDRINUSE when another agent has it. */
static int take_lock(const struct ppa_address *a, const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	char *name = sa.sun_path + 1; /* a leading NUL: abstract */
	size_t cap = sizeof(sa.sun_path) - 1;
	int n, fd, err;

	if (a->kind == PPA_ADDRESS_UNIX)
		n = snprintf(name, cap, "libpprofagent/unix/%llx", hash_path(path));
	else
		n = snprintf(name, cap, "libpprofagent/tcp/%u", a->port);
	fd = ppa_net_socket(AF_UNIX, SOCK_STREAM);
	if (fd < 0)
		return fd;
	err = ppa_net_bind(fd, (struct sockaddr *)&sa, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n));
	if (err) {
		ppa_sys_close(fd);
		return err;
	}
	return fd;
}

static int finish(struct ppa_listener *l, const struct sockaddr *sa, socklen_t len)
{
	int err = ppa_net_bind(l->fd, sa, len);

	return err ? err : ppa_net_listen(l->fd, BACKLOG);
}

static int bind_ip4(struct ppa_listener *l, const uint8_t *ip)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htobe16(l->address.port)};

	memcpy(&sa.sin_addr, ip, sizeof(sa.sin_addr));
	l->fd = ppa_net_socket(AF_INET, SOCK_STREAM);
	if (l->fd < 0)
		return l->fd;
	ppa_net_set_option(l->fd, SOL_SOCKET, SO_REUSEADDR, 1);
	return finish(l, (struct sockaddr *)&sa, sizeof(sa));
}

static int bind_ip6(struct ppa_listener *l, const uint8_t *ip)
{
	struct sockaddr_in6 sa = {.sin6_family = AF_INET6, .sin6_port = htobe16(l->address.port)};

	memcpy(&sa.sin6_addr, ip, sizeof(sa.sin6_addr));
	l->fd = ppa_net_socket(AF_INET6, SOCK_STREAM);
	if (l->fd < 0)
		return l->fd;
	ppa_net_set_option(l->fd, SOL_SOCKET, SO_REUSEADDR, 1);
	/* The system's default may be either. */
	ppa_net_set_option(l->fd, IPPROTO_IPV6, IPV6_V6ONLY, l->address.kind != PPA_ADDRESS_ANY);
	return finish(l, (struct sockaddr *)&sa, sizeof(sa));
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		ppa_sys_close(*fd);
	*fd = -1;
}

static int bind_tcp(struct ppa_listener *l)
{
	static const uint8_t any[16];
	int err;

	if (l->address.kind == PPA_ADDRESS_IP4)
		return bind_ip4(l, l->address.ip);
	err = bind_ip6(l, l->address.ip);
	/* Kernels without IPv6, and containers where it is switched off. */
	if (l->address.kind == PPA_ADDRESS_ANY && (err == -EAFNOSUPPORT || err == -EADDRNOTAVAIL)) {
		close_fd(&l->fd);
		err = bind_ip4(l, any);
	}
	return err;
}

/* What the kernel chose for port 0. Both families keep the port in the same place. */
static int learn_port(struct ppa_listener *l)
{
	struct sockaddr_in6 sa;
	socklen_t len = sizeof(sa);
	int err = ppa_net_local_address(l->fd, (struct sockaddr *)&sa, &len);

	_Static_assert(offsetof(struct sockaddr_in6, sin6_port) == offsetof(struct sockaddr_in, sin_port), "port");
	if (!err)
		l->address.port = be16toh(sa.sin6_port);
	return err;
}

static int open_tcp(struct ppa_listener *l)
{
	bool is_free_port = l->address.port == 0;
	int lock = is_free_port ? -1 : take_lock(&l->address, l->path), err;

	l->lock_fd = lock < 0 ? -1 : lock;
	err = bind_tcp(l);
	if (!err)
		err = learn_port(l);
	if (err) {
		l->is_held_by_agent = err == -EADDRINUSE && lock == -EADDRINUSE;
		return err;
	}
	if (is_free_port) {
		lock = take_lock(&l->address, l->path);
		l->lock_fd = lock < 0 ? -1 : lock;
	}
	/* Accepted connections inherit both. */
	ppa_net_set_option(l->fd, IPPROTO_TCP, TCP_NODELAY, 1);
	ppa_net_set_option(l->fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	return 0;
}

static bool is_socket_file(const char *path)
{
	struct stat st;

	/* Not stat(): before glibc 2.33 it has another name. */
	return ppa_syscall(SYS_newfstatat, AT_FDCWD, (long)path, (long)&st, AT_SYMLINK_NOFOLLOW, 0, 0) == 0 &&
	       S_ISSOCK(st.st_mode);
}

/* Does nobody listen on the socket file any more? */
static bool is_stale(const struct sockaddr_un *sa)
{
	int fd = ppa_net_socket(AF_UNIX, SOCK_STREAM), err;

	if (fd < 0)
		return false;
	err = ppa_net_connect(fd, (const struct sockaddr *)sa, sizeof(*sa));
	ppa_sys_close(fd);
	return err == -ECONNREFUSED;
}

static int bind_unix(struct ppa_listener *l)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int err;

	memcpy(sa.sun_path, l->path, sizeof(sa.sun_path));
	l->fd = ppa_net_socket(AF_UNIX, SOCK_STREAM);
	if (l->fd < 0)
		return l->fd;
	ppa_syscall(SYS_fchmod, l->fd, SOCKET_FILE_MODE, 0, 0, 0, 0);
	err = finish(l, (struct sockaddr *)&sa, sizeof(sa));
	if (err != -EADDRINUSE)
		return err;
	if (!is_socket_file(l->path))
		return -EEXIST;
	if (!is_stale(&sa))
		return -EADDRINUSE;
	ppa_syscall(SYS_unlinkat, AT_FDCWD, (long)l->path, 0, 0, 0, 0);
	return finish(l, (struct sockaddr *)&sa, sizeof(sa));
}

static int open_unix(struct ppa_listener *l, const char *program, pid_t pid)
{
	int err = ppa_address_expand(l->address.pattern, program, pid, l->path, sizeof(l->path));
	int lock;

	if (err < 0)
		return err;
	lock = take_lock(&l->address, l->path);
	l->lock_fd = lock < 0 ? -1 : lock;
	l->is_held_by_agent = lock == -EADDRINUSE;
	return l->is_held_by_agent ? -EADDRINUSE : bind_unix(l);
}

int ppa_listen_open(struct ppa_listener *l, const struct ppa_address *a, const char *program, pid_t pid)
{
	int err;

	memset(l, 0, sizeof(*l));
	l->fd = l->lock_fd = -1;
	l->address = *a;
	err = a->kind == PPA_ADDRESS_UNIX ? open_unix(l, program, pid) : open_tcp(l);
	if (err)
		ppa_listen_close(l);
	return err;
}

void ppa_listen_close(struct ppa_listener *l)
{
	close_fd(&l->fd);
	close_fd(&l->lock_fd);
}

void ppa_listen_text(const struct ppa_listener *l, char buf[static PPA_LISTEN_TEXT_MAX])
{
	static const uint8_t any[4];
	char ip[INET6_ADDRSTRLEN] = "127.0.0.1";
	const struct ppa_address *a = &l->address;

	switch (a->kind) {
	case PPA_ADDRESS_UNIX:
		snprintf(buf, PPA_LISTEN_TEXT_MAX, "unix:%s", l->path);
		return;
	case PPA_ADDRESS_IP6:
		inet_ntop(AF_INET6, a->ip, ip, sizeof(ip));
		snprintf(buf, PPA_LISTEN_TEXT_MAX, "[%s]:%u", ip, a->port);
		return;
	case PPA_ADDRESS_IP4:
		if (memcmp(a->ip, any, sizeof(any)))
			inet_ntop(AF_INET, a->ip, ip, sizeof(ip));
		break;
	case PPA_ADDRESS_ANY:
		break;
	}
	snprintf(buf, PPA_LISTEN_TEXT_MAX, "%s:%u", ip, a->port);
}
