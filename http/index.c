/* SPDX-License-Identifier: Apache-2.0
 *
 * The page at /debug/pprof/. Tools scrape its table with a regular expression, so a row keeps Go's exact shape; all the
 * rest is for people. It is made from the tables of routes and kinds, merged by name, and needs no script, no font and no
 * second request. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/snapshot/kinds.h"
#include "http/reply.h"
#include "http/routes.h"
#include "proto/sink.h"

static const char page_top[] =
	"<!DOCTYPE html>\n"
	"<html>\n"
	"<head>\n"
	"<meta charset=\"utf-8\">\n"
	"<meta name=\"viewport\" content=\"width=device-width\">\n"
	"<title>/debug/pprof/</title>\n"
	"<style>\n"
	"body { font-family: sans-serif; margin: 2em; max-width: 50em; line-height: 1.5; }\n"
	"table { border-collapse: collapse; }\n"
	"td, th { padding: .15em 1.2em .15em 0; text-align: left; }\n"
	"code { background: #eee; padding: .1em .3em; }\n"
	"</style>\n"
	"</head>\n"
	"<body>\n"
	"/debug/pprof/\n"
	"<p>Profiles of this process. A profile is a file for <code>go tool pprof</code>, which can also fetch it: "
	"<code>go tool pprof http://<i>this address</i>/debug/pprof/profile?seconds=10</code>. "
	"A link to the CPU profile below measures for 30 seconds and then downloads.</p>\n"
	"<table>\n"
	"<thead><tr><th>Count</th><th>Profile</th></tr></thead>\n";

static void add(struct ppa_sink *s, const char *text)
{
	ppa_sink_write(s, text, strlen(text));
}

struct entry {
	const char *name, *help, *cost;
	uint64_t count;
};

/* Walks both tables at once. */
struct walk {
	size_t route, kind;
};

/* The next entry by name; false after the last. */
static bool next(struct walk *at, struct entry *out)
{
	const struct ppa_route *route = ppa_routes_at(at->route);
	const struct ppa_kind *kind = ppa_kinds_at(at->kind);

	while (route && !route->help)
		route = ppa_routes_at(++at->route);
	if (!route && !kind)
		return false;
	if (!route || (kind && strcmp(kind->name, route->name) < 0)) {
		*out = (struct entry){kind->name, kind->help, kind->cost, ppa_kinds_count(kind)};
		at->kind++;
	} else {
		*out = (struct entry){route->name, route->help, route->cost, 0};
		at->route++;
	}
	return true;
}

static void build(struct ppa_sink *s)
{
	struct walk at = {0, 0};
	struct entry e;
	char row[160];

	add(s, page_top);
	while (next(&at, &e)) {
		snprintf(row, sizeof(row), "<tr><td>%" PRIu64 "</td><td><a href='%s?debug=1'>%s</a></td></tr>\n",
			 e.count, e.name, e.name);
		add(s, row);
	}
	add(s, "</table>\n");
	if (ppa_kinds_find("goroutine"))
		add(s, "<a href=\"goroutine?debug=2\">full goroutine stack dump</a>\n");
	add(s, "<p>Profile Descriptions:</p>\n<ul>\n");
	at = (struct walk){0, 0};
	while (next(&at, &e)) {
		add(s, "<li><b>");
		add(s, e.name);
		add(s, ":</b> ");
		add(s, e.help);
		if (e.cost) {
			add(s, " <i>");
			add(s, e.cost);
			add(s, "</i>");
		}
		add(s, "</li>\n");
	}
	add(s, "</ul>\n</body>\n</html>\n");
}

void ppa_handle_index(struct ppa_request *r)
{
	struct ppa_sink page;

	ppa_sink_init(&page);
	build(&page);
	if (page.err)
		ppa_reply_error(r, 500, "out of memory");
	else
		ppa_reply_ok(r, PPA_TYPE_HTML, NULL, page.bytes, page.len);
	ppa_sink_free(&page);
}
