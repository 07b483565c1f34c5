/* SPDX-License-Identifier: Apache-2.0
 *
 * Most of its CPU time is spent inside libc: copying, printing (floating point too: the largest frames there are),
 * sorting with a callback, allocating, asking the kernel, in the main thread and in two others, under call chains that
 * are known: work > copies|prints|sorts|allocates|asks. libccode runs until it is killed. */
#include <pthread.h>
#include <string.h>

#include "victim.h"

enum { BYTES = 60000, NUMBERS = 1000, BLOCKS = 100, SLICE_NS = 20000000 };

struct room {
	char from[BYTES], to[BYTES];
	int numbers[NUMBERS];
	void *blocks[BLOCKS];
};

static VICTIM_NOINLINE void copies(struct room *r)
{
	for (int i = 0; i < 50; i++) {
		memcpy(r->to, r->from, BYTES);
		__asm__ volatile("" : : : "memory");
	}
}

static VICTIM_NOINLINE void prints(struct room *r)
{
	for (int i = 0; i < 50; i++)
		snprintf(r->to, BYTES, "%d %s %f %g", i, "text", i * 1.1, i * 1e100);
	VICTIM_NO_TAIL_CALL();
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static VICTIM_NOINLINE void sorts(struct room *r)
{
	for (unsigned i = 0; i < NUMBERS; i++)
		r->numbers[i] = (int)(i * 2654435761u >> 8);
	qsort(r->numbers, NUMBERS, sizeof(int), compare);
	VICTIM_NO_TAIL_CALL();
}

static VICTIM_NOINLINE void allocates(struct room *r)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		r->blocks[i] = malloc(i * 37 % 2000 + 1);
	for (int i = 0; i < BLOCKS; i++)
		free(r->blocks[i]);
	VICTIM_NO_TAIL_CALL();
}

static VICTIM_NOINLINE void asks(struct room *r)
{
	for (int i = 0; i < BLOCKS; i++)
		r->numbers[i] = getppid();
	VICTIM_NO_TAIL_CALL();
}

static VICTIM_NOINLINE void *work(void *room)
{
	static void (*const parts[])(struct room *) = {copies, prints, sorts, allocates, asks};

	for (unsigned i = 0;; i++) {
		uint64_t end = victim_cpu_ns() + SLICE_NS;

		while (victim_cpu_ns() < end)
			parts[i % 5](room);
	}
	return NULL;
}

int main(void)
{
	static struct room rooms[3];
	pthread_t t;

	victim_gate();
	victim_check(!pthread_create(&t, NULL, work, &rooms[1]), "pthread_create");
	victim_check(!pthread_create(&t, NULL, work, &rooms[2]), "pthread_create");
	work(&rooms[0]);
	return 0;
}
