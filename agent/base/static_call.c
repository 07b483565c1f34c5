/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/base/static_call.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "agent/base/static_call_x86_64.h"
#include "agent/base/sys.h"

/* What the linker gathered: distances from each word to its site. Weak: a test may have none. */
extern const int32_t __start_ppa_static_calls[] __attribute__((visibility("hidden"), weak));
extern const int32_t __stop_ppa_static_calls[] __attribute__((visibility("hidden"), weak));
extern const int32_t __start_ppa_static_entries[] __attribute__((visibility("hidden"), weak));
extern const int32_t __stop_ppa_static_entries[] __attribute__((visibility("hidden"), weak));

typedef bool form_fn(const uint8_t *now, uintptr_t at, uint8_t *patched);

/* A directory has a link for itself, one in its parent and one for each subdirectory: here for each thread. */
enum { LINKS_OF_ONE_THREAD = 3 };

static bool is_single_threaded(void)
{
	struct stat tasks;

	return !ppa_syscall(SYS_newfstatat, AT_FDCWD, (long)"/proc/self/task", (long)&tasks, 0, 0, 0) &&
	       tasks.st_nlink == LINKS_OF_ONE_THREAD;
}

static int patch_all(const int32_t *begin, const int32_t *end, form_fn *form, size_t bytes)
{
	uint8_t patched[PPA_ARCH_SITE_BYTES];
	long memory;
	int n = 0;

	if (!is_single_threaded())
		return -EBUSY;
	memory = ppa_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/mem", O_RDWR | O_CLOEXEC, 0, 0, 0);
	if (memory < 0)
		return (int)memory;
	for (const int32_t *at = begin; at < end; at++) {
		uintptr_t site = (uintptr_t)at + (uintptr_t)(intptr_t)*at;

		n += form((const uint8_t *)site, site, patched) &&
		     ppa_syscall(SYS_pwrite64, memory, (long)patched, (long)bytes, (long)site, 0, 0) == (long)bytes;
	}
	ppa_sys_close((int)memory);
	ppa_arch_serialize();
	return n;
}

int ppa_static_calls_patch(void)
{
	return patch_all(__start_ppa_static_calls, __stop_ppa_static_calls, ppa_arch_static_call, PPA_ARCH_SITE_BYTES);
}

int ppa_static_entries_patch(void)
{
	return patch_all(__start_ppa_static_entries, __stop_ppa_static_entries, ppa_arch_static_entry,
			 PPA_ARCH_ENTRY_BYTES);
}
