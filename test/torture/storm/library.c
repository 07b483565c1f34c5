/* SPDX-License-Identifier: Apache-2.0
 *
 * What the storm loads and unloads: compiled twice, with frames of different sizes (STORM_LIBRARY_BYTES), so that a rule
 * of one applied to the other would show. */
#include <string.h>

static __attribute__((noinline)) int burn(int x, int depth)
{
	volatile char room[STORM_LIBRARY_BYTES];

	memset((void *)room, depth, sizeof(room));
	if (depth > 0)
		return burn(x, depth - 1) + room[depth] - depth;
	for (volatile int i = 0; i < 300; i++)
		room[i % (int)sizeof(room)] = (char)x;
	return x;
}

__attribute__((visibility("default"))) int storm_library(int x)
{
	return burn(x, 8) + 1;
}

static __attribute__((constructor)) void loaded(void)
{
	burn(1, 4);
}

static __attribute__((destructor)) void unloaded(void)
{
	burn(1, 4);
}
