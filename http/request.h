/* SPDX-License-Identifier: Apache-2.0
 *
 * One request as handlers see it. It lives on the worker's stack from the parsed head to the end of the answer; the
 * strings belong to the connection's buffer. */
#ifndef PPA_HTTP_REQUEST_H
#define PPA_HTTP_REQUEST_H

#include <stdbool.h>

#include "agent/base/attr.h"

struct ppa_web;

enum ppa_method {
	PPA_METHOD_GET = 1U << 0,
	PPA_METHOD_HEAD = 1U << 1,
	PPA_METHOD_POST = 1U << 2,
	PPA_METHOD_PUT = 1U << 3,
	PPA_METHOD_OTHER = 1U << 4,
};

struct ppa_request {
	struct ppa_web *web;
	enum ppa_method method;
	char *path;	   /* decoded, cleaned up */
	const char *query; /* raw, NULL if there is none */
	bool is_http10;
	bool keeps_alive;    /* cleared by whoever finds that the connection must end */
	bool is_under_pprof; /* path begins with /debug/pprof/: errors carry X-Go-Pprof */
};

/* Ask for the body if the client announced one and waits to be asked. False: the connection is broken. Context: server. */
bool ppa_request_invite_body(struct ppa_request *r) PPA_CTX_SERVER;

#endif
