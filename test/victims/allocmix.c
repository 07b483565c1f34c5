/* SPDX-License-Identifier: Apache-2.0
 *
 * allocmix LIVE_MB ALLOCATED_MB THREADS RATE SEED: three functions hold 60, 30 and 10 % of the live bytes in blocks of
 * 16 B to 64 KiB, as many bytes in each power of two. Each thread allocates its part of ALLOCATED_MB and keeps its part of
 * LIVE_MB; blocks are freed in random order, half of them by the next thread. What was allocated and what is live is
 * counted, and so is the variance that sampling at RATE must have: a block of n bytes is sampled with probability
 * p = 1 - exp(-(n + 1) / RATE) and then stands for 1 / p blocks, so it adds (1 - p) / p to the variance of the count and
 * n^2 times that to the variance of the bytes. Prints for each function
 *
 *   truth <function> <4 values> <4 standard deviations>
 *   done
 *
 * behind the first gate, and holds everything until the second. */
// flags: -fno-builtin
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "victim.h"

enum { FUNCTIONS = 3, MAX_THREADS = 8, SMALLEST = 4, LARGEST = 16 };

struct sum {
	double objects, bytes, var_objects, var_bytes;
};

/* What a thread holds of one function: blocks whose first four bytes are their size. */
struct held {
	uint32_t **blocks;
	size_t n, cap;
	double bytes, limit;
	struct sum allocated, freed;
};

static struct worker {
	pthread_t thread;
	uint64_t random;
	double to_allocate;
	struct held held[FUNCTIONS];
} workers[MAX_THREADS];

static const double share[FUNCTIONS] = {0.6, 0.3, 0.1};
static double rate;
/* Blocks on their way to the next thread, which frees them. */
static uint32_t *_Atomic hand_over[MAX_THREADS][64];

static double uniform(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (double)(w->random >> 11) / 9007199254740992.0;
}

static void count(struct sum *s, double n)
{
	double p = rate > 1 ? -expm1(-(n + 1) / rate) : 1;

	s->objects++;
	s->bytes += n;
	s->var_objects += (1 - p) / p;
	s->var_bytes += n * n * (1 - p) / p;
}

VICTIM_NOINLINE void *hold_sixty(size_t n)
{
	void *p = malloc(n);

	victim_check(p != NULL, "out of memory");
	return p;
}

VICTIM_NOINLINE void *hold_thirty(size_t n)
{
	void *p = calloc(1, n);

	victim_check(p != NULL, "out of memory");
	VICTIM_NO_TAIL_CALL();
	return p;
}

VICTIM_NOINLINE void *hold_ten(size_t n)
{
	void *p = realloc(malloc(8), n);

	victim_check(p != NULL, "out of memory");
	return p;
}

/* As many bytes in each power of two: a block of the class [c, 2c) comes with probability in proportion to 1 / c. */
static size_t size_of_next(struct worker *w)
{
	double u = uniform(w) * (2 - ldexp(1, SMALLEST - LARGEST + 1));
	int k = SMALLEST;

	while (k < LARGEST - 1 && u >= ldexp(1, SMALLEST - k)) {
		u -= ldexp(1, SMALLEST - k);
		k++;
	}
	return (size_t)(ldexp(1, k) * (1 + uniform(w)));
}

static void allocate_one(struct worker *w, int f)
{
	struct held *h = &w->held[f];
	size_t n = size_of_next(w);
	uint32_t *p = f == 0 ? hold_sixty(n) : f == 1 ? hold_thirty(n) : hold_ten(n);

	*p = (uint32_t)n;
	count(&h->allocated, (double)n);
	if (f == 2)
		count(&h->allocated, 8), count(&h->freed, 8);
	h->bytes += (double)n;
	victim_check(h->n < h->cap, "table of blocks");
	h->blocks[h->n++] = p;
}

static void release_one(struct worker *w, struct held *h)
{
	size_t i = (size_t)(uniform(w) * (double)h->n);
	uint32_t *p = h->blocks[i];
	int next = (int)(w - workers + 1) % MAX_THREADS;

	h->blocks[i] = h->blocks[--h->n];
	h->bytes -= *p;
	count(&h->freed, *p);
	if (uniform(w) < 0.5)
		p = atomic_exchange(&hand_over[next][(int)(uniform(w) * 64)], p);
	free(p);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	double left = w->to_allocate;
	int mine = (int)(w - workers);

	while (left > 0) {
		double u = uniform(w);
		int f = u < share[0] ? 0 : u < share[0] + share[1] ? 1 : 2;
		struct held *h = &w->held[f];
		double before = h->bytes;

		allocate_one(w, f);
		left -= h->bytes - before;
		while (h->bytes > h->limit)
			release_one(w, h);
		if (uniform(w) < 0.5)
			free(atomic_exchange(&hand_over[mine][(int)(uniform(w) * 64)], NULL));
	}
	return NULL;
}

/* The tables are mapped: what the profile shows is blocks only. */
static void prepare(struct worker *w, double live, double allocated, uint64_t seed)
{
	w->random = (seed * MAX_THREADS + (uint64_t)(w - workers) + 1) * 0x9e3779b97f4a7c15u;
	w->to_allocate = allocated;
	for (int f = 0; f < FUNCTIONS; f++) {
		struct held *h = &w->held[f];

		h->limit = live * share[f];
		h->cap = (size_t)(h->limit / 50) + 100000;
		h->blocks = mmap(NULL, h->cap * sizeof(*h->blocks), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		victim_check(h->blocks != MAP_FAILED, "mmap");
	}
}

static void print_truth(int threads)
{
	static const char *const names[FUNCTIONS] = {"hold_sixty", "hold_thirty", "hold_ten"};

	for (int f = 0; f < FUNCTIONS; f++) {
		struct sum a = {0}, d = {0};

		for (int i = 0; i < threads; i++) {
			const struct held *h = &workers[i].held[f];

			a.objects += h->allocated.objects, a.bytes += h->allocated.bytes;
			a.var_objects += h->allocated.var_objects, a.var_bytes += h->allocated.var_bytes;
			d.objects += h->freed.objects, d.bytes += h->freed.bytes;
			d.var_objects += h->freed.var_objects, d.var_bytes += h->freed.var_bytes;
		}
		printf("truth %s %.0f %.0f %.0f %.0f %.6g %.6g %.6g %.6g\n", names[f], a.objects, a.bytes,
		       a.objects - d.objects, a.bytes - d.bytes, sqrt(a.var_objects), sqrt(a.var_bytes),
		       sqrt(fmax(0, a.var_objects - d.var_objects)), sqrt(fmax(0, a.var_bytes - d.var_bytes)));
	}
	printf("done\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	double live = 1048576.0 * (double)victim_arg(argc, argv, 1, 300);
	double allocated = 1048576.0 * (double)victim_arg(argc, argv, 2, 1000);
	int threads = (int)victim_arg(argc, argv, 3, 1);

	rate = (double)victim_arg(argc, argv, 4, 524288);
	victim_check(threads > 0 && threads < MAX_THREADS, "threads");
	for (int i = 0; i < threads; i++)
		prepare(&workers[i], live / threads, allocated / threads, (uint64_t)victim_arg(argc, argv, 5, 1));
	victim_gate();
	for (int i = 0; i < threads; i++)
		victim_check(!pthread_create(&workers[i].thread, NULL, work, &workers[i]), "pthread_create");
	for (int i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	for (int i = 0; i < MAX_THREADS; i++)
		for (int k = 0; k < 64; k++)
			free(atomic_exchange(&hand_over[i][k], NULL));
	print_truth(threads);
	victim_gate();
	return 0;
}
