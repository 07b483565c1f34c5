/* SPDX-License-Identifier: Apache-2.0
 *
 * The libc of the vendored archives, as far as they may have one. scripts/vendor renames their calls when it unpacks
 * them, so nothing here depends on link order. The heap is agent/base/vheap.c, libiberty's is unwind/name/demangle.c.
 *
 * Refusals rather than forwards: code that is linked but must not run (libbacktrace's file reader) gets an error from
 * every door, instead of a promise in a comment that it is never called. */
#include "agent/base/vendor.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#include "agent/base/sys.h"

int ppa_vendor_sprintf_chk(char *s, int flag, size_t cap, const char *fmt, ...)
{
	va_list args;
	int n;

	(void)flag;
	va_start(args, fmt);
	/* An unknown size is (size_t)-1, which vsnprintf would refuse. */
	n = vsnprintf(s, cap > INT32_MAX ? INT32_MAX : cap, fmt, args);
	va_end(args);
	return n;
}

int ppa_vendor_snprintf_chk(char *s, size_t n, int flag, size_t cap, const char *fmt, ...)
{
	va_list args;
	int len;

	(void)flag;
	va_start(args, fmt);
	len = vsnprintf(s, n < cap ? n : cap, fmt, args);
	va_end(args);
	return len;
}

int ppa_vendor_mutex_init(void *mutex, const void *attr)
{
	(void)mutex;
	(void)attr;
	return 0;
}

int ppa_vendor_mutex_lock(void *mutex)
{
	(void)mutex;
	return 0;
}

int ppa_vendor_mutex_unlock(void *mutex)
{
	(void)mutex;
	return 0;
}

int ppa_vendor_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	(void)how;
	(void)set;
	(void)old;
	return 0;
}

ssize_t ppa_vendor_write(int fd, const void *buf, size_t len)
{
	(void)fd;
	(void)buf;
	return (ssize_t)len;
}

char *ppa_vendor_strerror(int err)
{
	static char text[] = "error";

	(void)err;
	return text;
}

void *ppa_vendor_mmap(void *at, size_t len, int prot, int flags, int fd, long offset)
{
	void *p;

	(void)at;
	(void)prot;
	(void)fd;
	(void)offset;
	p = flags & MAP_ANONYMOUS ? ppa_sys_map(len) : NULL;
	return p ? p : MAP_FAILED;
}

int ppa_vendor_munmap(void *at, size_t len)
{
	ppa_sys_unmap(at, len);
	return 0;
}

void *ppa_bt_mmap(void *at, size_t len, int prot, int flags, int fd, long offset)
{
	(void)at;
	(void)len;
	(void)prot;
	(void)flags;
	(void)fd;
	(void)offset;
	errno = ENOMEM;
	return MAP_FAILED;
}

int ppa_bt_munmap(void *at, size_t len)
{
	(void)at;
	(void)len;
	return 0;
}

int ppa_bt_dl_iterate_phdr(void *callback, void *data)
{
	(void)callback;
	(void)data;
	return 0;
}

int ppa_bt_fstat(int fd, void *st)
{
	(void)fd;
	(void)st;
	errno = ENOENT;
	return -1;
}

int ppa_bt_lstat(const char *path, void *st)
{
	(void)path;
	(void)st;
	errno = ENOENT;
	return -1;
}

ssize_t ppa_bt_readlink(const char *path, char *buf, size_t len)
{
	(void)path;
	(void)buf;
	(void)len;
	errno = ENOENT;
	return -1;
}

int ppa_bt_open(const char *path, int flags, ...)
{
	(void)path;
	(void)flags;
	errno = ENOENT;
	return -1;
}

int ppa_bt_close(int fd)
{
	(void)fd;
	return 0;
}

int ppa_bt_fcntl(int fd, int cmd, ...)
{
	(void)fd;
	(void)cmd;
	errno = EBADF;
	return -1;
}

int ppa_bt_getpid(void)
{
	return 0;
}
