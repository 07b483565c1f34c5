/* SPDX-License-Identifier: Apache-2.0
 *
 * allocfull: more than an agent with little memory can keep. Behind its gates, one after the other:
 *
 *   1  500 blocks of 100 bytes from one place (full_known), which stay
 *   2  one block of 60 bytes from each of 60,000 different stacks (full_fresh below full_left and full_right), freed at
 *      once; then 500 more from full_known
 *   3  600,000 blocks of 100 bytes from another place (full_live), which stay
 *   4  nothing
 *
 * Each prints "done". */
// flags: -fno-builtin
#include "victim.h"

enum { KNOWN = 500, FRESH = 60000, LIVE = 600000, DEPTH = 16 };

static void *known[2 * KNOWN], *kept[LIVE];

static void descend(unsigned path, int depth);

VICTIM_NOINLINE static void full_left(unsigned path, int depth)
{
	descend(path, depth - 1);
	VICTIM_NO_TAIL_CALL();
}

VICTIM_NOINLINE static void full_right(unsigned path, int depth)
{
	descend(path, depth - 1);
	VICTIM_NO_TAIL_CALL();
}

VICTIM_NOINLINE static void full_fresh(void)
{
	void *p = malloc(60);

	victim_check(p != NULL, "malloc");
	free(p);
	VICTIM_NO_TAIL_CALL();
}

static void descend(unsigned path, int depth)
{
	if (depth == 0)
		full_fresh();
	else if (path >> (depth - 1) & 1)
		full_left(path, depth);
	else
		full_right(path, depth);
}

VICTIM_NOINLINE static void *full_known(void)
{
	void *p = malloc(100);

	victim_check(p != NULL, "malloc");
	return p;
}

/* Unlike the other, lest the compiler makes one function of both. */
VICTIM_NOINLINE static void *full_live(void)
{
	void *p = calloc(1, 100);

	victim_check(p != NULL, "calloc");
	return p;
}

static void say_done(void)
{
	printf("truth\tdone\n");
	fflush(stdout);
	victim_gate();
}

int main(void)
{
	static char out[4096];

	setvbuf(stdout, out, _IOLBF, sizeof(out));
	victim_gate();
	/* One loop, so that the known stack is one stack. */
	for (int i = 0; i < 2 * KNOWN; i++) {
		known[i] = full_known();
		if (i != KNOWN - 1)
			continue;
		say_done();
		for (unsigned k = 0; k < FRESH; k++)
			descend(k, DEPTH);
	}
	say_done();
	for (int i = 0; i < LIVE; i++)
		kept[i] = full_live();
	say_done();
	return 0;
}
