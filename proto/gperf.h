/* SPDX-License-Identifier: Apache-2.0
 *
 * A CPU profile as gperftools' library writes it to a file: words of the machine, then the mappings as text. Its perl
 * reader knows no other form. */
#ifndef PPA_PROTO_GPERF_H
#define PPA_PROTO_GPERF_H

#include "agent/base/attr.h"

struct ppa_sink;
struct ppa_snapshot;

/* Append the file to *out, from a snapshot whose first value is a count of samples and whose period is in nanoseconds.
 * 0; -ENOMEM (also sticky in the sink); -EINVAL for a snapshot whose indices lead outside its arrays. Context: server. */
int ppa_gperf_encode(const struct ppa_snapshot *s, struct ppa_sink *out) PPA_CTX_SERVER;

#endif
