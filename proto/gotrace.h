/* SPDX-License-Identifier: Apache-2.0
 *
 * An execution trace as `go tool trace` of Go 1.22 and later opens it: threads are goroutines, each on a processor of
 * its own. */
#ifndef PPA_PROTO_GOTRACE_H
#define PPA_PROTO_GOTRACE_H

#include <stddef.h>

#include "agent/base/attr.h"

struct ppa_sink;
struct ppa_trace_input;

/* What the header says, "go 1.NN trace". Go 1.22's is read by every later tool; the others exist for tests. */
enum ppa_gotrace_version {
	PPA_GOTRACE_22 = 22,
	PPA_GOTRACE_23 = 23,
	PPA_GOTRACE_25 = 25,
	PPA_GOTRACE_26 = 26,
};

/* Events that a file may have: the viewer takes 0.8 KB of memory for each. Beyond it the shortest waits are left out,
 * and counted. */
enum { PPA_GOTRACE_MAX_EVENTS = 2500000 };

struct ppa_gotrace_options {
	enum ppa_gotrace_version version; /* 0: PPA_GOTRACE_22 */
	size_t max_events;		  /* 0: PPA_GOTRACE_MAX_EVENTS */
};

/* Append the file to *out. Valid whatever is missing from the input or wrong in it. opt may be NULL. 0; -ENOMEM (also
 * sticky in the sink); -EINVAL for a window without length or stacks whose indices lead outside their arrays, and nothing is written.
 * After -ENOMEM *out may hold a fragment. Beside the result it takes some 40 bytes for each wait that somebody else
 * ended, and 16 for each record of the busiest thread. Context: server. */
int ppa_gotrace_encode(const struct ppa_trace_input *in, const struct ppa_gotrace_options *opt,
		       struct ppa_sink *out) PPA_CTX_SERVER;

#endif
