/* SPDX-License-Identifier: Apache-2.0
 *
 * Most of its CPU time is spent inside libc: copying, printing (floating point too: the largest frames there are),
 * sorting with a callback, allocating, asking the kernel, in the main thread and in two others, under call chains that
 * are known: work > copies|prints|sorts|allocates|asks. Whoever is two slices ahead of another waits, so each thread
 * has a third whatever the machine does besides. libccode runs until it is killed. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "victim.h"

enum { THREADS = 3, BYTES = 60000, NUMBERS = 1000, BLOCKS = 100, SLICE_NS = 20000000 };

struct room {
	char from[BYTES], to[BYTES];
	int numbers[NUMBERS];
	void *blocks[BLOCKS];
	_Atomic unsigned slices; /* done */
};

static struct room rooms[THREADS];

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

static int is_ahead(struct room *r)
{
	for (int i = 0; i < THREADS; i++)
		if (r->slices > rooms[i].slices + 2)
			return 1;
	return 0;
}

static VICTIM_NOINLINE void *work(void *arg)
{
	struct room *room = arg;
	static void (*const parts[])(struct room *) = {copies, prints, sorts, allocates, asks};

	for (unsigned i = 0;; i++) {
		uint64_t end = victim_cpu_ns() + SLICE_NS;

		while (victim_cpu_ns() < end)
			parts[i % 5](room);
		room->slices++;
		while (is_ahead(room))
			victim_sleep_ms(1);
	}
	return NULL;
}

int main(void)
{
	pthread_t t;

	victim_gate();
	victim_check(!pthread_create(&t, NULL, work, &rooms[1]), "pthread_create");
	victim_check(!pthread_create(&t, NULL, work, &rooms[2]), "pthread_create");
	work(&rooms[0]);
	return 0;
}
