/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a connection while it has a worker. */
#ifndef PPA_HTTP_SESSION_H
#define PPA_HTTP_SESSION_H

#include <stdbool.h>

#include "agent/base/attr.h"

struct ppa_web;

/* Is the server's address reachable from this machine only? Decides whether Host is checked. Set before the first
 * connection. Context: server. */
void ppa_session_set_loopback(bool is_loopback) PPA_CTX_SERVER;

/* Answer the request waiting on fd and all that follow without a pause. True: the client keeps the connection open for
 * a later request; false: the connection is over. fd stays the caller's either way. Context: server. */
bool ppa_session_serve(struct ppa_web *w, int fd) PPA_CTX_SERVER;

#endif
