/* SPDX-License-Identifier: Apache-2.0
 *
 * A snapshot as a gzipped profile.proto (github.com/google/pprof/proto/profile.proto), field
 * numbers from the generated profile.pb.h. Streaming: memory is the compressed result plus zlib's
 * state and the string table's index. */
#ifndef PPA_PROTO_PPROF_H
#define PPA_PROTO_PPROF_H

#include "agent/base/attr.h"

struct ppa_sink;
struct ppa_snapshot;

/* Append the gzip file to *out. 0; -ENOMEM (also sticky in the sink); -EINVAL for a snapshot whose
 * indices lead outside its arrays (nothing is written); -EIO if zlib refused. After an error *out
 * may hold a fragment. Both stay the caller's. Bytes that are not UTF-8 become '?'. Context:
 * server. */
int ppa_pprof_encode(const struct ppa_snapshot *s, struct ppa_sink *out) PPA_CTX_SERVER;

#endif
