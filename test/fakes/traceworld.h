/* SPDX-License-Identifier: Apache-2.0
 *
 * Invented execution traces, the same for the same seed: threads that begin, wait, wake each other, say things and end,
 * with stacks of every shape; then, if asked, with holes and with nonsense. */
#ifndef PPA_TEST_FAKES_TRACEWORLD_H
#define PPA_TEST_FAKES_TRACEWORLD_H

#include <stdint.h>

#include "agent/snapshot/trace_input.h"

struct traceworld_options {
	uint64_t seed;
	unsigned threads;	   /* at the start; as many again are created, where is_static is not set */
	unsigned records_a_thread; /* on average */
	unsigned lost_percent;	   /* of all records, and of what is known of threads */
	unsigned nonsense_percent; /* records and threads whose fields are random */
};

struct traceworld; /* owns what the input points to */

/* Made with malloc; never NULL. */
struct traceworld *traceworld_new(const struct traceworld_options *opt);
const struct ppa_trace_input *traceworld_input(const struct traceworld *w);
void traceworld_free(struct traceworld *w);

#endif
