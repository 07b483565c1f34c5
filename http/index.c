/* SPDX-License-Identifier: Apache-2.0
 *
 * The page at /debug/pprof/. Tools scrape its table with a regular expression, so a row keeps Go's exact shape; all the
 * rest is for people. It is made from the table of routes, needs no script, no font and no second request. */
#include <stdio.h>
#include <string.h>

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

static void add_row(struct ppa_sink *s, const char *name, unsigned long long count)
{
	char row[160];

	snprintf(row, sizeof(row), "<tr><td>%llu</td><td><a href='%s?debug=1'>%s</a></td></tr>\n", count, name, name);
	add(s, row);
}

static void build(struct ppa_sink *s)
{
	const struct ppa_route *route;

	add(s, page_top);
	for (size_t i = 0; (route = ppa_routes_at(i)); i++) {
		if (route->help)
			add_row(s, route->name, 0);
	}
	add(s, "</table>\n<p>Profile Descriptions:</p>\n<ul>\n");
	for (size_t i = 0; (route = ppa_routes_at(i)); i++) {
		if (!route->help)
			continue;
		add(s, "<li><b>");
		add(s, route->name);
		add(s, ":</b> ");
		add(s, route->help);
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
