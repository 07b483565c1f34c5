/* SPDX-License-Identifier: Apache-2.0
 *
 * report FILE: prints what an audit counted: `created N calls N bytes N`, and a line `bad NAME N` for each function that
 * must not be called. */
#include <stdio.h>

#include "report.h"

int main(int argc, char **argv)
{
	static struct audit_report r;
	FILE *f = argc > 1 ? fopen(argv[1], "r") : NULL;

	if (!f || fread(&r, 1, sizeof(r), f) != sizeof(r))
		return 1;
	printf("created %ld calls %ld bytes %ld\n", r.threads, r.calls, r.bytes);
	for (int i = 0; i < AUDIT_NAMES && r.bad[i].name[0]; i++)
		printf("bad %s %ld\n", r.bad[i].name, r.bad[i].calls);
	fclose(f);
	return 0;
}
