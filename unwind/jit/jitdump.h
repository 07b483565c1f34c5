/* SPDX-License-Identifier: Apache-2.0
 *
 * jit-PID.dump, the other way by which programs tell perf of generated code (linux/tools/perf, jitdump-specification):
 * a header, then records of a length each, in the order of events. Of these we take what was loaded where, what moved,
 * and the first source line of each piece. The machine code itself, which makes such files large, is not read. */
#ifndef PPA_UNWIND_JIT_JITDUMP_H
#define PPA_UNWIND_JIT_JITDUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_codemap;

enum {
	PPA_JITDUMP_MAX_RECORDS = 1 << 20, /* at a time; the rest at the next */
	PPA_JITDUMP_FILE_MAX = 500,	   /* bytes of a source file's name */
};

/* How far a file has been read. Zero is its beginning. */
struct ppa_jitdump {
	uint64_t at;
	bool is_broken;	  /* something is no record: nothing behind it can be found */
	uint64_t line_of; /* what the last debug information was about: begin of the code, */
	uint32_t line;	  /* its first line, */
	char file[PPA_JITDUMP_FILE_MAX + 1];
};

/* Between name, file and line of a map's name, where the file and line are known. */
enum { PPA_JITDUMP_SEPARATOR = '\1' };

/* Read the records that were appended since into the map, to be settled by the caller; size is the file's now. A record
 * that is being written waits for the next time. 0, or -errno of memory or reading, or -ENOEXEC for what is no such
 * file: what came before it counts. Context: server. */
int ppa_jitdump_read(struct ppa_jitdump *d, int fd, uint64_t size, struct ppa_codemap *m) PPA_CTX_SERVER;

#endif
