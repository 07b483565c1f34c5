/* SPDX-License-Identifier: Apache-2.0 */
// link: @walker @unwind
// flags: -fomit-frame-pointer
/* What a walk costs, in nanoseconds a frame: a handler deep in a recursion unwinds the same context again and again.
 * warm: every row in the cache. cold: no cache at all, so each frame is a search and an interpretation (its tables are
 * in the processor's caches). window: the stack's bounds are not known. The difference between two depths takes out
 * what a walk costs by itself, which is printed apart. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "unwind/module/modules.h"
#include "unwind/walk/rowcache.h"
#include "unwind/walk/unwind.h"

enum { SHALLOW = 20, DEEP = 120, ROUNDS = 400 };

static struct ppa_stack_bounds bounds;
static struct ppa_unwind_buf buf;

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static struct {
	const struct ppa_stack_bounds *bounds;
	int walks;
	double ns; /* a walk, the best of ROUNDS: other programs run as well */
} measure;

static void on_usr1(int sig, siginfo_t *info, void *ucontext)
{
	(void)sig;
	(void)info;
	measure.ns = 1e18;
	for (int r = 0; r < ROUNDS; r++) {
		double start = now_ns(), ns;

		for (int i = 0; i < measure.walks; i++)
			ppa_unwind_context(ucontext, measure.bounds, &buf);
		ns = (now_ns() - start) / measure.walks;
		measure.ns = ns < measure.ns ? ns : measure.ns;
	}
}

static volatile int sink;

/* libc's header promises that raise runs no code of ours, so the compiler would not read again. */
#define BARRIER() __asm__ volatile("" ::: "memory")

/* Saves a few registers, like code does. */
static __attribute__((noinline)) int recurse(int n, int a, int b, int c)
{
	int x = a * n + b, y = b * n + c, r;

	if (n == 0) {
		r = raise(SIGUSR1);
		BARRIER();
		return r;
	}
	r = recurse(n - 1, x, y, c);
	sink = r;
	return r + x + y;
}

static void run(const char *name, const struct ppa_stack_bounds *b, int walks)
{
	double shallow, deep;
	unsigned frames;

	measure.bounds = b;
	measure.walks = walks;
	sink = recurse(SHALLOW, 1, 2, 3);
	BARRIER();
	shallow = measure.ns;
	frames = buf.npcs;
	sink = recurse(DEEP, 1, 2, 3);
	BARRIER();
	deep = measure.ns;
	printf("%-8s %6.1f ns a frame, %6.0f ns a walk of %u frames (end %d), %6.0f ns of it for the walk itself\n",
	       name, (deep - shallow) / (buf.npcs - frames), shallow, frames, buf.end,
	       shallow - (deep - shallow) / (buf.npcs - frames) * frames);
}

int main(void)
{
	struct sigaction sa = {.sa_sigaction = on_usr1, .sa_flags = SA_SIGINFO};
	struct ppa_row_entry *entries;

	if (ppa_modules_refresh(true) || ppa_unwind_init())
		return 2;
	bounds.hi = (uintptr_t)environ; /* above every frame, below the end of the stack */
	bounds.lo = bounds.hi - (1 << 20);
	sigaction(SIGUSR1, &sa, NULL);
	run("warm", &bounds, 200);
	run("window", NULL, 50);
	entries = atomic_exchange(&ppa_rows.entries, NULL);
	run("cold", &bounds, 20);
	atomic_store(&ppa_rows.entries, entries);
	return 0;
}
