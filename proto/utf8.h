/* SPDX-License-Identifier: Apache-2.0
 *
 * Is it UTF-8? Names of files, programs and symbols are bytes to the kernel and the linker, but the
 * formats we write promise UTF-8, and a reader that checks (Go's protobuf does) would refuse a
 * whole profile for one old file name. */
#ifndef PPA_PROTO_UTF8_H
#define PPA_PROTO_UTF8_H

#include <stddef.h>

#include "agent/base/attr.h"

/* How many of the len bytes at text, from the first on, are whole valid characters (no overlong
 * forms, no surrogates, nothing above U+10FFFF). Context: any. */
size_t ppa_utf8_span(const char *text, size_t len) PPA_CTX_ANY;

/* Copy the len bytes at text to *to, which has room for cap bytes: whole characters only, '?' for each byte that belongs
 * to none. Returns how many bytes were written; no NUL. Context: any. */
size_t ppa_utf8_clean(char *to, size_t cap, const char *text, size_t len) PPA_CTX_ANY;

#endif
