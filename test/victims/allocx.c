/* SPDX-License-Identifier: Apache-2.0
 *
 * allocx: jemalloc's own interface (mallocx, rallocx, xallocx, sallocx, dallocx, sdallocx, nallocx), linked and called
 * directly. Every size, alignment and return value that it prints must be the same with and without the agent; its truth
 * lines (see allockeep.c) are for the heap profile. Without jemalloc's header, so that its run-time package is enough. */
// flags: -fno-builtin -l:libjemalloc.so.2
#include <string.h>

#include "victim.h"

#define X_ALIGN(a) (__builtin_ctzl(a))
#define X_ZERO 0x40

void *mallocx(size_t, int);
void *rallocx(void *, size_t, int);
size_t xallocx(void *, size_t, size_t, int);
size_t sallocx(const void *, int);
size_t nallocx(size_t, int);
void dallocx(void *, int);
void sdallocx(void *, size_t, int);

enum { COUNT = 1000 };

static void *blocks[COUNT], *resized[COUNT];

VICTIM_NOINLINE void *keep_mallocx(size_t n, int flags)
{
	void *p = mallocx(n, flags);

	victim_check(p != NULL, "mallocx");
	return p;
}

VICTIM_NOINLINE void *keep_rallocx(void *p, size_t n, int flags)
{
	p = rallocx(p, n, flags);
	victim_check(p != NULL, "rallocx");
	return p;
}

static void values(void)
{
	for (int k = 0; k < 18; k++) {
		size_t n = ((size_t)1 << k) + (size_t)k;
		int align = X_ALIGN((size_t)1 << (k % 13)), same = 1;
		unsigned char *p = mallocx(n, align | X_ZERO), *q;

		for (size_t i = 0; i < n; i++)
			same &= p[i] == 0;
		memset(p, k + 1, n);
		printf("%zu: nallocx %zu sallocx %zu zero %d aligned %d", n, nallocx(n, align), sallocx(p, align), same,
		       (uintptr_t)p % ((size_t)1 << (k % 13)) == 0);
		printf(" xallocx %zu", xallocx(p, n + 1, 0, align));
		q = rallocx(p, 3 * n, align | X_ZERO);
		for (size_t i = 0; i < n; i++)
			same &= q[i] == k + 1;
		printf(" rallocx %zu contents %d", sallocx(q, align), same);
		printf(" too much %d\n", rallocx(q, (size_t)1 << 62, align) == NULL);
		if (k % 2)
			dallocx(q, align);
		else
			sdallocx(q, 3 * n, align);
	}
	printf("everything %d\n", mallocx((size_t)1 << 62, 0) == NULL);
}

/* Programs mix the two: what malloc gave goes to dallocx, and the other way round. */
static void mixed(void)
{
	for (int i = 0; i < 20000; i++) {
		size_t n = 16 + (size_t)(i * 37) % 3000;
		char *p = malloc(n), *q = mallocx(n, 0);

		p[0] = q[n - 1] = 1;
		if (i % 3 == 0)
			sdallocx(p, n, 0);
		else if (i % 3 == 1)
			dallocx(p, 0);
		else
			dallocx(rallocx(p, n + 100, 0), 0);
		free(i % 2 ? q : realloc(q, 2 * n));
	}
	printf("mixed\n");
}

int main(void)
{
	values();
	mixed();
	victim_gate();
	for (int i = 0; i < COUNT; i++) {
		blocks[i] = keep_mallocx(333, i % 2 ? X_ZERO : X_ALIGN(64));
		resized[i] = keep_rallocx(mallocx(20, 0), 5000, 0);
	}
	for (int i = 0; i < COUNT; i += 4) {
		dallocx(blocks[i], 0);
		sdallocx(resized[i], 5000, 0);
	}
	for (int i = 1; i < COUNT; i += 4) {
		sdallocx(blocks[i], 333, X_ZERO);
		free(resized[i]);
	}
	printf("truth keep_mallocx %d %d %d %d\n", COUNT, COUNT * 333, COUNT / 2, COUNT / 2 * 333);
	printf("truth keep_rallocx %d %d %d %d\n", COUNT, COUNT * 5000, COUNT / 2, COUNT / 2 * 5000);
	printf("done\n");
	fflush(stdout);
	victim_gate();
	return 0;
}
