/* SPDX-License-Identifier: Apache-2.0
 *
 * From path to handler. Order of the checks is Go's: the path is cleaned up by a redirect first, then method, then name,
 * then the handler looks at its parameters.
 *
 * A request that may occupy its worker for long is counted; above the limit it is refused at once with 503, so that the
 * rest stays reachable whatever scrapers do. Nothing queues here. */
#include "http/routes.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "agent/snapshot/kinds.h"
#include "http/civetweb_embed.h"
#include "http/path.h"
#include "http/query.h"
#include "http/reply.h"

enum { GET_HEAD = PPA_METHOD_GET | PPA_METHOD_HEAD, LOCATION_MAX = 1024 };

/* clang-format off */
static const struct ppa_route routes[] = {
	{.name = "", .methods = GET_HEAD, .handle = ppa_handle_index, .type = PPA_TYPE_HTML, .length = PPA_SHORT},
	{
		.name = "cmdline", .methods = GET_HEAD, .handle = ppa_handle_cmdline, .type = PPA_TYPE_TEXT,
		.help = "The command line of the program, arguments separated by NUL bytes.",
		.length = PPA_SHORT,
	},
	/* For scrapers. */
	{
		.name = "delta_block", .methods = GET_HEAD, .handle = ppa_handle_delta, .type = PPA_TYPE_BYTES,
		.length = PPA_SHORT,
	},
	{
		.name = "delta_heap", .methods = GET_HEAD, .handle = ppa_handle_delta, .type = PPA_TYPE_BYTES,
		.length = PPA_SHORT,
	},
	{
		.name = "delta_mutex", .methods = GET_HEAD, .handle = ppa_handle_delta, .type = PPA_TYPE_BYTES,
		.length = PPA_SHORT,
	},
	{
		.name = "profile", .methods = GET_HEAD, .handle = ppa_handle_profile, .type = PPA_TYPE_BYTES,
		.help = "CPU profile of all threads. Parameters: seconds (default 30), hz (samples a second of CPU time, 1 to "
			"1000), labels=tid (tell threads apart). Open it with go tool pprof.",
		.cost = "Nothing until asked for; then not to be told from noise at 100 Hz, about 1 % of a CPU at 1000 Hz.",
		.length = PPA_LONG, .is_profile = true,
	},
	{
		.name = "settings", .methods = GET_HEAD | PPA_METHOD_PUT, .handle = ppa_handle_settings,
		.type = PPA_TYPE_TEXT, .length = PPA_SHORT,
	},
	{
		.name = "symbol", .methods = GET_HEAD | PPA_METHOD_POST, .handle = ppa_handle_symbol, .type = PPA_TYPE_TEXT,
		.help = "Names of the functions at the addresses in the query or body, which are separated by plus signs.",
		.length = PPA_SHORT,
	},
	/* pprof's client asks for this name where it does not recognise the path of the profile. */
	{
		.name = "symbolz", .methods = GET_HEAD | PPA_METHOD_POST, .handle = ppa_handle_symbol, .type = PPA_TYPE_TEXT,
		.length = PPA_SHORT,
	},
	{
		.name = "trace", .methods = GET_HEAD, .handle = ppa_handle_trace, .type = PPA_TYPE_BYTES,
		.help = "Execution trace: who ran, who waited for what and whom, for go tool trace. Parameters: seconds "
			"(default 1), format=perfetto (for ui.perfetto.dev), last=seconds (what was, with "
			"PPROF_TRACE_BUFFER).",
		.cost = "Nothing until asked for; then some hundred nanoseconds a wait.",
		.length = PPA_LONG,
	},
	{
		.name = "wall", .methods = GET_HEAD, .handle = ppa_handle_wall, .type = PPA_TYPE_BYTES,
		.help = "Where threads spend their time, running or waiting. Parameters: seconds (default 30), hz (looks at "
			"each thread a second, as long as they cost under 2 % of a CPU), labels=tid.",
		.cost = "Nothing until asked for; then up to 1 % of a CPU for looking, and the CPU profile's.",
		.length = PPA_LONG, .is_profile = true,
	},
};

/* Elsewhere, by their whole paths. */
static const struct ppa_route others[] = {
	/* The name under which Go programs serve such a profile. */
	{
		.name = "/debug/fgprof", .methods = GET_HEAD, .handle = ppa_handle_wall, .type = PPA_TYPE_BYTES,
		.length = PPA_LONG, .is_profile = true,
	},
	{
		.name = "/metrics", .methods = GET_HEAD, .handle = ppa_handle_metrics, .type = PPA_TYPE_TEXT,
		.length = PPA_SHORT,
	},
	/* gperftools' and brpc's names, for their clients. */
	{
		.name = "/pprof/cmdline", .methods = GET_HEAD, .handle = ppa_handle_cmdline, .type = PPA_TYPE_TEXT,
		.length = PPA_SHORT,
	},
	{
		.name = "/pprof/contention", .methods = GET_HEAD, .handle = ppa_handle_legacy_named, .type = PPA_TYPE_TEXT,
		.length = PPA_SHORT,
	},
	{
		.name = "/pprof/growth", .methods = GET_HEAD, .handle = ppa_handle_legacy_named, .type = PPA_TYPE_TEXT,
		.length = PPA_SHORT,
	},
	{
		.name = "/pprof/heap", .methods = GET_HEAD, .handle = ppa_handle_legacy_named, .type = PPA_TYPE_TEXT,
		.length = PPA_SHORT,
	},
	{
		.name = "/pprof/profile", .methods = GET_HEAD, .handle = ppa_handle_legacy_profile, .type = PPA_TYPE_BYTES,
		.length = PPA_LONG,
	},
	{
		.name = "/pprof/symbol", .methods = GET_HEAD | PPA_METHOD_POST, .handle = ppa_handle_symbol,
		.type = PPA_TYPE_TEXT, .length = PPA_SHORT,
	},
	{
		.name = "/pprof/symbolz", .methods = GET_HEAD | PPA_METHOD_POST, .handle = ppa_handle_symbol,
		.type = PPA_TYPE_TEXT, .length = PPA_SHORT,
	},
};

