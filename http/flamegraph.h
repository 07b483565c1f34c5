/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile as one HTML page that needs nothing else: a flame graph where scripts may run, tables where not. */
#ifndef PPA_HTTP_FLAMEGRAPH_H
#define PPA_HTTP_FLAMEGRAPH_H

#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_sink;
struct ppa_snapshot;

/* What the page may do: run and look as it was built, nothing else; no network, no frame around it. */
extern const char ppa_flamegraph_policy[];

/* Append the page, opening with sample type `type`, an index below s->nsample_types. 0; -ENOMEM (also sticky in the sink);
 * -EINVAL as ppa_folded_encode. Context: server. */
int ppa_flamegraph_build(const struct ppa_snapshot *s, uint32_t type, struct ppa_sink *page) PPA_CTX_SERVER;

#endif
