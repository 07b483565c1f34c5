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

/* What the linker gathered: distances from each entry to its site. */
extern const int32_t __start_ppa_static_calls[] __attribute__((visibility("hidden")));
extern const int32_t __stop_ppa_static_calls[] __attribute__((visibility("hidden")));

/* A directory has a link for itself, one in its parent and one for each subdirectory: here for each thread. */
enum { LINKS_OF_ONE_THREAD = 3 };

static bool is_single_threaded(void)
{
	struct stat tasks;

	return !ppa_syscall(SYS_newfstatat, AT_FDCWD, (long)"/proc/self/task", (long)&tasks, 0, 0, 0) &&
	       tasks.st_nlink == LINKS_OF_ONE_THREAD;
}

static bool patch(int memory, uintptr_t site)
{
	uint8_t patched[PPA_ARCH_SITE_BYTES];

	return ppa_arch_static_call((const uint8_t *)site, site, patched) &&
	       ppa_syscall(SYS_pwrite64, memory, (long)patched, sizeof(patched), (long)site, 0, 0) == sizeof(patched);
}

int ppa_static_calls_patch(void)
{
	long memory;
	int n = 0;

	if (!is_single_threaded())
		return -EBUSY;
	memory = ppa_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/mem", O_RDWR | O_CLOEXEC, 0, 0, 0);
	if (memory < 0)
		return (int)memory;
	for (const int32_t *at = __start_ppa_static_calls; at < __stop_ppa_static_calls; at++)
		n += patch((int)memory, (uintptr_t)at + (uintptr_t)(intptr_t)*at);
	ppa_sys_close((int)memory);
	ppa_arch_serialize();
	return n;
}
