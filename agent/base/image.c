/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/base/image.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "agent/base/sys.h"

enum { PAGE_BYTES = 4096, AT_ONCE = 128 };

/* An entry of /proc/self/pagemap (Documentation/admin-guide/mm/pagemap.rst). */
#define PRESENT (UINT64_C(1) << 63)
#define SWAPPED (UINT64_C(1) << 62)
#define OF_FILE (UINT64_C(1) << 61)

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/* Absent, or the file's own. */
static bool is_untouched(uint64_t entry)
{
	return !(entry & SWAPPED) && (!(entry & PRESENT) || entry & OF_FILE);
}

static void release(uintptr_t lo, uintptr_t hi)
{
	if (lo < hi)
		ppa_syscall(SYS_madvise, (long)lo, (long)(hi - lo), MADV_DONTNEED, 0, 0, 0);
}

/* Release what is untouched from lo to hi, run by run. */
static void release_untouched(int pagemap, uintptr_t lo, uintptr_t hi)
{
	uint64_t entries[AT_ONCE];
	uintptr_t run = lo; /* where the present one begins */

	while (lo < hi) {
		size_t n = (hi - lo) / PAGE_BYTES;

		n = n < AT_ONCE ? n : AT_ONCE;
		if (ppa_sys_pread(pagemap, entries, n * sizeof(*entries), lo / PAGE_BYTES * sizeof(*entries)) !=
		    (long)(n * sizeof(*entries)))
			return;
		for (size_t i = 0; i < n; i++, lo += PAGE_BYTES) {
			if (is_untouched(entries[i]))
				continue;
			release(run, lo);
			run = lo + PAGE_BYTES;
		}
	}
	release(run, hi);
}

void ppa_image_release(void)
{
	const ElfW(Ehdr) *file = (const ElfW(Ehdr) *)__ehdr_start;
	const ElfW(Phdr) *segment = (const ElfW(Phdr) *)(__ehdr_start + file->e_phoff);
	int pagemap = ppa_sys_open_read("/proc/self/pagemap");

	if (pagemap < 0)
		return;
	/* The first segment, with these headers, last. */
	for (int i = file->e_phnum - 1; i >= 0; i--) {
		uintptr_t lo = (uintptr_t)__ehdr_start + segment[i].p_vaddr;
		uintptr_t hi = (lo + segment[i].p_memsz + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1);

		lo &= ~(uintptr_t)(PAGE_BYTES - 1);
		if (segment[i].p_type == PT_LOAD && !(segment[i].p_flags & PF_W))
			release_untouched(pagemap, lo, hi);
	}
	ppa_sys_close(pagemap);
}
