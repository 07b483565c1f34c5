/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps, unmaps and remaps known amounts, each way in a function of its own, and says what must be mapped afterwards.
 *
 *   mapper             lines "TRUTH function maps bytes backing", then waits at the gate; after it, lets go of
 *                      everything, prints "EMPTY" and waits again
 *   mapper fork        the same from the child of a fork, which adds some and takes some away
 *   mapper threads N   N threads map, move and unmap for a while, each keeping (n + 1) pages
 *   mapper rss         touches what it maps: "RSS ..." lines, see test/preload/mmap_rss.sh
 *   mapper cost N      N rounds of mmap and munmap: nanoseconds of CPU each, not equal with and without the agent
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "victim.h"

enum { PAGE = 4096, ANON = MAP_PRIVATE | MAP_ANONYMOUS, RW = PROT_READ | PROT_WRITE, MAX_KEPT = 64 };

static struct {
	char *p;
	size_t len;
} kept[MAX_KEPT];
static int nkept;

static char *keep(void *p, size_t len)
{
	victim_check(p != MAP_FAILED, "a mapping failed");
	kept[nkept].p = p;
	kept[nkept++].len = len;
	VICTIM_NO_TAIL_CALL();
	return p;
}

static void let_go(void)
{
	for (int i = 0; i < nkept; i++)
		victim_check(munmap(kept[i].p, kept[i].len) == 0, "munmap failed");
	nkept = 0;
}

static void truth(const char *function, long maps, long pages, const char *backing)
{
	printf("TRUTH %s %ld %ld %s\n", function, maps, pages * PAGE, backing);
}

/* ---- one way each ---- */

VICTIM_NOINLINE static void plain(void)
{
	for (int i = 0; i < 3; i++)
		keep(mmap(NULL, 10 * PAGE - 1, RW, ANON, -1, 0), 10 * PAGE);
}

VICTIM_NOINLINE static void as_mmap64(void)
{
	keep(mmap64(NULL, 7 * PAGE, PROT_NONE, ANON | MAP_NORESERVE, -1, 0), 7 * PAGE);
}

VICTIM_NOINLINE static void of_a_file(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	keep(mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0), 2 * PAGE);
	close(fd);
}

/* Too much first, then what is not aligned is cut off at both ends. */
VICTIM_NOINLINE static void aligned(void)
{
	const size_t want = 64 * PAGE, align = 128 * PAGE;
	char *p = mmap(NULL, want + align, RW, ANON, -1, 0), *q;

	q = (char *)(((uintptr_t)p + align) & ~(align - 1));
	munmap(p, (size_t)(q - p));
	munmap(q + want, (size_t)(p + align - q));
	keep(q, want);
}

VICTIM_NOINLINE static void with_a_hole(void)
{
	char *p = keep(mmap(NULL, 9 * PAGE, RW, ANON, -1, 0), 9 * PAGE);

	munmap(p + 3 * PAGE, 2 * PAGE);
}

VICTIM_NOINLINE static char *reserve(void)
{
	return keep(mmap(NULL, 100 * PAGE, PROT_NONE, ANON | MAP_NORESERVE, -1, 0), 100 * PAGE);
}

VICTIM_NOINLINE static void commit(char *p)
{
	victim_check(mmap(p, 20 * PAGE, RW, ANON | MAP_FIXED, -1, 0) == p, "MAP_FIXED");
	victim_check(mmap(p + 40 * PAGE, 20 * PAGE, RW, ANON | MAP_FIXED, -1, 0) == p + 40 * PAGE, "MAP_FIXED");
	VICTIM_NO_TAIL_CALL();
}

VICTIM_NOINLINE static char *first(size_t pages)
{
	char *p = mmap(NULL, pages * PAGE, RW, ANON, -1, 0);

	VICTIM_NO_TAIL_CALL();
	return p;
}

VICTIM_NOINLINE static void grow(char *p)
{
	for (size_t n = 4; n < 40; n += 4)
		p = mremap(p, n * PAGE, (n + 4) * PAGE, MREMAP_MAYMOVE);
	keep(p, 40 * PAGE);
}

VICTIM_NOINLINE static void shrink(char *p)
{
	keep(mremap(p, 10 * PAGE, 6 * PAGE, 0), 6 * PAGE);
}

VICTIM_NOINLINE static void all_gone(void)
{
	for (int i = 0; i < 1000; i++)
		munmap(mmap(NULL, PAGE, RW, ANON, -1, 0), PAGE);
	VICTIM_NO_TAIL_CALL();
}

VICTIM_NOINLINE static void fails(void)
{
	victim_check(mmap(NULL, 0, RW, ANON, -1, 0) == MAP_FAILED && errno == EINVAL, "EINVAL");
	victim_check(mmap(NULL, PAGE, RW, MAP_PRIVATE, -1, 0) == MAP_FAILED && errno == EBADF, "EBADF");
	victim_check(mmap(NULL, (size_t)1 << 60, RW, ANON, -1, 0) == MAP_FAILED && errno == ENOMEM, "ENOMEM");
}

