/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of requests, as Go's ServeMux treats them: pure string functions. */
#ifndef PPA_HTTP_PATH_H
#define PPA_HTTP_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/attr.h"

/* Undo %-escapes in place. False for a bad escape or an escaped NUL: no such request is answered. Context: any. */
bool ppa_path_decode(char *path) PPA_CTX_ANY;

/* Remove empty, "." and ".." segments in place; a trailing slash stays. True if that changed anything.
 * Context: any. */
bool ppa_path_clean(char *path) PPA_CTX_ANY;

/* path with everything but letters, digits and "-._~/" escaped, then "?query" (NULL: none) as it is, control bytes
 * dropped: fit for a Location header. Its length, or -E2BIG. Context: any. */
int ppa_path_escape(const char *path, const char *query, char *buf, size_t cap) PPA_CTX_ANY;

#endif
