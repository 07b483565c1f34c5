/* SPDX-License-Identifier: Apache-2.0
 *
 * The MemStats block of debug=1: Go's keys in Go's order, filled from the allocator that the target has. jemalloc and
 * tcmalloc are asked through their own interfaces, glibc through mallinfo2. What none of them knows is 0, and so is all
 * that belongs to a garbage collector. TotalAlloc, Mallocs and Frees are the sampled estimate: allocators keep no such
 * counts.
 *
 * mallinfo2 locks one arena after the other while it counts that arena's free blocks, for tens of milliseconds where
 * there are hundreds of thousands. Whoever wants that must say so (gc=1); else glibc's part is the estimate, too. */
#include <dlfcn.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "agent/base/resolve.h"
#include "agent/base/sys.h"
#include "agent/heap/heap.h"
#include "agent/snapshot/build.h"
#include "agent/snapshot/picture.h"
#include "unwind/module/modules.h"

enum { TEXT_BYTES = 1536 };

extern const char *gnu_get_libc_version(void) __attribute__((weak));

/* Bytes. */
struct stats {
	uint64_t in_use; /* by the program */
	uint64_t mapped; /* from the kernel, used or not */
	uint64_t idle;	 /* mapped, but free */
	uint64_t released;
};

/* Asked only for what the allocator that is there should have: a name that is not found costs libc an allocation. */
static void *find(const char *name)
{
	struct ppa_resolving r = ppa_resolve_begin();
	void *f = dlsym(RTLD_DEFAULT, name);

	ppa_resolve_end(&r);
	return f;
}

static bool ask_jemalloc(struct stats *s)
{
	int (*mallctl)(const char *, void *, size_t *, void *, size_t);
	size_t in_use = 0, resident = 0, mapped = 0, retained = 0, len = sizeof(size_t);
	uint64_t epoch = 1;

	*(void **)&mallctl = find("mallctl");
	/* The figures are of the last epoch: begin a new one. */
	if (!mallctl || mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch)) ||
	    mallctl("stats.allocated", &in_use, &len, NULL, 0))
		return false;
	mallctl("stats.resident", &resident, &len, NULL, 0);
	mallctl("stats.mapped", &mapped, &len, NULL, 0);
	mallctl("stats.retained", &retained, &len, NULL, 0);
	*s = (struct stats){in_use, mapped + retained, mapped > in_use ? mapped - in_use : 0, retained};
	return true;
}

static bool ask_tcmalloc(struct stats *s)
{
	int (*get)(const char *, size_t *);
	size_t in_use = 0, heap = 0, released = 0;

	*(void **)&get = find("MallocExtension_GetNumericProperty");
	if (!get || !get("generic.current_allocated_bytes", &in_use) || !get("generic.heap_size", &heap))
		return false;
	get("tcmalloc.pageheap_unmapped_bytes", &released);
	*s = (struct stats){in_use, heap, heap > in_use ? heap - in_use : 0, released};
	return true;
}

/* Is the genuine malloc libc's own? Asking another allocator's libc would tell of a heap that nobody uses. */
static bool is_libc_malloc(void)
{
	const struct ppa_module_table *t = ppa_modules_hold();
	const struct ppa_text_segment *libc = t ? ppa_modules_lookup(t, (uintptr_t)&abort) : NULL;
	const struct ppa_text_segment *seg = t ? ppa_modules_lookup(t, ppa_heap_allocator_address()) : NULL;
	bool is_same = libc && seg && libc->module == seg->module;

	if (t)
		ppa_modules_release(t);
	return is_same;
}

/* As glibc 2.33 has it; its elder's fields are ints, which wrap. */
struct info2 {
	size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct info {
	unsigned arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

static bool ask_glibc(struct stats *s)
{
	struct info2 (*get2)(void);
	struct info (*get)(void);

	if (!gnu_get_libc_version)
		return false; /* musl keeps no count */
	*(void **)&get2 = find("mallinfo2");
	if (get2) {
		struct info2 m = get2();

		*s = (struct stats){m.uordblks + m.hblkhd, m.arena + m.hblkhd, m.fordblks, 0};
		return true;
	}
	*(void **)&get = find("mallinfo");
	if (get) {
		struct info m = get();

		*s = (struct stats){(uint64_t)m.uordblks + m.hblkhd, (uint64_t)m.arena + m.hblkhd, m.fordblks, 0};
	}
	return get != NULL;
}

static void add_up(const struct ppa_site *s, void *arg)
{
	struct ppa_heap_values v = ppa_heap_read(s), *sum = arg;

	sum->alloc_objects += v.alloc_objects;
	sum->alloc_bytes += v.alloc_bytes;
	sum->inuse_objects += v.inuse_objects;
	sum->inuse_bytes += v.inuse_bytes;
}

const char *ppa_memstats_text(struct ppa_picture *p, bool may_pause)
{
	struct stats s = {.in_use = 0};
	struct ppa_heap_values sum = {0, 0, 0, 0};
	struct rusage usage = {.ru_maxrss = 0};
	char text[TEXT_BYTES];
	bool known;

	ppa_sites_each(&ppa_heap_sites, add_up, &sum);
	known = is_libc_malloc() ? may_pause && ask_glibc(&s) : ask_jemalloc(&s) || ask_tcmalloc(&s);
	if (!known)
		s.in_use = s.mapped = (uint64_t)sum.inuse_bytes;
	ppa_syscall(SYS_getrusage, RUSAGE_SELF, (long)&usage, 0, 0, 0, 0);
	snprintf(text, sizeof(text),
		 "\n# runtime.MemStats\n# Alloc = %" PRIu64 "\n# TotalAlloc = %" PRId64 "\n# Sys = %" PRIu64
		 "\n# Lookups = 0\n# Mallocs = %" PRId64 "\n# Frees = %" PRId64 "\n# HeapAlloc = %" PRIu64
		 "\n# HeapSys = %" PRIu64 "\n# HeapIdle = %" PRIu64 "\n# HeapInuse = %" PRIu64
		 "\n# HeapReleased = %" PRIu64 "\n# HeapObjects = %" PRId64
		 "\n# Stack = 0 / 0\n# MSpan = 0 / 0\n# MCache = 0 / 0\n# BuckHashSys = 0\n# GCSys = 0\n# OtherSys = 0"
		 "\n# NextGC = 0\n# LastGC = 0\n# PauseNs = []\n# PauseEnd = []\n# NumGC = 0\n# NumForcedGC = 0"
		 "\n# GCCPUFraction = 0\n# DebugGC = false\n# MaxRSS = %ld\n",
		 s.in_use, sum.alloc_bytes, s.mapped, sum.alloc_objects, sum.alloc_objects - sum.inuse_objects,
		 s.in_use, s.mapped, s.idle, s.in_use, s.released, sum.inuse_objects, usage.ru_maxrss * 1024L);
	return ppa_picture_keep(p, text);
}