VICTIM_NOINLINE static void every_way(void)
{
	plain();
	truth("plain", 3, 30, "anonymous");
	as_mmap64();
	truth("as_mmap64", 1, 7, "anonymous");
	of_a_file();
	truth("of_a_file", 1, 2, "file");
	aligned();
	truth("aligned", 1, 64, "anonymous");
	with_a_hole();
	truth("with_a_hole", 2, 7, "anonymous");
	commit(reserve());
	truth("reserve", 2, 60, "anonymous");
	truth("commit", 2, 40, "anonymous");
	grow(first(4));
	shrink(first(10));
	truth("first", 2, 46, "anonymous");
	all_gone();
	fails();
}

/* ---- more than one process ---- */

VICTIM_NOINLINE static void of_the_child(void)
{
	keep(mmap(NULL, 11 * PAGE, RW, ANON, -1, 0), 11 * PAGE);
}

static int wait_and_leave(void)
{
	fflush(stdout);
	victim_gate();
	let_go();
	printf("EMPTY\n");
	fflush(stdout);
	victim_gate();
	return 0;
}

static int in_a_child(void)
{
	int status;
	pid_t pid;

	every_way();
	fflush(stdout);
	pid = fork();
	if (!pid) {
		munmap(kept[0].p, kept[0].len);
		kept[0] = kept[--nkept];
		of_the_child();
		truth("plain", 2, 20, "anonymous");
		truth("of_the_child", 1, 11, "anonymous");
		printf("CHILD %d\n", getpid());
		_exit(wait_and_leave());
	}
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

/* ---- threads ---- */

enum { HELD = 16 };

VICTIM_NOINLINE static void *of_a_thread(size_t len)
{
	void *p = mmap(NULL, len, RW, ANON, -1, 0);

	VICTIM_NO_TAIL_CALL();
	return p;
}

VICTIM_NOINLINE static void *kept_by_a_thread(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ, ANON, -1, 0);

	VICTIM_NO_TAIL_CALL();
	return p;
}

static void *churn(void *arg)
{
	unsigned x = (unsigned)(uintptr_t)arg * 2654435761u + 1;
	size_t len[HELD] = {0}, n = (size_t)(uintptr_t)arg + 1;
	char *held[HELD] = {NULL};
	void *mine;

	for (int i = 0; i < 20000; i++) {
		size_t k, want;

		x = x * 1664525u + 1013904223u;
		k = x >> 16 & (HELD - 1);
		want = (1 + (x >> 24 & 7)) * PAGE;
		if (!held[k]) {
			held[k] = of_a_thread(want);
			len[k] = want;
		} else if (x >> 28 & 3) {
			munmap(held[k], len[k]);
			held[k] = NULL;
		} else {
			held[k] = mremap(held[k], len[k], want, MREMAP_MAYMOVE);
			len[k] = want;
		}
	}
	for (int k = 0; k < HELD; k++)
		if (held[k])
			munmap(held[k], len[k]);
	mine = kept_by_a_thread(PAGE);
	return mremap(mine, PAGE, n * PAGE, MREMAP_MAYMOVE);
}

static int threads(long n)
{
	pthread_t t[64];
	void *p;
	long pages = 0;

	victim_gate(); /* stacks are complete only when the agent is ready */
	for (long i = 0; i < n; i++)
		pthread_create(&t[i], NULL, churn, (void *)i);
	for (long i = 0; i < n; i++) {
		pthread_join(t[i], &p);
		keep(p, (size_t)(i + 1) * PAGE);
		pages += i + 1;
	}
	truth("kept_by_a_thread", n, pages, "anonymous");
	return wait_and_leave();
}

/* ---- resident memory ---- */

VICTIM_NOINLINE static char *touched(size_t len)
{
	char *p = mmap(NULL, len, RW, ANON, -1, 0);

	memset(p, 1, len);
	return p;
}

VICTIM_NOINLINE static void allocated(size_t bytes, size_t block)
{
	for (size_t n = 0; n < bytes; n += block)
		memset(malloc(block), 1, block);
}

static void *deep(void *arg)
{
	volatile char stack[1 << 20];

	memset((void *)(uintptr_t)stack, 1, sizeof(stack));
	victim_gate();
	return arg;
}

static int resident(void)
{
	pthread_t t;

	victim_gate();
	touched(100 << 20);
	touched(20 << 20);
	allocated(60 << 20, 5000);
	allocated(40 << 20, 1 << 20);
	pthread_create(&t, NULL, deep, NULL);
	victim_sleep_ms(200);
	printf("READY\n");
	fflush(stdout);
	pthread_join(t, NULL);
	return 0;
}

static int cost(long rounds)
{
	uint64_t begun = victim_cpu_ns();

	for (long i = 0; i < rounds; i++)
		munmap(mmap(NULL, 16 * PAGE, RW, ANON, -1, 0), 16 * PAGE);
	printf("%ld ns a pair\n", (long)((victim_cpu_ns() - begun) / (uint64_t)rounds));
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "cost")) {
		victim_gate();
		return cost(victim_arg(argc, argv, 2, 100000));
	}
	if (!strcmp(what, "threads"))
		return threads(victim_arg(argc, argv, 2, 4));
	if (!strcmp(what, "rss"))
		return resident();
	victim_gate(); /* stacks are complete only when the agent is ready */
	if (!strcmp(what, "fork"))
		return in_a_child();
	every_way();
	return wait_and_leave();
}
