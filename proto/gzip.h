/* SPDX-License-Identifier: Apache-2.0
 *
 * A gzip file written piece by piece into a sink. Small writes are cheap: they are gathered before
 * zlib sees them. The same bytes always give the same file (no time, no name in the header). Errors
 * are sticky; close tells. */
#ifndef PPA_PROTO_GZIP_H
#define PPA_PROTO_GZIP_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/attr.h"

struct ppa_gzip;
struct ppa_sink;

/* Begin a file at the end of *out, which must outlive the writer. NULL: no memory. The caller owns
 * the result until ppa_gzip_close. Holds about 300 KB of the private heap meanwhile. Context:
 * server. */
struct ppa_gzip *ppa_gzip_open(struct ppa_sink *out) PPA_CTX_SERVER;

/* Append len bytes of content. False once anything failed, so that a caller may stop early; it need
 * not. Context: server. */
bool ppa_gzip_write(struct ppa_gzip *g, const void *data, size_t len) PPA_CTX_SERVER;

/* Finish the file and free the writer. 0, or the first error: -ENOMEM (then the sink's too) or -EIO
 * if zlib refused; the sink then holds a fragment. Context: server. */
int ppa_gzip_close(struct ppa_gzip *g) PPA_CTX_SERVER;

#endif
