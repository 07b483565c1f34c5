/* SPDX-License-Identifier: Apache-2.0
 *
 * Known to be true: argv[1] blocks of 64 bytes (default 100,000) are live, each allocated by a stack of its own, 20
 * frames of 1,024 functions deep. The stacks are the paths through a tree, so neighbours share their outer frames.
 * With a second argument, seconds, all blocks are freed and allocated again by the same stacks until these are over. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "victim.h"

enum { DEPTH = 20, FUNCTIONS = 1024, BITS = 17, BLOCK = 64 };

typedef void *(*step)(unsigned path, int level);
static const step steps[FUNCTIONS];

__attribute__((noinline)) static void *down(unsigned path, int level)
{
	unsigned known = level < BITS ? path >> (BITS - level) : path;

	return steps[(known * 2654435761U + (unsigned)level * 40503U) >> 7 & (FUNCTIONS - 1)](path, level + 1);
}

#define ONE(name)                                                                                                      \
	__attribute__((noinline)) static void *name(unsigned path, int level)                                          \
	{                                                                                                              \
		void *p = level < DEPTH ? down(path, level) : malloc(BLOCK);                                           \
		__asm__ volatile("" : : "r"(p), "i"(name) : "memory");                                                 \
		return p;                                                                                              \
	}
#define TWO(name) ONE(name##0) ONE(name##1)
#define FOUR(name) TWO(name##0) TWO(name##1)
#define EIGHT(name) FOUR(name##0) FOUR(name##1)
#define SIXTEEN(name) EIGHT(name##0) EIGHT(name##1)
#define THIRTYTWO(name) SIXTEEN(name##0) SIXTEEN(name##1)
#define SIXTYFOUR(name) THIRTYTWO(name##0) THIRTYTWO(name##1)
#define LOT(name) SIXTYFOUR(name##0) SIXTYFOUR(name##1)
#define ALL(name)                                                                                                      \
	LOT(name##0) LOT(name##1) LOT(name##2) LOT(name##3) LOT(name##4) LOT(name##5) LOT(name##6) LOT(name##7)
ALL(step_)

#undef ONE
#define ONE(name) name,
static const step steps[FUNCTIONS] = {ALL(step_)};

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 100000;
	time_t until = time(NULL) + (argc > 2 ? atoi(argv[2]) : 0);
	void **blocks = calloc(n, sizeof(*blocks));

	do {
		for (unsigned i = 0; i < n; i++) {
			free(blocks[i]);
			blocks[i] = down(i, 0);
		}
		if (argc > 2)
			continue;
		printf("ready\n");
		fflush(stdout);
		victim_gate();
	} while (time(NULL) < until);
	return 0;
}
