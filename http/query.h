/* SPDX-License-Identifier: Apache-2.0
 *
 * Query strings the way Go reads them (net/url.ParseQuery and strconv.ParseInt): pure parsers over the raw string.
 *
 * Pairs are cut at '&'; a pair with a ';' or a bad '%' does not exist; '+' is a space; of several pairs with one key
 * the first wins; an empty value counts as absent. */
#ifndef PPA_HTTP_QUERY_H
#define PPA_HTTP_QUERY_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

/* The decoded value of key in query (NULL is an empty query), NUL-terminated in buf. Its length, or -ENOENT if it is
 * absent or empty; a value that does not fit (cap - 1 bytes) is -E2BIG. Context: any. */
int ppa_query_get(const char *query, const char *key, char *buf, size_t cap) PPA_CTX_ANY;

/* text is a decimal integer with at most one sign, as Go's ParseInt(text, 10, 64) takes it: 0 and *out, or -EINVAL,
 * or -ERANGE beyond 64 bits. Context: any. */
int ppa_query_parse_int(const char *text, int64_t *out) PPA_CTX_ANY;

/* Both at once: -ENOENT absent, -EINVAL or -ERANGE not a number. Context: any. */
int ppa_query_get_int(const char *query, const char *key, int64_t *out) PPA_CTX_ANY;

/* key as a decimal number of seconds, with fraction and exponent as Go's ParseFloat takes them (but neither hexadecimal nor
 * NaN), in nanoseconds: 0 and *ns, cut towards zero. -ENOENT absent, -EINVAL not such a number, -ERANGE beyond 64 bits.
 * Context: any. */
int ppa_query_get_seconds(const char *query, const char *key, int64_t *ns) PPA_CTX_ANY;

/* The value of two hexadecimal digits, or -1. Context: any. */
int ppa_query_hex_byte(const char *two) PPA_CTX_ANY;

#endif
