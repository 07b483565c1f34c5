/* SPDX-License-Identifier: Apache-2.0
 *
 * malloc pair|mixed|hold THREADS OPERATIONS [LIVE]: what an allocator, and whoever stands before it, costs.
 *
 *   pair   an operation allocates 64 bytes and frees them at once: the shortest way through an allocator
 *   mixed  an operation frees one of LIVE blocks, chosen at random, and allocates one of 16 to 4096 bytes in its place
 *   hold   the same, and then the program stays, with its blocks, until it is killed
 *
 * All of it at the bottom of a recursion 20 deep, because who samples an allocation has to walk the stack; the descent
 * itself is shared by BATCH operations. Operations and live blocks are divided among the threads. The first LIVE blocks
 * are allocated before the gate. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "test/bench/gate.h"

enum { DEPTH = 20, BATCH = 100, THREADS_MAX = 64, PAIR_BYTES = 64, BYTES_MIN = 16, BYTES_MAX = 4096 };

static struct {
	pthread_barrier_t filled, start;
	bool pairs;
	long rounds; /* of BATCH operations, each thread */
	uint64_t live;
} job;

struct worker {
	uint64_t random;
	char **blocks;
};

static inline uint64_t next_random(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

/* The compiler may not know that this is malloc, or it would take the pair away. */
static inline char *allocate(size_t size)
{
	char *p = malloc(size);

	if (!p)
		abort();
	p[0] = 1;
	__asm__ volatile("" : "+r"(p) : : "memory");
	return p;
}

static inline char *allocate_some(struct worker *w)
{
	uint64_t span = BYTES_MAX - BYTES_MIN + 1;

	return allocate(BYTES_MIN + (next_random(w) >> 32) * span / (1ULL << 32));
}

static void pairs(void)
{
	for (int i = 0; i < BATCH; i++)
		free(allocate(PAIR_BYTES));
}

static void replacements(struct worker *w)
{
	for (int i = 0; i < BATCH; i++) {
		char **slot = &w->blocks[(next_random(w) >> 32) * job.live / (1ULL << 32)];

		free(*slot);
		*slot = allocate_some(w);
	}
}

/* Nothing here may become a jump or a loop: the frames are what is unwound. */
static __attribute__((noinline, noclone)) int recurse(int depth, struct worker *w)
{
	int r = depth;

	if (depth > 0)
		r += recurse(depth - 1, w);
	else if (job.pairs)
		pairs();
	else
		replacements(w);
	__asm__ volatile("" : "+r"(r));
	return r;
}

static void fill(struct worker *w, uint64_t seed)
{
	w->random = 0x9e3779b97f4a7c15ULL * (seed + 1);
	w->blocks = calloc(job.live, sizeof(*w->blocks));
	if (!w->blocks)
		abort();
	for (uint64_t i = 0; !job.pairs && i < job.live; i++)
		w->blocks[i] = allocate_some(w);
}

static void work(struct worker *w)
{
	pthread_barrier_wait(&job.start);
	for (long i = 0; i < job.rounds; i++)
		recurse(DEPTH, w);
}

static void *thread(void *seed)
{
	struct worker w;

	fill(&w, (uintptr_t)seed);
	pthread_barrier_wait(&job.filled);
	work(&w);
	return NULL;
}

int main(int argc, char **argv)
{
	static pthread_t threads[THREADS_MAX];
	long nthreads = bench_arg(argc, argv, 2, 1);
	struct worker mine;

	if (argc < 2 || nthreads < 1 || nthreads > THREADS_MAX)
		return 2;
	job.pairs = strcmp(argv[1], "pair") == 0;
	job.rounds = bench_arg(argc, argv, 3, 1000000) / BATCH / nthreads;
	job.live = (uint64_t)(bench_arg(argc, argv, 4, 10000) / nthreads);
	pthread_barrier_init(&job.filled, NULL, (unsigned)nthreads);
	pthread_barrier_init(&job.start, NULL, (unsigned)nthreads);
	for (long i = 1; i < nthreads; i++)
		if (pthread_create(&threads[i], NULL, thread, (void *)(uintptr_t)i))
			return 2;
	fill(&mine, 0);
	pthread_barrier_wait(&job.filled);
	bench_gate();
	work(&mine);
	for (long i = 1; i < nthreads; i++)
		pthread_join(threads[i], NULL);
	while (strcmp(argv[1], "hold") == 0)
		pause();
	return 0;
}
