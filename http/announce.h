/* SPDX-License-Identifier: Apache-2.0
 *
 * Telling where we listen: one line for people, one file for programs. */
#ifndef PPA_HTTP_ANNOUNCE_H
#define PPA_HTTP_ANNOUNCE_H

#include <sys/types.h>

#include "agent/base/attr.h"

struct ppa_listener;

/* The line "http://127.0.0.1:6060/debug/pprof/ (pid 123, redis-server)" through ppa_log. Context: server. */
void ppa_announce_line(const struct ppa_listener *l, const char *program, pid_t pid) PPA_CTX_SERVER;

/* Put the address and a newline into file (never seen half written) as 127.0.0.1:6060, [::1]:6060 or unix:/path: what
 * stands between http:// and the path of a URL. A failure is one line through ppa_log. Context: server. */
void ppa_announce_file(const struct ppa_listener *l, const char *file, pid_t pid) PPA_CTX_SERVER;

#endif
