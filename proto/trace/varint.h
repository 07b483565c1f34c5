/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers in groups of seven bits, least significant first, the top bit set on all but the last: what Go's traces and
 * protobuf have in common. */
#ifndef PPA_PROTO_TRACE_VARINT_H
#define PPA_PROTO_TRACE_VARINT_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

enum { PPA_TRACE_VARINT_MAX = 10 };

/* Write v to *to, which has room for PPA_TRACE_VARINT_MAX bytes; returns how many it took. Context: any. */
size_t ppa_trace_varint(uint8_t *to, uint64_t v) PPA_CTX_ANY;

#endif
