/* SPDX-License-Identifier: Apache-2.0
 *
 * The file is written beside its final name and renamed over it, so that a reader sees the old address or the new one.
 * It is not synced: after a crash of the machine nobody listens there anyway. Not removed at exit: nothing of ours runs
 * then; the next start replaces it. */
#include "http/announce.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "agent/base/log.h"
#include "agent/base/sys.h"
#include "http/listen.h"
#include "http/net.h"

enum { FILE_PATH_MAX = 320, FILE_MODE = 0644 };

static const char *reach_of(const struct ppa_listener *l)
{
	static const uint8_t any[4];

	if (l->address.kind == PPA_ADDRESS_ANY)
		return ", on every interface";
	if (l->address.kind == PPA_ADDRESS_IP4 && !memcmp(l->address.ip, any, sizeof(any)))
		return ", on every IPv4 interface";
	return "";
}

void ppa_announce_line(const struct ppa_listener *l, const char *program, pid_t pid)
{
	char where[PPA_LISTEN_TEXT_MAX];

	ppa_listen_text(l, where);
	if (l->address.kind == PPA_ADDRESS_UNIX)
		ppa_log("%s (pid %d, %s)", where, (int)pid, program);
	else
		ppa_log("http://%s/debug/pprof/ (pid %d, %s)%s", where, (int)pid, program, reach_of(l));
}

static int write_new(const char *path, const char *text, size_t len)
{
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
	long fd = ppa_syscall(SYS_openat, AT_FDCWD, (long)path, flags, FILE_MODE, 0, 0), n;

	if (fd == -EEXIST) { /* left by a process that had our id and died in between */
		ppa_syscall(SYS_unlinkat, AT_FDCWD, (long)path, 0, 0, 0, 0);
		fd = ppa_syscall(SYS_openat, AT_FDCWD, (long)path, flags, FILE_MODE, 0, 0);
	}
	if (fd < 0)
		return (int)fd;
	n = ppa_syscall(SYS_write, fd, (long)text, (long)len, 0, 0, 0);
	ppa_sys_close((int)fd);
	return n == (long)len ? 0 : n < 0 ? (int)n : -ENOSPC;
}

void ppa_announce_file(const struct ppa_listener *l, const char *file, pid_t pid)
{
	char where[PPA_LISTEN_TEXT_MAX], text[PPA_LISTEN_TEXT_MAX + 1], beside[FILE_PATH_MAX];
	int err;

	if (!*file)
		return;
	ppa_listen_text(l, where);
	snprintf(text, sizeof(text), "%s\n", where);
	snprintf(beside, sizeof(beside), "%s.%d.tmp", file, (int)pid);
	err = write_new(beside, text, strlen(text));
	if (!err)
		err = (int)ppa_syscall(SYS_renameat, AT_FDCWD, (long)beside, AT_FDCWD, (long)file, 0, 0);
	if (!err)
		return;
	ppa_syscall(SYS_unlinkat, AT_FDCWD, (long)beside, 0, 0, 0, 0);
	ppa_log("cannot write PPROF_ADDR_FILE %s: %s", file, ppa_net_error_text(-err));
}
