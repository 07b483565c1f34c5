/* SPDX-License-Identifier: Apache-2.0
 *
 * One request as handlers see it. It lives on the worker's stack from the parsed head to the end of the answer; the
 * strings belong to the connection's buffer. */
#ifndef PPA_HTTP_REQUEST_H
#define PPA_HTTP_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

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
	_Atomic int *place;  /* it counts among those that run at once; NULL: not, or no more */
};

/* Take one of limit places that *running counts. False: all are taken. Context: server. */
static inline bool ppa_request_enter(struct ppa_request *r, _Atomic int *running, int limit)
{
	/* Relaxed: the number orders nothing. Never above the limit, or who is refused would refuse others. */
	int n = atomic_load_explicit(running, memory_order_relaxed);

	while (n < limit &&
	       !atomic_compare_exchange_weak_explicit(running, &n, n + 1, memory_order_relaxed, memory_order_relaxed))
		;
	r->place = n < limit ? running : NULL;
	return n < limit;
}

/* Give the place back, if there is one: before the first byte of the answer, because a client that has read the last one
 * asks again at once. Context: server. */
static inline void ppa_request_leave(struct ppa_request *r)
{
	if (r->place)
		atomic_fetch_sub_explicit(r->place, 1, memory_order_relaxed);
	r->place = NULL;
}

/* Ask for the body if the client announced one and waits to be asked. False: the connection is broken. Context: server. */
bool ppa_request_invite_body(struct ppa_request *r) PPA_CTX_SERVER;

#endif
