/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kinds of waits are called, and texts by their id. */
#ifndef PPA_PROTO_TRACE_WAITS_H
#define PPA_PROTO_TRACE_WAITS_H

#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_trace_input;

/* Go's reason for a wait: "network" alone makes its network page, what contains "sync" its page of synchronization.
 * Never NULL. Context: any. */
const char *ppa_trace_wait_reason(uint32_t kind) PPA_CTX_ANY;

/* "" for an id that is none. Context: any. */
const char *ppa_trace_text(const struct ppa_trace_input *in, uint32_t id) PPA_CTX_ANY;

#endif