/* Of all kinds. */
static const struct ppa_route named = {
	.name = "", .methods = GET_HEAD, .handle = ppa_handle_named, .type = PPA_TYPE_BYTES,
	.length = PPA_LONG_WITH_SECONDS, .is_profile = true,
};
/* clang-format on */

static struct {
	_Atomic int collections, bodies; /* running now */
} state;

const struct ppa_route *ppa_routes_at(size_t i)
{
	return i < PPA_ARRAY_LEN(routes) ? &routes[i] : NULL;
}

const struct ppa_route *ppa_routes_find(const char *name)
{
	for (size_t i = 0; i < PPA_ARRAY_LEN(routes); i++) {
		if (!strcmp(routes[i].name, name))
			return &routes[i];
	}
	return ppa_kinds_find(name) ? &named : NULL;
}

enum ppa_routes_target ppa_routes_resolve(const char *path, const struct ppa_route **route)
{
	static const char prefix[] = PPA_ROUTES_PREFIX;
	size_t len = sizeof(prefix) - 1;

	*route = NULL;
	if (!strcmp(path, "/"))
		return PPA_TARGET_ROOT;
	for (size_t i = 0; i < PPA_ARRAY_LEN(others); i++) {
		if (!strcmp(path, others[i].name)) {
			*route = &others[i];
			return PPA_TARGET_ROUTE;
		}
	}
	if (!strncmp(path, prefix, len)) {
		*route = ppa_routes_find(path + len);
		return *route ? PPA_TARGET_ROUTE : PPA_TARGET_UNKNOWN_PROFILE;
	}
	return strncmp(path, prefix, len - 1) || path[len - 1] ? PPA_TARGET_NOTHING : PPA_TARGET_ADD_SLASH;
}

static void redirect(struct ppa_request *r, int status, const char *path)
{
	char location[LOCATION_MAX];

	if (ppa_path_escape(path, r->query, location, sizeof(location)) < 0)
		ppa_reply_error(r, 400, "request URI too long");
	else
		ppa_reply_redirect(r, status, location);
}

/* pprof, given nothing but host and port, asks for "/" and wants a profile; a browser wants a page. */
static void answer_root(struct ppa_request *r)
{
	const char *accept = ppa_web_header(r->web, "Accept");
	bool is_browser = accept && strstr(accept, "text/html");

	redirect(r, 302, is_browser ? PPA_ROUTES_PREFIX : PPA_ROUTES_PREFIX "profile");
}

static void refuse_method(struct ppa_request *r, unsigned methods)
{
	struct ppa_reply h = {
		.status = 405,
		.type = PPA_TYPE_TEXT,
		.allow = methods & PPA_METHOD_POST  ? "GET, HEAD, POST"
			 : methods & PPA_METHOD_PUT ? "GET, HEAD, PUT"
						    : "GET, HEAD",
	};
	static const char body[] = "Method Not Allowed\n";

	ppa_reply_send(r, &h, body, sizeof(body) - 1);
}

static void run_counted(struct ppa_request *r, const struct ppa_route *route, _Atomic int *running, int limit)
{
	if (ppa_request_enter(r, running, limit))
		route->handle(r);
	else
		ppa_reply_error(r, 503, "too many requests of this kind are running, try again later");
	ppa_request_leave(r);
}

static bool is_long(const struct ppa_request *r, const struct ppa_route *route)
{
	char unused[2];

	if (r->method != PPA_METHOD_GET)
		return false;
	return route->length == PPA_LONG || (route->length == PPA_LONG_WITH_SECONDS &&
					     ppa_query_get(r->query, "seconds", unused, sizeof(unused)) != -ENOENT);
}

static void run(struct ppa_request *r, const struct ppa_route *route)
{
	if (!(route->methods & r->method))
		refuse_method(r, route->methods);
	else if (r->method & (PPA_METHOD_POST | PPA_METHOD_PUT))
		run_counted(r, route, &state.bodies, PPA_ROUTES_BODIES_MAX);
	else if (is_long(r, route))
		run_counted(r, route, &state.collections, PPA_ROUTES_COLLECTIONS_MAX);
	else
		route->handle(r);
}

void ppa_routes_answer(struct ppa_request *r)
{
	const struct ppa_route *route;

	if (ppa_path_clean(r->path)) {
		redirect(r, 301, r->path);
		return;
	}
	switch (ppa_routes_resolve(r->path, &route)) {
	case PPA_TARGET_ROOT:
		if (r->method & GET_HEAD)
			answer_root(r);
		else
			refuse_method(r, GET_HEAD);
		return;
	case PPA_TARGET_ADD_SLASH:
		redirect(r, 301, PPA_ROUTES_PREFIX);
		return;
	case PPA_TARGET_ROUTE:
		r->is_under_pprof = true;
		run(r, route);
		return;
	case PPA_TARGET_UNKNOWN_PROFILE:
		r->is_under_pprof = true;
		if (r->method & GET_HEAD)
			ppa_reply_error(r, 404, "Unknown profile");
		else
			refuse_method(r, GET_HEAD);
		return;
	case PPA_TARGET_NOTHING:
		break;
	}
	ppa_reply_error(r, 404, "404 page not found");
}

void ppa_routes_reset(void)
{
	atomic_store_explicit(&state.collections, 0, memory_order_relaxed);
	atomic_store_explicit(&state.bodies, 0, memory_order_relaxed);
}
