/* SPDX-License-Identifier: Apache-2.0
 *
 * /tmp/perf-PID.map, by which programs tell perf what code they generate: a line a piece, "start size name", hexadecimal
 * with or without 0x, in the order of its making. The file only grows; what was read is not read again. */
#ifndef PPA_UNWIND_JIT_PERFMAP_H
#define PPA_UNWIND_JIT_PERFMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_codemap;

enum { PPA_PERFMAP_MAX_BYTES = 64 << 20 }; /* of a file: its last ones */

/* How far a file has been read. Zero is its beginning. */
struct ppa_perfmap {
	uint64_t at;
	uint64_t passed_over; /* bytes of a file that is too large */
	bool in_line;	      /* what comes first is the rest of a line whose beginning was passed over */
};

/* Read what was appended since into the map, to be settled by the caller; size is the file's now. A line that is being
 * written waits for the next time, bad ones are left out, so is everything that is no longer there when it is read. 0, or
 * -errno of memory or reading: what came before it counts. Context: server. */
int ppa_perfmap_read(struct ppa_perfmap *p, int fd, uint64_t size, struct ppa_codemap *m) PPA_CTX_SERVER;

#endif
