/* SPDX-License-Identifier: Apache-2.0
 *
 * From what threads recorded, the samples, and looks at the threads from outside, to the plain data of trace_input.h. */
#ifndef PPA_SNAPSHOT_TRACE_BUILD_H
#define PPA_SNAPSHOT_TRACE_BUILD_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/snapshot/trace_input.h"

struct ppa_dump;

struct ppa_trace_window {
	uint64_t start_ns, stop_ns;	       /* CLOCK_MONOTONIC */
	const struct ppa_dump *before, *after; /* at its ends; NULL: none was taken */
	const struct ppa_trace_counter *counters;
	size_t ncounters;
	uint64_t lost; /* elsewhere than in the threads' tracks */
};

/* Nobody takes back records meanwhile. 0, and *out is the caller's (ppa_trace_build_free); or -ENOMEM.
 * Context: server. */
int ppa_trace_build(const struct ppa_trace_window *w, const struct ppa_trace_input **out) PPA_CTX_SERVER;
void ppa_trace_build_free(const struct ppa_trace_input *in) PPA_CTX_SERVER;

#endif
