/* SPDX-License-Identifier: Apache-2.0
 *
 * allockeep: a known number of blocks through each function of the C family that every libc and allocator has; half of
 * them are freed again. It prints, once and behind its gate,
 *
 *   truth <function> <objects allocated> <bytes allocated> <objects live> <bytes live>
 *   done
 *
 * and holds the rest until its second gate. With an argument each function has a thread of its own, which allocated a
 * block before the first gate. Compiled also with musl and linked with other allocators. */
// flags: -fno-builtin -pthread
#include <pthread.h>
#include <string.h>

#include "victim.h"

enum { COUNT = 1000 };

static void *blocks[6][COUNT];

VICTIM_NOINLINE void keep_malloc(int i)
{
	blocks[0][i] = malloc(100);
}

VICTIM_NOINLINE void keep_calloc(int i)
{
	blocks[1][i] = calloc(5, 50);
}

/* The old block is this function's, too: malloc(10) and realloc to 3000. */
VICTIM_NOINLINE void keep_realloc(int i)
{
	void *p = malloc(10);

	victim_check(p != NULL, "malloc");
	memcpy(p, "0123456789", 10);
	p = realloc(p, 3000);
	victim_check(p != NULL && !memcmp(p, "0123456789", 10), "realloc");
	blocks[2][i] = p;
}

VICTIM_NOINLINE void keep_aligned(int i)
{
	blocks[3][i] = aligned_alloc(64, 640);
	victim_check(blocks[3][i] && (uintptr_t)blocks[3][i] % 64 == 0, "aligned_alloc");
}

VICTIM_NOINLINE void keep_posix(int i)
{
	victim_check(posix_memalign(&blocks[4][i], 4096, 70) == 0 && (uintptr_t)blocks[4][i] % 4096 == 0,
		     "posix_memalign");
}

VICTIM_NOINLINE void keep_strdup(int i)
{
	blocks[5][i] = strdup("a text of twenty-eight chars");
}

static void (*const keep[6])(int) = {keep_malloc, keep_calloc, keep_realloc, keep_aligned, keep_posix, keep_strdup};
static pthread_barrier_t met, open;

static void *keeper(void *number)
{
	free(malloc(1));
	pthread_barrier_wait(&met);
	pthread_barrier_wait(&open);
	for (int i = 0; i < COUNT; i++)
		keep[(uintptr_t)number](i);
	return NULL;
}

static void keep_in_threads(void)
{
	pthread_t threads[6];

	pthread_barrier_init(&met, NULL, 7);
	pthread_barrier_init(&open, NULL, 7);
	for (uintptr_t f = 0; f < 6; f++)
		victim_check(pthread_create(&threads[f], NULL, keeper, (void *)f) == 0, "pthread_create");
	pthread_barrier_wait(&met);
	printf("ready\n");
	fflush(stdout);
	victim_gate();
	pthread_barrier_wait(&open);
	for (int f = 0; f < 6; f++)
		pthread_join(threads[f], NULL);
}

static void keep_here(void)
{
	victim_gate();
	for (int i = 0; i < COUNT; i++)
		for (int f = 0; f < 6; f++)
			keep[f](i);
}

int main(int argc, char **argv)
{
	static const char *const names[6] = {"keep_malloc",  "keep_calloc", "keep_realloc",
					     "keep_aligned", "keep_posix",  "keep_strdup"};
	static const int sizes[6] = {100, 250, 3000, 640, 70, 29};

	(void)argv;
	if (argc > 1)
		keep_in_threads();
	else
		keep_here();
	for (int f = 0; f < 6; f++) {
		int objects = f == 2 ? 2 * COUNT : COUNT, bytes = COUNT * sizes[f] + (f == 2 ? 10 * COUNT : 0);

		for (int i = 0; i < COUNT; i++)
			victim_check(blocks[f][i] != NULL, names[f]);
		for (int i = 0; i < COUNT; i += 2)
			free(blocks[f][i]);
		printf("truth %s %d %d %d %d\n", names[f], objects, bytes, COUNT / 2, COUNT / 2 * sizes[f]);
	}
	printf("done\n");
	fflush(stdout);
	victim_gate();
	return 0;
}
