/* SPDX-License-Identifier: Apache-2.0
 *
 * The page at /debug/pprof/. Tools scrape its table with a regular expression, so a row keeps Go's exact shape, and so do
 * title, goroutine link and list of descriptions; all the rest is for people: what the process is, and for each profile
 * what it costs and the forms in which it can be had. It is made from the tables of routes and kinds, merged by name, and
 * needs no script, no font and no second request. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/version.h"
#include "agent/base/vheap.h"
#include "agent/snapshot/kinds.h"
#include "http/civetweb_embed.h"
#include "http/html.h"
#include "http/pages.h"
#include "http/process.h"
#include "http/routes.h"
#include "proto/json.h"
#include "proto/sink.h"

static const char css[] = PPA_PAGE_INDEX_CSS;

static const char policy[] = "default-src 'none'; img-src data:; style-src " PPA_PAGE_INDEX_CSS_HASH
			     "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

enum { HOST_MAX = 255 };

static void add(struct ppa_sink *s, const char *html)
{
	ppa_html_add(s, html);
}

static void add_text(struct ppa_sink *s, const char *text)
{
	ppa_html_text(s, text, strlen(text));
}

struct entry {
	const char *name, *help, *cost;
	uint64_t count;
	bool is_stacks;		  /* a profile of stacks */
	bool is_time;		  /* taken in a window, always */
	bool has_delta, has_each; /* seconds=; debug=2 */
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
		*out = (struct entry){
			.name = kind->name,
			.help = kind->help,
			.cost = kind->cost,
			.count = ppa_kinds_count(kind),
			.is_stacks = true,
			.has_delta = kind->has_delta,
			.has_each = kind->build_each != NULL,
		};
		at->kind++;
	} else {
		*out = (struct entry){
			.name = route->name,
			.help = route->help,
			.cost = route->cost,
			.is_stacks = route->is_profile,
			.is_time = route->is_profile,
		};
		at->route++;
	}
	return true;
}

/* ---- the process ---- */

static void add_fact(struct ppa_sink *s, const char *name)
{
	add(s, "<div><dt>");
	add(s, name);
	add(s, "</dt><dd>");
}

static void end_fact(struct ppa_sink *s)
{
	add(s, "</dd></div>\n");
}

static void add_memory(struct ppa_sink *s, const struct ppa_process *p)
{
	add_fact(s, "Memory (RSS)");
	ppa_html_add_value(s, (int64_t)p->rss_bytes, "bytes");
	end_fact(s);
	add_fact(s, "At most so far");
	ppa_html_add_value(s, (int64_t)p->rss_peak_bytes, "bytes");
	end_fact(s);
	add_fact(s, "Agent");
	add(s, PPA_VERSION ", heap ");
	ppa_html_add_value(s, (int64_t)ppa_vheap_mapped_bytes(), "bytes");
	end_fact(s);
}

static void add_process(struct ppa_sink *s)
{
	const struct ppa_kind *threads = ppa_kinds_find("goroutine");
	struct ppa_process p;

	ppa_process_look(&p);
	add(s, "<dl>\n");
	add_fact(s, "Program");
	add_text(s, *p.path ? p.path : p.program);
	end_fact(s);
	add_fact(s, "Process");
	ppa_json_number(s, p.pid);
	end_fact(s);
	add_fact(s, "Running for");
	ppa_html_add_duration(s, p.uptime_ns);
	end_fact(s);
	add_fact(s, "CPU used");
	/* In ticks: some may not have been one yet. */
	if (p.cpu_ns)
		ppa_html_add_value(s, (int64_t)p.cpu_ns, "nanoseconds");
	else
		add(s, "under 10 ms");
	end_fact(s);
	if (threads) {
		add_fact(s, "Threads");
		ppa_html_add_value(s, (int64_t)ppa_kinds_count(threads), "count");
		end_fact(s);
	}
	add_memory(s, &p);
	add(s, "</dl>\n");
}

/* ---- the profiles ---- */

