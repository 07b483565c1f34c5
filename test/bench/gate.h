/* SPDX-License-Identifier: Apache-2.0
 *
 * What the measured programs share: they wait at a gate (a line, or the end, of standard input), so that whoever
 * measures can first open a profile and read the clocks. What happens before the gate is in no figure. */
#ifndef BENCH_GATE_H
#define BENCH_GATE_H

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static inline void bench_gate(void)
{
	char c;
	ssize_t n;

	do {
		n = read(0, &c, 1);
	} while ((n < 0 && errno == EINTR) || (n == 1 && c != '\n'));
}

static inline long bench_arg(int argc, char **argv, int i, long otherwise)
{
	return i < argc ? strtol(argv[i], NULL, 10) : otherwise;
}

#endif
