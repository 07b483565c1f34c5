/* SPDX-License-Identifier: Apache-2.0
 *
 * Raw system calls. Going round libc keeps errno, meets no hook of ours or anybody's, and needs no symbol version.
 *
 * Memory of this process is read with process_vm_readv, which answers a bad address with a count instead of a fault
 * and needs neither a descriptor (libunwind's pipe trick wrote into the target's files) nor a SIGSEGV handler. Where a
 * sandbox forbids it, rt_sigprocmask with a meaningless `how` serves as a probe: the kernel reads the 8-byte set first
 * (EFAULT) and rejects `how` afterwards (EINVAL), without any effect. */
#include "agent/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#if defined(__x86_64__)
#include "agent/base/syscall_x86_64.h"
#else
#error "no system call header for this processor yet: add agent/base/syscall_<cpu>.h"
#endif

enum { PAGE = 4096, PROBE_HOW = 0x7071, KERNEL_SIGSET_BYTES = 8 };

/* Set once process_vm_readv was refused; a race sets it twice. */
static atomic_bool no_vm_readv;

long ppa_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	return ppa_arch_syscall(nr, a, b, c, d, e, f);
}

pid_t ppa_sys_gettid(void)
{
	return (pid_t)ppa_arch_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

pid_t ppa_sys_getpid(void)
{
	return (pid_t)ppa_arch_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

/* The page of addr can be read now. Another thread may unmap it a moment later: the probe is the second choice. */
PPA_CTX_SIGNAL static bool probe(uintptr_t addr)
{
	long r = ppa_arch_syscall(SYS_rt_sigprocmask, PROBE_HOW, (long)(addr & ~(uintptr_t)7), 0, KERNEL_SIGSET_BYTES,
				  0, 0);

	return r != -EFAULT;
}

/* Out of the way of the first choice, which is to be sparing with a handler's stack. */
PPA_CTX_SIGNAL static __attribute__((noinline)) long read_probed(void *dst, uintptr_t src, size_t len)
{
	size_t done = 0;

	while (done < len) {
		size_t in_page = PAGE - ((src + done) & (PAGE - 1));
		size_t n = len - done < in_page ? len - done : in_page;

		if (!probe(src + done))
			break;
		memcpy((char *)dst + done, (const void *)(src + done), n);
		done += n;
	}
	return done ? (long)done : -EFAULT;
}

long ppa_sys_read_memory_as(pid_t tid, void *dst, uintptr_t src, size_t len)
{
	struct iovec local = {dst, len}, remote = {(void *)src, len};
	long n;

	if (src + len < src)
		return -EFAULT;
	if (atomic_load_explicit(&no_vm_readv, memory_order_relaxed))
		return read_probed(dst, src, len);
	/* By thread: once the main one has left by pthread_exit, the process's number stands for nobody who has memory. */
	n = ppa_arch_syscall(SYS_process_vm_readv, tid ? tid : ppa_sys_gettid(), (long)&local, 1, (long)&remote, 1, 0);
	if (n == -ENOSYS || n == -EPERM) {
		atomic_store_explicit(&no_vm_readv, true, memory_order_relaxed);
		return read_probed(dst, src, len);
	}
	return n;
}

long ppa_sys_read_memory(void *dst, uintptr_t src, size_t len)
{
	return ppa_sys_read_memory_as(0, dst, src, len);
}

bool ppa_sys_reads_safely(void)
{
	char byte = 0, copy;

	ppa_sys_read_memory(&copy, (uintptr_t)&byte, 1); /* the first call finds out */
	return !atomic_load_explicit(&no_vm_readv, memory_order_relaxed);
}

void *ppa_sys_map(size_t bytes)
{
	long p = ppa_arch_syscall(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p < 0 && p > -PAGE ? NULL : (void *)p;
}

void ppa_sys_unmap(void *p, size_t bytes)
{
	ppa_arch_syscall(SYS_munmap, (long)p, (long)bytes, 0, 0, 0, 0);
}

int ppa_sys_open_read(const char *path)
{
	/* O_NONBLOCK: a path that turns out to be a pipe must not hang the server. */
	return (int)ppa_arch_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0,
				     0, 0);
}

long ppa_sys_pread(int fd, void *buf, size_t len, uint64_t offset)
{
	size_t done = 0;

	while (done < len) {
		long n = ppa_arch_syscall(SYS_pread64, fd, (long)((char *)buf + done), (long)(len - done),
					  (long)(offset + done), 0, 0);
		if (n == -EINTR)
			continue;
		if (n < 0)
			return done ? (long)done : n;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (long)done;
}

void ppa_sys_close(int fd)
{
	ppa_arch_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

uint64_t ppa_sys_clock_ns(clockid_t clock)
{
	struct timespec ts = {0};

	/* Negative ids are CPU clocks of threads, which the vdso does not serve and libc would report through errno. */
	if (clock < 0) {
		if (ppa_arch_syscall(SYS_clock_gettime, clock, (long)&ts, 0, 0, 0, 0))
			return 0;
	} else if (clock_gettime(clock, &ts)) {
		return 0;
	}
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}
