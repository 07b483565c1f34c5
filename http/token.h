/* SPDX-License-Identifier: Apache-2.0
 *
 * PPROF_TOKEN_FILE: who does not show the token gets nothing. The file is read anew for each request, so that a rotated
 * secret counts at once, whatever links, mounts and time stamps did in between; it is small and requests are rare.
 *
 * A file that cannot be used admits nobody. What is wrong with it is one line on standard error, again when it changes. */
#ifndef PPA_HTTP_TOKEN_H
#define PPA_HTTP_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/attr.h"

enum { PPA_TOKEN_MAX = 256 }; /* bytes */

/* Demand the token in this file from now on; "" demands none. The string is copied; one that is too long for that counts
 * as a file that cannot be used. Tells what is wrong with the file already. Context: server, before the first connection. */
void ppa_token_set_file(const char *path) PPA_CTX_SERVER;

/* May a request with this Authorization header (NULL: none) be answered? Bearer TOKEN, or Basic with any user and the
 * token as password. Context: server. */
bool ppa_token_admits(const char *authorization) PPA_CTX_SERVER;

/* The token of a file's contents: without blanks and line ends around it. Its length; 0 with a static reason in *why if
 * there is none. *token points into text. Context: any; pure. */
size_t ppa_token_parse(const char *text, size_t len, const char **token, const char **why) PPA_CTX_ANY;

/* Is given the token (neither is longer than PPA_TOKEN_MAX)? Executes the same instructions on the token whatever of it
 * is right. Context: any; pure. */
bool ppa_token_equals(const char *given, size_t given_len, const char *token, size_t token_len) PPA_CTX_ANY;

/* What a header offers as token, into buf. Its length, or 0 if it offers none that could be one. Context: any; pure. */
size_t ppa_token_offered(const char *authorization, char buf[static PPA_TOKEN_MAX]) PPA_CTX_ANY;

#endif
