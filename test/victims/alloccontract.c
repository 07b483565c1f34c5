/* SPDX-License-Identifier: Apache-2.0
 *
 * alloccontract: what the allocation family promises, and what of it a program can see: errno after calls that succeed
 * and calls that fail, alignments, usable sizes, zeroed memory, contents across resizes, refusals, which functions exist.
 * It prints only what must be equal with and without the agent. With the argument "limit" it then runs out of address
 * space (RLIMIT_AS), and must be refused no sooner than it deserves, and live on. */
#define _GNU_SOURCE
// flags: -fno-builtin -Wno-alloc-size-larger-than -Wno-use-after-free
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#include "victim.h"

static const size_t huge = PTRDIFF_MAX;

/* errno after a call, having been 4711 before it. */
#define ERRNO(what, call)                                                                                              \
	do {                                                                                                           \
		errno = 4711;                                                                                          \
		call;                                                                                                  \
		printf("%s: errno %d\n", what, errno);                                                                 \
	} while (0)

static void errno_of_success(void)
{
	void *volatile p;
	void *q;

	ERRNO("malloc", p = malloc(100));
	ERRNO("realloc up", p = realloc(p, 100000));
	ERRNO("realloc down", p = realloc(p, 10));
	ERRNO("free", free(p));
	ERRNO("calloc", p = calloc(3, 4000));
	ERRNO("reallocarray", p = reallocarray(p, 7, 7000));
	ERRNO("realloc to nothing", p = realloc(p, 0));
	printf("realloc to nothing gave %s\n", p ? "a block" : "NULL");
	ERRNO("aligned_alloc", p = aligned_alloc(128, 1280));
	ERRNO("free aligned", free(p));
	ERRNO("memalign", p = memalign(8192, 3));
	ERRNO("free memalign", free(p));
	ERRNO("posix_memalign", printf("posix_memalign %d\n", posix_memalign(&q, 32, 0)));
	ERRNO("free posix_memalign", free(q));
	ERRNO("valloc", p = valloc(1));
	ERRNO("free valloc", free(p));
	ERRNO("a large block", p = malloc(50 << 20));
	ERRNO("free a large block", free(p));
	ERRNO("malloc of nothing", p = malloc(0));
	printf("malloc of nothing gave %s\n", p ? "a block" : "NULL");
	ERRNO("free of nothing", free(p));
	ERRNO("free NULL", free(NULL));
	ERRNO("strdup", p = strdup("text"));
	ERRNO("free strdup", free(p));
}

static void errno_of_failure(void)
{
	void *q = &q, *p = malloc(64);

	memset(p, 5, 64);
	ERRNO("malloc of everything", printf("%d ", malloc(huge) == NULL));
	ERRNO("malloc of more", printf("%d ", malloc(SIZE_MAX) == NULL));
	ERRNO("calloc of more", printf("%d ", calloc(SIZE_MAX / 3, 4) == NULL));
	ERRNO("realloc to everything", printf("%d ", realloc(p, huge) == NULL));
	ERRNO("reallocarray overflow", printf("%d ", reallocarray(p, SIZE_MAX / 2, 3) == NULL));
	ERRNO("aligned_alloc of everything", printf("%d ", aligned_alloc(64, huge) == NULL));
	ERRNO("memalign, huge alignment", printf("%d ", memalign((size_t)1 << 63, 100) == NULL));
	ERRNO("posix_memalign, 3", printf("%d ", posix_memalign(&q, 3, 10)));
	ERRNO("posix_memalign, 0", printf("%d ", posix_memalign(&q, 0, 10)));
	ERRNO("posix_memalign of everything", printf("%d ", posix_memalign(&q, 64, huge)));
	printf("the pointer is as it was: %d, the block too: %d\n", q == &q, ((char *)p)[63] == 5);
	free(p);
}

/* Nothing is freed in between: what a freed block leaves behind depends on its neighbours, and those on libc's own
 * blocks. */
