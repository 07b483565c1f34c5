/* SPDX-License-Identifier: Apache-2.0
 *
 * What there is below /debug/pprof/: one table that the dispatcher, the index page and the tests read. The profiles of
 * agent/snapshot/kinds.h share one route. */
#ifndef PPA_HTTP_ROUTES_H
#define PPA_HTTP_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/attr.h"
#include "http/request.h"

#define PPA_ROUTES_PREFIX "/debug/pprof/"

/* How many of the 32 workers requests of one sort may occupy. Collections last minutes: 16 CPU profiles, one that is
 * being refused and one to spare. Bodies last as long as a client takes to send them; slow readers have a share of 6
 * (civetweb_embed.h). The rest is always left for the
 * index, command line and error texts. */
enum { PPA_ROUTES_COLLECTIONS_MAX = 18, PPA_ROUTES_BODIES_MAX = 4 };

/* How long a GET may occupy its worker. */
enum ppa_route_length {
	PPA_SHORT,
	PPA_LONG,
	PPA_LONG_WITH_SECONDS, /* if it has a parameter seconds */
};

struct ppa_route {
	const char *name; /* the path below the prefix, "" for the index */
	unsigned methods; /* of enum ppa_method */
	void (*handle)(struct ppa_request *r);
	const char *type; /* Content-Type of its 200 */
	const char *help; /* for the index, HTML; NULL: not listed there */
	const char *cost; /* what taking and keeping it costs the program, for the index, HTML; NULL: nothing to tell */
	enum ppa_route_length length;
	bool is_profile; /* of stacks: has all forms of output */
};

/* The routes but for the kinds of agent/snapshot/kinds.h, by name; NULL after the last. Context: any. */
const struct ppa_route *ppa_routes_at(size_t i) PPA_CTX_ANY;

/* The route of exactly this name, a kind's included, NULL if there is none. Context: any. */
const struct ppa_route *ppa_routes_find(const char *name) PPA_CTX_ANY;

/* Where a path leads, as far as the path alone can tell. Context: any; pure. */
enum ppa_routes_target {
	PPA_TARGET_ROOT,	    /* / */
	PPA_TARGET_ADD_SLASH,	    /* /debug/pprof */
	PPA_TARGET_ROUTE,	    /* *route is set */
	PPA_TARGET_UNKNOWN_PROFILE, /* below the prefix, but not in the table */
	PPA_TARGET_NOTHING,	    /* elsewhere */
};
enum ppa_routes_target ppa_routes_resolve(const char *path, const struct ppa_route **route) PPA_CTX_ANY;

/* Answer r, whose path is decoded but not cleaned up. Context: server. */
void ppa_routes_answer(struct ppa_request *r) PPA_CTX_SERVER;

/* Context: child. */
void ppa_routes_reset(void) PPA_CTX_CHILD;

/* The handlers, each in the file of its name. Context: server. */
void ppa_handle_index(struct ppa_request *r) PPA_CTX_SERVER;
void ppa_handle_named(struct ppa_request *r) PPA_CTX_SERVER;
void ppa_handle_delta(struct ppa_request *r) PPA_CTX_SERVER;
void ppa_handle_cmdline(struct ppa_request *r) PPA_CTX_SERVER;
void ppa_handle_profile(struct ppa_request *r) PPA_CTX_SERVER;
void ppa_handle_wall(struct ppa_request *r) PPA_CTX_SERVER; /* in profile.c */
void ppa_handle_trace(struct ppa_request *r) PPA_CTX_SERVER;
void ppa_handle_symbol(struct ppa_request *r) PPA_CTX_SERVER;
void ppa_handle_legacy_profile(struct ppa_request *r) PPA_CTX_SERVER; /* in legacy.c, as the next */
void ppa_handle_legacy_named(struct ppa_request *r) PPA_CTX_SERVER;
void ppa_handle_metrics(struct ppa_request *r) PPA_CTX_SERVER;
void ppa_handle_settings(struct ppa_request *r) PPA_CTX_SERVER;

/* PPROF_SETTINGS: is the last one to do anything? Context: server, before the first connection. */
void ppa_settings_allow(bool is_allowed) PPA_CTX_SERVER;

#endif
