/* SPDX-License-Identifier: Apache-2.0
 *
 * Two address ranges at most, found once. From glibc 2.34 on, and in musl, pthread_create is libc's own, whose
 * calls do not pass here. */
#include "agent/heap/mmap_callers.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <unistd.h>

enum { ALLOCATOR, LIBPTHREAD, NCALLERS };

struct extent {
	uintptr_t lo, hi;
};

static struct {
	struct extent ignored[NCALLERS]; /* {0, 0}: there is no such library */
	bool is_hidden;
} callers;

/* This library's own extent, from the linker. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

struct search {
	uintptr_t address;
	size_t index; /* of the object looked at; the program is the first */
	struct extent found;
	bool is_program;
};

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct extent e = {UINTPTR_MAX, 0};
	struct search *s = arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t lo = info->dlpi_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD)
			continue;
		e.lo = lo < e.lo ? lo : e.lo;
		e.hi = lo + p->p_memsz > e.hi ? lo + p->p_memsz : e.hi;
	}
	s->index++;
	if (s->address < e.lo || s->address >= e.hi)
		return 0;
	s->found = e;
	s->is_program = s->index == 1;
	return 1;
}

/* The library that contains address; nothing if that is libc or the program. */
static struct extent library_of(uintptr_t address, uintptr_t libc)
{
	int (*iterate)(int (*)(struct dl_phdr_info *, size_t, void *), void *) =
		(int (*)(int (*)(struct dl_phdr_info *, size_t, void *), void *))dlsym(RTLD_DEFAULT, "dl_iterate_phdr");
	struct search s = {.address = address};

	if (!address || !iterate || iterate(look, &s) != 1 || s.is_program || (libc >= s.found.lo && libc < s.found.hi))
		return (struct extent){0, 0};
	return s.found;
}

static bool is_ours(uintptr_t address)
{
	return address >= (uintptr_t)__ehdr_start && address < (uintptr_t)_end;
}

/* The library, if any, whose function the program gets by this name, or would get without us. An address in the program
 * may be its stub for a library's. */
static struct extent owner_of(const char *name, uintptr_t libc)
{
	uintptr_t first = (uintptr_t)dlsym(RTLD_DEFAULT, name);
	struct extent e = {0, 0};

	if (!is_ours(first))
		e = library_of(first, libc);
	return e.hi ? e : library_of((uintptr_t)dlsym(RTLD_NEXT, name), libc);
}

void ppa_mmap_callers_init(void)
{
	uintptr_t libc = (uintptr_t)sysconf, first = (uintptr_t)dlsym(RTLD_DEFAULT, "mmap");

	callers.ignored[ALLOCATOR] = owner_of("malloc", libc);
	callers.ignored[LIBPTHREAD] = owner_of("pthread_create", libc);
	callers.is_hidden = !is_ours(first) && library_of(first, libc).hi;
}

bool ppa_mmap_callers_count(uintptr_t caller)
{
	for (int i = 0; i < NCALLERS; i++)
		if (caller - callers.ignored[i].lo < callers.ignored[i].hi - callers.ignored[i].lo)
			return false;
	return true;
}

bool ppa_mmap_callers_are_hidden(void)
{
	return callers.is_hidden;
}
