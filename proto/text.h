/* SPDX-License-Identifier: Apache-2.0
 *
 * A snapshot as the legacy text that Go serves with debug=1: readable by people as it is, and by pprof from a file,
 * because the memory map is appended. */
#ifndef PPA_PROTO_TEXT_H
#define PPA_PROTO_TEXT_H

#include "agent/base/attr.h"

struct ppa_sink;
struct ppa_snapshot;

/* Append the text to *out. 0; -ENOMEM (also sticky in the sink); -EINVAL for a snapshot whose form is PPA_FORM_NONE, or whose indices lead
 * outside its arrays.
 * Context: server. */
int ppa_text_encode(const struct ppa_snapshot *s, struct ppa_sink *out) PPA_CTX_SERVER;

/* The same as gperftools' own programs write it: without names (their reader asks for those), the heap's head with the
 * rate as it is; a count of two values is a growth profile, and contentions are called so. Context: server. */
int ppa_text_encode_gperftools(const struct ppa_snapshot *s, struct ppa_sink *out) PPA_CTX_SERVER;

/* The mappings alone, as lines of /proc/self/maps. Context: server. */
void ppa_text_put_map(const struct ppa_snapshot *s, struct ppa_sink *out) PPA_CTX_SERVER;

#endif
