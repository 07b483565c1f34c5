/* SPDX-License-Identifier: Apache-2.0
 *
 * tracefile FORMAT SEED THREADS RECORDS LOST NONSENSE FILE: write an invented execution trace (test/fakes/traceworld.h)
 * for other programs to read. FORMAT is 22, 23, 25 or 26 for a Go trace with that header, or perfetto; LOST and NONSENSE are
 * percentages of damage. */
// link: proto/gotrace.c proto/perfetto.c proto/sink.c proto/strtab.c proto/utf8.c proto/sound.c @trace test/fakes/traceworld.c test/fakes/vheap.c
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/gotrace.h"
#include "proto/perfetto.h"
#include "proto/sink.h"
#include "test/fakes/traceworld.h"

int main(int argc, char **argv)
{
	struct traceworld_options opt;
	struct traceworld *world;
	struct ppa_sink out;
	FILE *file;
	int err;

	if (argc != 8) {
		fprintf(stderr, "usage: tracefile FORMAT SEED THREADS RECORDS LOST NONSENSE FILE\n");
		return 2;
	}
	opt = (struct traceworld_options){.seed = strtoull(argv[2], NULL, 10),
					  .threads = (unsigned)atoi(argv[3]),
					  .records_a_thread = (unsigned)atoi(argv[4]),
					  .lost_percent = (unsigned)atoi(argv[5]),
					  .nonsense_percent = (unsigned)atoi(argv[6])};
	world = traceworld_new(&opt);
	ppa_sink_init(&out);
	if (strcmp(argv[1], "perfetto") == 0)
		err = ppa_perfetto_encode(traceworld_input(world), &out);
	else
		err = ppa_gotrace_encode(
			traceworld_input(world),
			&(struct ppa_gotrace_options){.version = (enum ppa_gotrace_version)atoi(argv[1])}, &out);
	traceworld_free(world);
	file = err ? NULL : fopen(argv[7], "w");
	if (!file || fwrite(out.bytes, 1, out.len, file) != out.len || fclose(file)) {
		fprintf(stderr, "tracefile: %s: %s\n", argv[7], err ? strerror(-err) : "cannot write");
		return 1;
	}
	ppa_sink_free(&out);
	return 0;
}
