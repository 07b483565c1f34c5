/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel, without libc between: raw system calls that are safe in a handler, keep errno, meet no hook of ours and
 * need no symbol version. All return the result or -errno. */
#ifndef PPA_BASE_SYS_H
#define PPA_BASE_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "agent/base/attr.h"

/* The system call itself. Context: signal. */
long ppa_syscall(long nr, long a, long b, long c, long d, long e, long f) PPA_CTX_SIGNAL;

pid_t ppa_sys_gettid(void) PPA_CTX_SIGNAL;
pid_t ppa_sys_getpid(void) PPA_CTX_SIGNAL;

/* Copy len bytes of this process's memory from src; the count copied (short at an unreadable page), or -errno.
 * Never faults. Context: signal. */
long ppa_sys_read_memory(void *dst, uintptr_t src, size_t len) PPA_CTX_SIGNAL;

/* The same for whoever reads a lot: tid is a thread of this process that lives meanwhile, which saves asking for it each
 * time; 0: the caller. Context: signal. */
long ppa_sys_read_memory_as(pid_t tid, void *dst, uintptr_t src, size_t len) PPA_CTX_SIGNAL;

/* Does the above hold even for memory that other threads may unmap at the same time? Where process_vm_readv is forbidden
 * it does not. Context: signal. */
bool ppa_sys_reads_safely(void) PPA_CTX_SIGNAL;

/* Anonymous private pages, NULL on failure. Context: signal (no lock is taken by us). */
void *ppa_sys_map(size_t bytes) PPA_CTX_SIGNAL;
void ppa_sys_unmap(void *p, size_t bytes) PPA_CTX_SIGNAL;

/* Files, on server threads: whole pread, partial at end of file; count or -errno. */
int ppa_sys_open_read(const char *path) PPA_CTX_SERVER;
long ppa_sys_pread(int fd, void *buf, size_t len, uint64_t offset) PPA_CTX_SERVER;
void ppa_sys_close(int fd) PPA_CTX_SERVER;

/* A clock in nanoseconds; 0 if the clock does not exist (any more). CLOCK_MONOTONIC comes from the vdso.
 * Context: signal. */
uint64_t ppa_sys_clock_ns(clockid_t clock) PPA_CTX_SIGNAL;

/* CPU clock of a thread of this process, from its tid (Linux: clockid = ~tid << 3 | 6). */
static inline clockid_t ppa_sys_thread_clock(pid_t tid)
{
	return (clockid_t)((~(unsigned)tid << 3) | 6U);
}

#endif