static void sizes(void)
{
	enum { MANY = 60 };
	static unsigned char *blocks[3][MANY];
	int i = 0;

	for (size_t n = 0; n < 200000 && i < MANY; n = n * 5 / 4 + 1, i++) {
		unsigned char *p = malloc(n), *c = calloc(1, n), *a = aligned_alloc(64, (n + 63) & ~(size_t)63);
		int zero = 1;

		for (size_t k = 0; k < n; k++)
			zero &= c[k] == 0;
		victim_check(malloc_usable_size(a) >= n, "usable size of an aligned block");
		printf("%zu: usable %zu %zu, aligned %d %d %d, zero %d\n", n, malloc_usable_size(p),
		       malloc_usable_size(c), (uintptr_t)p % 16 == 0, (uintptr_t)c % 16 == 0, (uintptr_t)a % 64 == 0,
		       zero);
		memset(p, 7, malloc_usable_size(p));
		memset(c, 7, malloc_usable_size(c));
		memset(a, 7, malloc_usable_size(a));
		p = realloc(p, 2 * n + 1);
		printf("resized: contents %d\n",
		       malloc_usable_size(p) > 2 * n && (n == 0 || (p[0] == 7 && p[n - 1] == 7)));
		blocks[0][i] = p, blocks[1][i] = c, blocks[2][i] = a;
	}
	while (i--)
		for (int k = 0; k < 3; k++)
			free(blocks[k][i]);
	printf("usable size of NULL %zu\n", malloc_usable_size(NULL));
	for (size_t align = 8; align <= 1 << 20; align *= 2) {
		void *p = memalign(align, 10), *q = NULL;
		int err = posix_memalign(&q, align, align + 1);

		printf("alignment %zu: %d %d %d\n", align, (uintptr_t)p % align == 0, err, (uintptr_t)q % align == 0);
		free(p), free(q);
	}
}

/* Programs recognise other allocators by their functions; none may appear with the agent. */
static void existing(void)
{
	static const char *const names[] = {"mallocx",
					    "rallocx",
					    "xallocx",
					    "sallocx",
					    "dallocx",
					    "sdallocx",
					    "nallocx",
					    "mallctl",
					    "tc_malloc",
					    "mi_malloc",
					    "je_malloc",
					    "cfree",
					    "MallocExtension_ReleaseFreeMemory",
					    "malloc_trim",
					    "malloc_info",
					    "mallinfo2",
					    "__libc_malloc"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		printf("%s %s\n", names[i], dlsym(RTLD_DEFAULT, names[i]) ? "exists" : "does not exist");
}

static void *in_a_thread(void *arg)
{
	errno_of_success();
	return arg;
}

/* With 64 MiB left, 32 MiB in small blocks must be had; then until nothing is left; then all over again. */
static void limited(void)
{
	struct rlimit l;
	char line[256];
	unsigned long kib = 0;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmSize: %lu", &kib);
	if (f)
		fclose(f);
	l.rlim_cur = l.rlim_max = (kib << 10) + (64 << 20);
	victim_check(kib && setrlimit(RLIMIT_AS, &l) == 0, "setrlimit");
	for (int round = 0; round < 3; round++) {
		void **list = NULL, **p;
		size_t n = 0;

		while ((p = malloc(1000))) {
			*p = list;
			list = p;
			n++;
		}
		printf("round %d: errno %d, %s\n", round, errno,
		       n > (32 << 20) / 1008 ? "as many as it should" : "too few");
		if (n <= (32 << 20) / 1008)
			fprintf(stderr, "only %zu blocks\n", n);
		for (; list; list = p) {
			p = *list;
			free(list);
		}
	}
}

int main(int argc, char **argv)
{
	pthread_t t;

	victim_gate();
	sizes();
	errno_of_success();
	errno_of_failure();
	existing();
	victim_check(!pthread_create(&t, NULL, in_a_thread, NULL), "pthread_create");
	pthread_join(t, NULL);
	if (argc > 1)
		limited();
	fflush(stdout);
	victim_gate();
	(void)argv;
	return 0;
}
