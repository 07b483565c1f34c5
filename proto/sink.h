/* SPDX-License-Identifier: Apache-2.0
 *
 * Where encoders write: a growing buffer in the private heap with a sticky error, so that an
 * encoder checks once, at its end. */
#ifndef PPA_PROTO_SINK_H
#define PPA_PROTO_SINK_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_sink {
	uint8_t *bytes; /* owned; ppa_sink_free */
	size_t len, cap;
	int err; /* 0 or -ENOMEM; sticky */
};

void ppa_sink_init(struct ppa_sink *s) PPA_CTX_SERVER;
void ppa_sink_write(struct ppa_sink *s, const void *data, size_t len) PPA_CTX_SERVER;

/* Write once more what stands at offset from of s, len bytes, which were written before. */
void ppa_sink_repeat(struct ppa_sink *s, size_t from, size_t len) PPA_CTX_SERVER;

void ppa_sink_free(struct ppa_sink *s) PPA_CTX_SERVER;

#endif
