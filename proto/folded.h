/* SPDX-License-Identifier: Apache-2.0
 *
 * A snapshot as collapsed stacks, the text that flamegraph.pl, speedscope and their like read: a line for each distinct
 * stack, its functions from the root to the leaf with ';' between them, a space, one value. */
#ifndef PPA_PROTO_FOLDED_H
#define PPA_PROTO_FOLDED_H

#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_sink;
struct ppa_snapshot;

/* Append the text to *out, with the values of sample type `type`, an index below s->nsample_types. Stacks of value 0 are
 * left out; the values of a delta may be negative. A ';', a control character and DEL in a name are written %3B and so
 * on, bytes that are not UTF-8 as '?'. 0; -ENOMEM (also sticky in the sink); -EINVAL for a snapshot whose indices lead
 * outside its arrays or a type that it does not have. Context: server. */
int ppa_folded_encode(const struct ppa_snapshot *s, uint32_t type, struct ppa_sink *out) PPA_CTX_SERVER;

#endif
