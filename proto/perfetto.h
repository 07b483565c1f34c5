/* SPDX-License-Identifier: Apache-2.0
 *
 * An execution trace as ui.perfetto.dev opens it: a track a thread with its waits as slices, arrows from wakers, CPU samples,
 * counters of memory. Field numbers from perfetto's protos/perfetto/trace/. */
#ifndef PPA_PROTO_PERFETTO_H
#define PPA_PROTO_PERFETTO_H

#include "agent/base/attr.h"

struct ppa_sink;
struct ppa_trace_input;

/* Append the file to *out. 0; -ENOMEM (also sticky in the sink); -EINVAL as ppa_gotrace_encode. Context: server. */
int ppa_perfetto_encode(const struct ppa_trace_input *in, struct ppa_sink *out) PPA_CTX_SERVER;

#endif
