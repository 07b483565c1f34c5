/* SPDX-License-Identifier: Apache-2.0
 *
 * What threads do in the storm, but for C++ (throw.cc) and stacks of their own (stacks.c). Each round is short; the
 * caller counts them, and a round that never ends is a deadlock. */
#include "test/torture/storm/storm.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KIND_OF_BORN = 15 };

static __thread volatile unsigned sink;

__attribute__((noinline)) unsigned storm_recurse(int depth, unsigned rounds)
{
	unsigned x = rounds;

	if (depth > 0)
		x += storm_recurse(depth - 1, rounds);
	for (unsigned i = 0; i < rounds; i++)
		x = x * 1664525 + 1013904223;
	__asm__ volatile("" : "+r"(x));
	return x;
}

void storm_load_libraries(unsigned round)
{
	static const char *const names[] = {"libstorm_one.so", "libstorm_two.so"};
	char path[sizeof(storm_dir) + 32];
	int (*call)(int);
	void *h;

	snprintf(path, sizeof(path), "%s%s", storm_dir, names[round % 2]);
	h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!h)
		storm_broken(dlerror());
	*(void **)&call = dlsym(h, "storm_library");
	if (!call || call((int)round) != (int)round + 1)
		storm_broken("a library");
	storm_dlclose(h);
}

static int visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	char *copy = malloc(strlen(info->dlpi_name) + 1 + size);

	if (!copy)
		storm_broken("malloc");
	strcpy(copy, info->dlpi_name);
	*(unsigned *)arg += (unsigned char)copy[0] + storm_recurse(3, 20);
	free(copy);
	return 0;
}

void storm_iterate_libraries(unsigned round)
{
	unsigned sum = round;

	for (int i = 0; i < 20; i++)
		dl_iterate_phdr(visit, &sum);
	sink = sum;
}

void storm_allocate(unsigned round)
{
	enum { LIVE = 200 };
	static __thread char *live[LIVE];
	unsigned seed = round * 2654435761u;

	for (int i = 0; i < 2000; i++) {
		char **p = &live[(seed >> 8) % LIVE];

		seed = seed * 1664525 + 1013904223;
		if (seed >> 30 == 0) {
			free(*p);
			*p = calloc(1, (seed >> 12) % 5000 + 1);
		} else {
			*p = realloc(*p, (seed >> 16) % (seed >> 31 ? 300 : 40000) + 1);
		}
		if (!*p)
			storm_broken("malloc");
		**p = 1;
	}
}

/* ---- threads ---- */

static void stop_prober(void *p)
{
	storm_prober_stop(p);
}

static void *born(void *arg)
{
	unsigned how = (unsigned)(uintptr_t)arg;

	pthread_cleanup_push(stop_prober, storm_prober_start(KIND_OF_BORN));
	sink = storm_recurse(10, 2000 + how % 7 * 3000);
	free(malloc(100 + how % 1000));
	if (how % 4 == 1)
		pthread_exit(NULL);
	while (how % 4 == 2) {
		sink = storm_recurse(4, 1000);
		pthread_testcancel();
	}
	if (how % 4 == 3)
		sink = (unsigned)storm_throw_through(5);
	pthread_cleanup_pop(1);
	return NULL;
}

void storm_make_threads(unsigned round)
{
	enum { BATCH = 4 };
	pthread_t t[BATCH];

	for (unsigned i = 0; i < BATCH; i++)
		if (pthread_create(&t[i], NULL, born, (void *)(uintptr_t)(round * BATCH + i)))
			storm_broken("pthread_create");
	for (unsigned i = 0; i < BATCH; i++)
		if ((round * BATCH + i) % 4 == 2)
			pthread_cancel(t[i]);
	for (unsigned i = 0; i < BATCH; i++)
		pthread_join(t[i], NULL);
}

/* ---- fork ---- */

static void child(unsigned round)
{
	static char *const argv[] = {"true", NULL};

	if (round % 3 == 0)
		_exit(0);
	if (round % 3 == 1) {
		execv("/bin/true", argv);
		_exit(1);
	}
	storm_prober_start(KIND_OF_BORN);
	for (int i = 0; i < 20; i++)
		free(malloc(storm_recurse(10, 500) % 10000));
	_exit(0);
}

void storm_fork(unsigned round)
{
	int status;
	pid_t pid, got;

	storm_prober_hold();
	pid = fork();
	storm_prober_release(pid == 0);
	if (pid < 0)
		storm_broken("fork");
	if (!pid)
		child(round);
	do {
		got = waitpid(pid, &status, 0);
	} while (got < 0 && errno == EINTR);
	if (got != pid || status != 0) {
		fprintf(stderr, "child of round %u ended with status %#x\n", round, (unsigned)status);
		storm_broken("a child");
	}
}

/* ---- setjmp ---- */

static __attribute__((noinline)) void jump_out(jmp_buf env, int depth)
{
	sink = storm_recurse(2, 30);
	if (depth == 0)
		longjmp(env, 7);
	if (depth > 0)
		jump_out(env, depth - 1);
	sink++;
}

static __attribute__((noinline)) void jump_out_with_mask(sigjmp_buf env, int depth)
{
	sink = storm_recurse(2, 30);
	if (depth == 0)
		siglongjmp(env, 8);
	if (depth > 0)
		jump_out_with_mask(env, depth - 1);
	sink++;
}

void storm_jump(unsigned round)
{
	for (volatile int i = 0; i < 50; i++) {
		jmp_buf plain;
		sigjmp_buf masked;

		if (setjmp(plain) == 0)
			jump_out(plain, (int)(round % 20));
		if (sigsetjmp(masked, 1) == 0)
			jump_out_with_mask(masked, (int)(round % 20));
	}
}
