/* SPDX-License-Identifier: Apache-2.0
 *
 * churn SECONDS RUNNERS FORKS_A_SECOND: for a heap profiler, the worst of lives. Each runner starts thread after thread,
 * which allocate through ever different stacks (branches of churn_left and churn_right), hand their blocks to whoever
 * comes by, free or resize those of others, and end by return, pthread_exit, cancellation, or detached. In between the
 * process forks; children check, free and resize blocks that they inherited, start threads of their own, fork again.
 *
 * Every block carries its size and a pattern that is checked before it is freed: two owners of one block, or contents
 * that a resize lost, end the program. After SECONDS all blocks are freed, and
 *
 *   churn: <threads> threads, <blocks> blocks, <forks> forks
 *   done
 *
 * is printed; the program then waits at its second gate with nothing of churn_* live. */
// flags: -fno-builtin
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include "test/victims/victim.h"

enum { SLOTS = 2048, MAX_RUNNERS = 16, BLOCKS_A_THREAD = 60, DEPTH = 12 };

struct block {
	uint32_t size, check;
	unsigned char bytes[];
};

static struct block *_Atomic slots[SLOTS];
static atomic_bool stop;
static atomic_ulong nthreads, nblocks, ndetached;

struct dice {
	uint64_t state;
};

static uint32_t roll(struct dice *d, uint32_t sides)
{
	d->state = d->state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((d->state >> 33) % sides);
}

static void fill(struct block *b, uint32_t size)
{
	b->size = size;
	b->check = size * 2654435761u;
	memset(b->bytes, (int)(size & 255), size - sizeof(*b));
}

static void inspect(const struct block *b, uint32_t upto)
{
	uint32_t n = (b->size < upto ? b->size : upto) - (uint32_t)sizeof(*b);

	victim_check(b->check == b->size * 2654435761u, "the head of a block");
	for (uint32_t i = 0; i < n; i += 61)
		victim_check(b->bytes[i] == (b->size & 255), "the contents of a block");
	victim_check(n == 0 || b->bytes[n - 1] == (b->size & 255), "the end of a block");
}

static void release(struct block *b)
{
	if (!b)
		return;
	inspect(b, b->size);
	b->check = 0;
	free(b);
}

static uint32_t some_size(struct dice *d)
{
	uint32_t which = roll(d, 1000);

	return (uint32_t)sizeof(struct block) + roll(d, which == 0 ? 400000 : which < 30 ? 30000 : 500);
}

VICTIM_NOINLINE static void *churn_allocate(struct dice *d, uint32_t size)
{
	void *p = NULL;

	switch (roll(d, 5)) {
	case 0:
		p = calloc(1, size);
		break;
	case 1:
		if (posix_memalign(&p, 64, size) != 0)
			p = NULL;
		break;
	case 2:
		p = realloc(NULL, size);
		break;
	default:
		p = malloc(size);
	}
	victim_check(p != NULL, "out of memory");
	return p;
}

static void *churn_branch(struct dice *d, uint32_t path, int depth, uint32_t size);

VICTIM_NOINLINE static void *churn_left(struct dice *d, uint32_t path, int depth, uint32_t size)
{
	void *p = churn_branch(d, path, depth - 1, size);

	VICTIM_NO_TAIL_CALL();
	return p;
}

VICTIM_NOINLINE static void *churn_right(struct dice *d, uint32_t path, int depth, uint32_t size)
{
	void *p = churn_branch(d, path, depth - 1, size);

	VICTIM_NO_TAIL_CALL();
	return p;
}

static void *churn_branch(struct dice *d, uint32_t path, int depth, uint32_t size)
{
	if (depth == 0)
		return churn_allocate(d, size);
	return path >> depth & 1 ? churn_left(d, path, depth, size) : churn_right(d, path, depth, size);
}

static struct block *swap(struct dice *d, struct block *in)
{
	return atomic_exchange(&slots[roll(d, SLOTS)], in);
}

VICTIM_NOINLINE static void churn_resize(struct dice *d)
{
	struct block *b = swap(d, NULL), *now;
	uint32_t old, size = some_size(d);

	if (!b)
		return;
	old = b->size;
	inspect(b, old);
	now = realloc(b, size);
	victim_check(now != NULL && now->size == old, "realloc");
	inspect(now, old < size ? old : size);
	fill(now, size);
	release(swap(d, now));
}

/* A part of a thread's life. */
static void allocate_some(struct dice *d, int n)
{
	for (int i = 0; i < n; i++) {
		/* Few of the stacks that there could be, so that tables soon have them all and what grows then is a leak. */
		uint32_t size = some_size(d), path = roll(d, 40) * 37;
		struct block *b = churn_branch(d, path, (int)(path % DEPTH), size);

		fill(b, size);
		release(swap(d, b));
		if (roll(d, 8) == 0)
			churn_resize(d);
		if (roll(d, 16) == 0)
			release(swap(d, NULL));
		pthread_testcancel();
	}
	atomic_fetch_add(&nblocks, (unsigned long)n);
}

