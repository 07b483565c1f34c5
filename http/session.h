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

enum ppa_session_end {
	PPA_SESSION_CLOSE,   /* the connection is over */
	PPA_SESSION_KEEP,    /* the client keeps it open for a later request */
	PPA_SESSION_DISCARD, /* the client was told no and may still send: see PPA_GATE_DONE */
	PPA_SESSION_PASS,    /* a worker should serve it */
};

/* Answer the request waiting on fd and all that follow without a pause. fd stays the caller's. Context: server. */
enum ppa_session_end ppa_session_serve(struct ppa_web *w, int fd) PPA_CTX_SERVER;

/* After PPA_WEB_HEAD for fd: tell what is no request at all so, at once. PPA_SESSION_PASS if it is one, of which nothing
 * is taken; never PPA_SESSION_KEEP. Never waits. fd stays the caller's. Context: server, the keeper only. */
enum ppa_session_end ppa_session_judge(struct ppa_web *w, int fd) PPA_CTX_SERVER;

/* Tell a client whom nobody can serve (503), whatever it sends. Needs no memory and never waits. fd stays the caller's.
 * Context: server. */
enum ppa_session_end ppa_session_turn_away(int fd) PPA_CTX_SERVER;

#endif