static void add_table(struct ppa_sink *s)
{
	struct walk at = {0, 0};
	struct entry e;

	add(s, "<table>\n<thead><tr><th>Count</th><th>Profile</th></tr></thead>\n");
	while (next(&at, &e)) {
		add(s, "<tr><td>");
		ppa_json_number(s, (int64_t)e.count);
		add(s, "</td><td><a href='");
		add(s, e.name);
		add(s, "?debug=1'>");
		add(s, e.name);
		add(s, "</a></td></tr>\n");
	}
	add(s, "</table>\n");
	if (ppa_kinds_find("goroutine"))
		add(s, "<a href=\"goroutine?debug=2\">full goroutine stack dump</a>\n");
}

static void add_link(struct ppa_sink *s, const char *name, const char *query, const char *text)
{
	add(s, " <a href=\"");
	add(s, name);
	add(s, query);
	add(s, "\">");
	add(s, text);
	add(s, "</a>");
}

/* The forms of a profile of stacks: as it is now, and of a window. */
static void add_links(struct ppa_sink *s, const struct entry *e)
{
	if (!e->is_time) {
		add(s, "<p class=\"forms\">now:");
		add_link(s, e->name, "?format=flamegraph", "flame graph");
		add_link(s, e->name, "?format=folded", "folded");
		add_link(s, e->name, "?debug=1", "text");
		if (e->has_each)
			add_link(s, e->name, "?debug=2", "one by one");
		add_link(s, e->name, "", "file");
		add(s, "</p>");
	}
	if (e->is_time) {
		add(s, "<p class=\"forms\">5 s:");
		add_link(s, e->name, "?seconds=5&amp;format=flamegraph", "flame graph");
		add_link(s, e->name, "?seconds=5&amp;format=folded", "folded");
		add_link(s, e->name, "?seconds=5", "file");
		add(s, "</p>");
	}
	if (e->is_time || e->has_delta) {
		add(s, "<p class=\"forms\">30 s:");
		add_link(s, e->name, "?seconds=30&amp;format=flamegraph", "flame graph");
		add_link(s, e->name, "?seconds=30&amp;format=folded", "folded");
		add_link(s, e->name, "?seconds=30", "file");
		add(s, "</p>");
	}
}

static void add_descriptions(struct ppa_sink *s)
{
	struct walk at = {0, 0};
	struct entry e;

	add(s, "<h2>Profile Descriptions:</h2>\n<ul>\n");
	while (next(&at, &e)) {
		add(s, "<li><b>");
		add(s, e.name);
		add(s, ":</b> ");
		add(s, e.help);
		if (e.cost) {
			add(s, "<p class=\"cost\">Cost: ");
			add(s, e.cost);
			add(s, "</p>");
		}
		if (e.is_stacks)
			add_links(s, &e);
		if (!strcmp(e.name, "trace")) {
			add(s, "<p class=\"forms\">5 s:");
			add_link(s, e.name, "?seconds=5", "file");
			add_link(s, e.name, "?seconds=5&amp;format=perfetto", "for Perfetto");
			add(s, "</p>");
		}
		add(s, "</li>\n");
	}
	add(s, "</ul>\n");
}

/* ---- the page ---- */

static void build(struct ppa_sink *s, const char *host)
{
	add(s, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	       "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	       "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n"
	       "<title>/debug/pprof/</title>\n<style>");
	add(s, css);
	add(s, "</style>\n</head>\n<body>\n<header>\n<h1>/debug/pprof/</h1>\n");
	add_process(s);
	add(s, "</header>\n<main>\n<section class=\"rows\">\n");
	add_table(s);
	add(s, "</section>\n<section>\n<p>A flame graph opens here in the browser. A file is for <code>go tool "
	       "pprof</code>, "
	       "which can also fetch it:</p>\n<pre>go tool pprof http://");
	add_text(s, host && strlen(host) <= HOST_MAX ? host : "HOST:PORT");
	add(s,
	    "/debug/pprof/profile?seconds=10</pre>\n"
	    "<p>A window of 5 or 30 s is measured for so long before there is an answer. Figures of the agent itself: "
	    "<a href=\"/metrics\">metrics</a>, <a href=\"settings\">settings</a>.</p>\n");
	add_descriptions(s);
	add(s, "</section>\n</main>\n</body>\n</html>\n");
}

void ppa_handle_index(struct ppa_request *r)
{
	struct ppa_sink page;

	ppa_sink_init(&page);
	build(&page, ppa_web_header(r->web, "Host"));
	ppa_html_reply(r, &page, policy);
}
