/* SPDX-License-Identifier: Apache-2.0
 *
 * allocbig OBJECTS: OBJECTS live blocks of 300 to 700 bytes from 200 different stacks, and then a thread that does
 * nothing but allocate and free, and watches the clock between its iterations. After the objects are there it prints
 *
 *   truth big <objects> <bytes> <objects> <bytes>
 *   done
 *
 * and from then on, each time its gate opens, how the time since the last gate went for that thread:
 *
 *   window <longest iteration> <longest one in which it was preempted> <iterations> (times in ns)
 *
 * An iteration in which the thread lost its processor to another and did not wait is told apart, because that is the
 * scheduler's doing and not the agent's. */
#define _GNU_SOURCE
// flags: -fno-builtin
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "victim.h"

enum { STACKS_DEEP = 8, RING = 512 };

static atomic_ulong longest, longest_preempted, iterations;
static double total_bytes;

static void *descend(unsigned path, int depth, size_t n);

VICTIM_NOINLINE static void *big_left(unsigned path, int depth, size_t n)
{
	void *p = descend(path, depth - 1, n);

	VICTIM_NO_TAIL_CALL();
	return p;
}

VICTIM_NOINLINE static void *big_right(unsigned path, int depth, size_t n)
{
	void *p = descend(path, depth - 1, n);

	VICTIM_NO_TAIL_CALL();
	return p;
}

VICTIM_NOINLINE static void *big_here(size_t n)
{
	void *p = malloc(n);

	victim_check(p != NULL, "out of memory");
	return p;
}

static void *descend(unsigned path, int depth, size_t n)
{
	if (depth == 0)
		return big_here(n);
	return path >> (depth - 1) & 1 ? big_left(path, depth, n) : big_right(path, depth, n);
}

static void build(long objects)
{
	uint64_t x = 88172645463325252u;

	for (long i = 0; i < objects; i++) {
		size_t n;

		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		n = 300 + (x >> 20) % 401;
		total_bytes += (double)n;
		*(size_t *)descend((unsigned)((x >> 40) % 200), STACKS_DEEP, n) = n;
	}
}

static void raise_to(atomic_ulong *to, unsigned long v)
{
	if (v > atomic_load_explicit(to, memory_order_relaxed))
		atomic_store_explicit(to, v, memory_order_relaxed);
}

/* What the loop does in one iteration: small blocks, now and then a large one that is touched. */
static void iterate(void **ring, unsigned long i)
{
	unsigned k = (unsigned)(i * 2654435761u) % RING;

	free(ring[k]);
	ring[k] = malloc(16 + (i * 40503u) % 2000);
	if (i % 256 == 0) {
		char *p = malloc(100000);

		for (int at = 0; p && at < 100000; at += 4096)
			p[at] = 1;
		free(p);
	}
}

static void *watch(void *arg)
{
	static void *ring[RING];
	struct rusage was, now;
	uint64_t last, t;

	getrusage(RUSAGE_THREAD, &was);
	last = victim_clock_ns(CLOCK_MONOTONIC);
	for (unsigned long i = 0;; i++) {
		iterate(ring, i);
		t = victim_clock_ns(CLOCK_MONOTONIC);
		if (t - last > 20000) {
			getrusage(RUSAGE_THREAD, &now);
			if (now.ru_nivcsw != was.ru_nivcsw && now.ru_nvcsw == was.ru_nvcsw)
				raise_to(&longest_preempted, t - last);
			else
				raise_to(&longest, t - last);
			was = now;
			t = victim_clock_ns(CLOCK_MONOTONIC);
		}
		last = t;
		atomic_fetch_add_explicit(&iterations, 1, memory_order_relaxed);
	}
	return arg;
}

int main(int argc, char **argv)
{
	long objects = victim_arg(argc, argv, 1, 1000000);
	pthread_t t;

	victim_gate();
	build(objects);
	printf("truth big %ld %.0f %ld %.0f\ndone\n", objects, total_bytes, objects, total_bytes);
	fflush(stdout);
	victim_check(!pthread_create(&t, NULL, watch, NULL), "pthread_create");
	for (;;) {
		char c;

		if (read(0, &c, 1) != 1)
			_exit(0);
		if (c != '\n')
			continue;
		printf("window %lu %lu %lu\n", atomic_exchange(&longest, 0), atomic_exchange(&longest_preempted, 0),
		       atomic_exchange(&iterations, 0));
		fflush(stdout);
	}
}