static void *short_life(void *arg)
{
	struct dice d = {(uint64_t)(uintptr_t)arg * 0x9e3779b97f4a7c15u};

	allocate_some(&d, (int)roll(&d, BLOCKS_A_THREAD));
	if (roll(&d, 4) == 0)
		pthread_exit(NULL);
	return NULL;
}

static void *detached_life(void *arg)
{
	struct dice d = {(uint64_t)(uintptr_t)arg * 0x9e3779b97f4a7c15u};

	allocate_some(&d, 10);
	atomic_fetch_sub(&ndetached, 1);
	return NULL;
}

static void one_detached(uintptr_t seed)
{
	pthread_attr_t a;
	pthread_t t;

	if (atomic_load(&ndetached) > 20)
		return;
	atomic_fetch_add(&ndetached, 1);
	pthread_attr_init(&a);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&t, &a, detached_life, (void *)seed) != 0)
		atomic_fetch_sub(&ndetached, 1);
	pthread_attr_destroy(&a);
}

static void *runner(void *arg)
{
	struct dice d = {(uint64_t)(uintptr_t)arg};
	uintptr_t seed = (uintptr_t)arg * 1000003u;

	while (!atomic_load(&stop)) {
		pthread_t t;

		victim_check(!pthread_create(&t, NULL, short_life, (void *)seed++), "pthread_create");
		if (roll(&d, 8) == 0)
			pthread_cancel(t);
		allocate_some(&d, 5);
		pthread_join(t, NULL);
		if (roll(&d, 10) == 0)
			one_detached(seed++);
		atomic_fetch_add(&nthreads, 1);
	}
	return NULL;
}

static void child_life(struct dice *d)
{
	pthread_t t;

	allocate_some(d, 40);
	if (roll(d, 3) == 0) {
		victim_check(!pthread_create(&t, NULL, short_life, (void *)(uintptr_t)(roll(d, 1 << 30) + 1)),
			     "a thread in a child");
		pthread_join(t, NULL);
	}
	if (roll(d, 4) == 0)
		for (int i = 0; i < SLOTS; i++)
			release(atomic_exchange(&slots[i], NULL));
}

static void child(struct dice *d)
{
	int status;
	pid_t pid;

	child_life(d);
	if (roll(d, 4) == 0) {
		pid = fork();
		if (pid == 0) {
			child_life(d);
			_exit(7);
		}
		victim_check(pid > 0 && waitpid(pid, &status, 0) == pid && status == 7 << 8, "grandchild");
	}
	_exit(7);
}

static unsigned long fork_until(uint64_t end_ns, long a_second)
{
	struct dice d = {12345};
	unsigned long forks = 0;

	while (victim_clock_ns(CLOCK_MONOTONIC) < end_ns) {
		int status;
		pid_t pid;

		if (!a_second) {
			victim_sleep_ms(20);
			continue;
		}
		pid = fork();
		victim_check(pid >= 0, "fork");
		roll(&d, 2);
		if (pid == 0)
			child(&d);
		victim_check(waitpid(pid, &status, 0) == pid, "waitpid");
		if (status != 7 << 8) {
			fprintf(stderr, "a child ended with status %#x\n", (unsigned)status);
			_exit(98);
		}
		forks++;
		victim_sleep_ms((unsigned)(1000 / a_second));
	}
	return forks;
}

int main(int argc, char **argv)
{
	long seconds = victim_arg(argc, argv, 1, 10), runners = victim_arg(argc, argv, 2, 3);
	long a_second = victim_arg(argc, argv, 3, 20);
	pthread_t t[MAX_RUNNERS];
	unsigned long forks;

	victim_check(runners > 0 && runners <= MAX_RUNNERS, "runners");
	victim_gate();
	for (long i = 0; i < runners; i++)
		victim_check(!pthread_create(&t[i], NULL, runner, (void *)(uintptr_t)(i + 1)), "pthread_create");
	forks = fork_until(victim_clock_ns(CLOCK_MONOTONIC) + (uint64_t)seconds * 1000000000u, a_second);
	atomic_store(&stop, 1);
	for (long i = 0; i < runners; i++)
		pthread_join(t[i], NULL);
	while (atomic_load(&ndetached))
		victim_sleep_ms(1);
	victim_sleep_ms(20);
	for (int i = 0; i < SLOTS; i++)
		release(atomic_exchange(&slots[i], NULL));
	printf("churn: %lu threads, %lu blocks, %lu forks\ndone\n", atomic_load(&nthreads), atomic_load(&nblocks),
	       forks);
	fflush(stdout);
	victim_gate();
	return 0;
}
