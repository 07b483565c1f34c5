/* SPDX-License-Identifier: Apache-2.0
 *
 * The door from the server to the execution trace: record a window, or take the past from the recorder that always
 * runs. One at a time. */
#ifndef PPA_SNAPSHOT_TRACE_COLLECT_H
#define PPA_SNAPSHOT_TRACE_COLLECT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_trace_input;

struct ppa_trace_request {
	int64_t duration_ns; /* > 0 */
	bool is_past;	     /* the last so many, instead of the next */
	/* Asked at least every 100 ms while recording; true ends the trace with -ECANCELED. NULL: never. */
	bool (*is_cancelled)(void *arg);
	void *arg;
};

/* Blocks for the duration, or not at all for the past. On 0, *out is the caller's, to be given to ppa_trace_free.
 * -EBUSY: a trace is being taken; -ENOTSUP: there is no recorder of the past; -ECANCELED, -ENOMEM. Context: server. */
int ppa_collect_trace(const struct ppa_trace_request *req, const struct ppa_trace_input **out) PPA_CTX_SERVER;
void ppa_trace_free(const struct ppa_trace_input *in) PPA_CTX_SERVER;

/* Record always, and keep the last so many seconds; 0: do not. 0 or -errno. Context: init, child. */
int ppa_trace_keep_past(int seconds) PPA_CTX_INIT;

/* Context: child. */
void ppa_trace_reset(void) PPA_CTX_CHILD;

#endif
