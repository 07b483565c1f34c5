/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/heap/allocator.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#include "agent/base/resolve.h"
#include "agent/base/static_call.h"
#include "agent/heap/heap.h"
#include "agent/heap/blocks.h"
#include "agent/heap/own.h"

enum { MUSL_BYTES = 1 << 20, PAGE_BYTES = 4096 };

extern const char *gnu_get_libc_version(void) __attribute__((weak));

static void resolve(void);

/* Entered in place of the genuine functions before these are known, by a thread that asks for them or, in dlsym, by the
 * one that is being answered. */
static void *boot_malloc(size_t n)
{
	if (ppa_self.is_resolving)
		return ppa_allocator_own(n, false);
	resolve();
	return ppa_allocator.malloc(n);
}

static void *boot_calloc(size_t n, size_t size)
{
	size_t total;

	if (ppa_self.is_resolving)
		return __builtin_mul_overflow(n, size, &total) ? NULL : ppa_allocator_own(total, true);
	resolve();
	return ppa_allocator.calloc(n, size);
}

static void *boot_realloc(void *p, size_t n)
{
	if (ppa_self.is_resolving) /* blocks of ours are dealt with in the hook */
		return p ? NULL : ppa_allocator_own(n, false);
	resolve();
	return ppa_allocator.realloc(p, n);
}

static void boot_free(void *p)
{
	/* libdl frees null in the middle of a dlsym, which must not meet another one. */
	if (!p || ppa_self.is_resolving)
		return;
	resolve();
	ppa_allocator.free(p);
}

static int boot_posix_memalign(void **p, size_t alignment, size_t n)
{
	if (ppa_self.is_resolving)
		return ENOMEM;
	resolve();
	return ppa_allocator.posix_memalign(p, alignment, n);
}

static void *boot_aligned_alloc(size_t alignment, size_t n)
{
	if (ppa_self.is_resolving)
		return NULL;
	resolve();
	return ppa_allocator.aligned_alloc(alignment, n);
}

static void *boot_memalign(size_t alignment, size_t n)
{
	if (ppa_self.is_resolving)
		return NULL;
	resolve();
	return ppa_allocator.memalign(alignment, n);
}

static void *boot_valloc(size_t n)
{
	return boot_memalign(PAGE_BYTES, n);
}

static void *boot_pvalloc(size_t n)
{
	return boot_memalign(PAGE_BYTES, (n + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1));
}

static size_t boot_usable_size(void *p)
{
	if (ppa_self.is_resolving)
		return 0;
	resolve();
	return ppa_allocator.malloc_usable_size(p);
}

static size_t no_usable_size(void *p)
{
	(void)p;
	return 0;
}

/* What dlsym answered. */
static struct ppa_allocator genuine;

struct ppa_allocator ppa_allocator = {
	.malloc = boot_malloc,
	.calloc = boot_calloc,
	.realloc = boot_realloc,
	.free = boot_free,
	.posix_memalign = boot_posix_memalign,
	.aligned_alloc = boot_aligned_alloc,
	.memalign = boot_memalign,
	.valloc = boot_valloc,
	.pvalloc = boot_pvalloc,
	.malloc_usable_size = boot_usable_size,
};

/* What no libc lacks; without it there is no program. */
#define TAKE(name)                                                                                                     \
	do {                                                                                                           \
		void *f = dlsym(RTLD_NEXT, #name);                                                                     \
		if (f)                                                                                                 \
			*(void **)&a.name = f;                                                                         \
	} while (0)

static void resolve(void)
{
	struct ppa_allocator a = ppa_allocator;
	struct ppa_resolving r = ppa_resolve_begin();

	TAKE(malloc);
	TAKE(calloc);
	TAKE(realloc);
	TAKE(free);
	TAKE(posix_memalign);
	TAKE(aligned_alloc);
	TAKE(memalign);
	TAKE(valloc);
	TAKE(pvalloc);
	a.malloc_usable_size = no_usable_size;
	TAKE(malloc_usable_size);
	/* musl is small: what is that near to one of its functions (one that we do not hook) is its own. */
	a.nests = !gnu_get_libc_version && (uintptr_t)a.calloc - (uintptr_t)sysconf + MUSL_BYTES < 2 * MUSL_BYTES;
	ppa_resolve_end(&r);
	genuine = a;
	/* Word by word equal for all who race, and every word is valid at any moment. */
	ppa_allocator = a;
}

void *ppa_allocator_own(size_t n, bool zeroed)
{
	struct ppa_block l = {.site = PPA_BLOCK_OWN, .bytes = n}, stale;
	bool has_stale;
	void *p = ppa_own_alloc(n);

	/* Nothing can be stale: nobody else's block ever lay here. */
	if (p && ppa_blocks_add(p, &l, &stale, &has_stale))
		return p;
	if (p)
		ppa_own_free(p, n);
	if (ppa_self.is_resolving)
		return NULL;
	return zeroed ? ppa_allocator.calloc(1, n) : ppa_allocator.malloc(n);
}

void ppa_allocator_call_directly(void)
{
	if (!genuine.malloc)
		resolve();
	ppa_static_calls_patch();
}

/* ---- switched on after the start ---- */

static void *asking_malloc(size_t n)
{
	ppa_heap_ask_again();
	return genuine.malloc(n);
}

static void *asking_calloc(size_t n, size_t size)
{
	ppa_heap_ask_again();
	return genuine.calloc(n, size);
}

static void *asking_realloc(void *p, size_t n)
{
	ppa_heap_ask_again();
	return genuine.realloc(p, n);
}

static int asking_posix_memalign(void **p, size_t alignment, size_t n)
{
	ppa_heap_ask_again();
	return genuine.posix_memalign(p, alignment, n);
}

static void *asking_aligned_alloc(size_t alignment, size_t n)
{
	ppa_heap_ask_again();
	return genuine.aligned_alloc(alignment, n);
}

static void *asking_memalign(size_t alignment, size_t n)
{
	ppa_heap_ask_again();
	return genuine.memalign(alignment, n);
}

static void *asking_valloc(size_t n)
{
	ppa_heap_ask_again();
	return genuine.valloc(n);
}

static void *asking_pvalloc(size_t n)
{
	ppa_heap_ask_again();
	return genuine.pvalloc(n);
}

void ppa_allocator_ask_threads(void)
{
	if (!genuine.malloc)
		resolve();
	ppa_allocator.malloc = asking_malloc;
	ppa_allocator.calloc = asking_calloc;
	ppa_allocator.realloc = asking_realloc;
	ppa_allocator.posix_memalign = asking_posix_memalign;
	ppa_allocator.aligned_alloc = asking_aligned_alloc;
	ppa_allocator.memalign = asking_memalign;
	ppa_allocator.valloc = asking_valloc;
	ppa_allocator.pvalloc = asking_pvalloc;
}

uintptr_t ppa_heap_allocator_address(void)
{
	return (uintptr_t)(genuine.malloc ? genuine.malloc : ppa_allocator.malloc);
}
