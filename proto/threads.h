/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads one by one, as Go prints them with debug=2 and in a panic: for people, and for tools that read such dumps. A dump may
 * come in several snapshots, one after the other, the last with the comments.
 *
 * The snapshot has a sample for each thread, with labels tid, state, minutes and name, in this order, and then the
 * program's own, which the head shows as Go 1.26 does; behind it, where it is known, one for the stack that created it,
 * with the label created_by alone: the creator's tid, or 0. */
#ifndef PPA_PROTO_THREADS_H
#define PPA_PROTO_THREADS_H

#include "agent/base/attr.h"

struct ppa_sink;
struct ppa_snapshot;

/* Append the text to *out. 0; -ENOMEM, or -EINVAL for a snapshot that contradicts
 * itself (both also sticky in the sink). Context: server. */
int ppa_threads_encode(const struct ppa_snapshot *s, struct ppa_sink *out) PPA_CTX_SERVER;

#endif
