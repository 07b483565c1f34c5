/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of JSON, such that they may stand in an HTML script element: no name can end it or begin a tag. */
#ifndef PPA_PROTO_JSON_H
#define PPA_PROTO_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_sink;

/* In quotes. Bytes that are not UTF-8 become '?'; '<', '>', '&', quotes and control characters are escaped.
 * Context: server. */
void ppa_json_string(struct ppa_sink *out, const char *text, size_t len) PPA_CTX_SERVER;

/* In decimal. Context: server. */
void ppa_json_number(struct ppa_sink *out, int64_t v) PPA_CTX_SERVER;

#endif
