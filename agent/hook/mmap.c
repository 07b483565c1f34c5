/* SPDX-License-Identifier: Apache-2.0
 *
 * mmap, munmap and mremap, as the program calls them; libc's own calls do not pass here. The genuine function runs
 * first and its result goes back untouched; only then is the event told.
 *
 * These functions are called where nothing else is: under an allocator's lock, in the loader, in a signal handler. So
 * the genuine ones are looked up in the constructor and never later, because dlsym takes the loader's lock and may
 * allocate. Calls before that (constructors of other libraries) go straight to the kernel and are not recorded. */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "agent/base/self.h"
#include "agent/base/sys.h"
#include "agent/heap/mmap.h"
#include "agent/heap/mmap_callers.h"

/* Of the kernel's interface; not in every libc's headers. */
enum { DONTUNMAP = 4 };

extern const char *gnu_get_libc_version(void) __attribute__((weak));

static struct {
	void *(*mmap)(void *, size_t, int, int, int, off_t);
	void *(*mmap64)(void *, size_t, int, int, int, off_t);
	int (*munmap)(void *, size_t);
	void *(*mremap)(void *, size_t, size_t, int, void *);
} real;

/* libc's convention for a result of the kernel's. */
static long libc_result(long r)
{
	if (r < 0 && r > -4096) {
		errno = (int)-r;
		return -1;
	}
	return r;
}

static void *early_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	return (void *)libc_result(ppa_syscall(SYS_mmap, (long)addr, (long)len, prot, flags, fd, offset));
}

static int early_munmap(void *addr, size_t len)
{
	return (int)libc_result(ppa_syscall(SYS_munmap, (long)addr, (long)len, 0, 0, 0, 0));
}

static void *early_mremap(void *old, size_t old_len, size_t len, int flags, void *to)
{
	return (void *)libc_result(ppa_syscall(SYS_mremap, (long)old, (long)old_len, (long)len, flags, (long)to, 0));
}

__attribute__((constructor)) static void resolve(void)
{
	int saved = errno;

	*(void **)&real.mremap = dlsym(RTLD_NEXT, "mremap");
	*(void **)&real.munmap = dlsym(RTLD_NEXT, "munmap");
	*(void **)&real.mmap = dlsym(RTLD_NEXT, "mmap");
	/* musl before 1.2.4 has it as another name of mmap; asking later ones would leave a message for dlerror. */
	if (gnu_get_libc_version)
		*(void **)&real.mmap64 = dlsym(RTLD_NEXT, "mmap64");
	errno = saved;
}

static inline bool is_seen(const void *caller)
{
	return ppa_mmap_is_on() && !ppa_self.is_ours && ppa_mmap_callers_count((uintptr_t)caller);
}

/* Both mmap and mmap64: off_t has 64 bits. */
static inline __attribute__((always_inline)) void *map(void *(*genuine)(void *, size_t, int, int, int, off_t),
						       const void *caller, void *addr, size_t len, int prot, int flags,
						       int fd, off_t offset)
{
	void *p = ppa_likely(genuine != NULL) ? genuine(addr, len, prot, flags, fd, offset)
					      : early_mmap(addr, len, prot, flags, fd, offset);

	if (p != MAP_FAILED && is_seen(caller))
		ppa_mmap_mapped((uintptr_t)p, len, flags, (uintptr_t)caller);
	return p;
}

PPA_EXPORT void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	return map(real.mmap, __builtin_return_address(0), addr, len, prot, flags, fd, offset);
}

PPA_EXPORT void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	return map(real.mmap64 ? real.mmap64 : real.mmap, __builtin_return_address(0), addr, len, prot, flags, fd,
		   offset);
}

PPA_EXPORT int munmap(void *addr, size_t len)
{
	int (*genuine)(void *, size_t) = ppa_likely(real.munmap != NULL) ? real.munmap : early_munmap;
	uint64_t before;
	int rc;

	if (!is_seen(__builtin_return_address(0)))
		return genuine(addr, len);
	before = ppa_mmap_now();
	rc = genuine(addr, len);
	if (rc == 0)
		ppa_mmap_unmapped((uintptr_t)addr, len, before);
	return rc;
}

/* The fifth argument is passed on whether or not the flags announce it, as libc's stub does: the kernel looks at it for
 * flags that do not exist yet. */
PPA_EXPORT void *mremap(void *old, size_t old_len, size_t len, int flags, ...)
{
	void *(*genuine)(void *, size_t, size_t, int, void *) =
		ppa_likely(real.mremap != NULL) ? real.mremap : early_mremap;
	bool is_second = !old_len || (flags & DONTUNMAP);
	struct ppa_mmap_move m;
	va_list ap;
	void *to, *p;

	va_start(ap, flags);
	to = va_arg(ap, void *);
	va_end(ap);
	if (!is_seen(__builtin_return_address(0)))
		return genuine(old, old_len, len, flags, to);
	ppa_mmap_move_begin(&m, (uintptr_t)old, old_len ? old_len : 1);
	p = genuine(old, old_len, len, flags, to);
	if (p == MAP_FAILED)
		return p;
	if (is_second)
		ppa_mmap_copied(&m, (uintptr_t)p, len, (uintptr_t)__builtin_return_address(0));
	else
		ppa_mmap_move_end(&m, (uintptr_t)p, len);
	return p;
}
