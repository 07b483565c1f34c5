/* SPDX-License-Identifier: Apache-2.0
 *
 * Names, because these functions live in libc, libstdc++ or in the program itself, amid others that are of interest.
 * Asked once for each distinct address of a profile. */
#include "agent/snapshot/allocators.h"

#include <stddef.h>
#include <string.h>

static const char *const whole[] = {
	"malloc",	 "calloc",	   "realloc",
	"reallocarray",	 "memalign",	   "posix_memalign",
	"aligned_alloc", "valloc",	   "pvalloc",
	"strdup",	 "strndup",	   "wcsdup",
	"__strdup",	 "__strndup",	   "__libc_malloc",
	"__libc_calloc", "__libc_realloc", "__libc_memalign",
	"__rust_alloc",	 "__rust_realloc", "__rust_alloc_zeroed",
	"__rdl_alloc",	 "__rdl_realloc",  "__rdl_alloc_zeroed",
};

/* Of linker names: the global operator new and new[] in all their forms; a class's own begins with _ZN. */
static const char *const linker_prefixes[] = {"_Znw", "_Zna"};

/* The C++ library's covers of operator new, mostly inlined. Rust mangles its own with a hash, and calls the shims by names that changed over the years. */
static const char *const prefixes[] = {
	"std::__new_allocator<", "__gnu_cxx::new_allocator<", "std::allocator_traits<",	 "alloc::alloc::",
	"<alloc::alloc::Global", "__rustc::__rust_alloc",     "__rustc::__rust_realloc", "__rustc::__rdl_"};

static bool begins(const char *text, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strncmp(text, list[i], strlen(list[i])) == 0)
			return true;
	return false;
}

bool ppa_allocators_have(const char *linker_name, const char *name)
{
	for (size_t i = 0; i < PPA_ARRAY_LEN(whole); i++)
		if (strcmp(linker_name, whole[i]) == 0)
			return true;
	return begins(linker_name, linker_prefixes, PPA_ARRAY_LEN(linker_prefixes)) ||
	       begins(name, prefixes, PPA_ARRAY_LEN(prefixes));
}
