/* SPDX-License-Identifier: Apache-2.0
 *
 * Head, what is known of the profile, the places that the script fills (hidden until it runs), tables of the heaviest
 * functions and stacks, the profile's data, the script. Every name passes ppa_html_text or proto/json.h; nothing of the
 * target's is ever in a tag or in the script. */
#include "http/flamegraph.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/snapshot/snapshot.h"
#include "http/html.h"
#include "http/pages.h"
#include "http/process.h"
#include "http/reply.h"
#include "proto/flame.h"
#include "proto/hottest.h"
#include "proto/sink.h"
#include "proto/stacks.h"

enum { FUNCTIONS_MAX = 50, STACKS_MAX = 10, FRAMES_SHOWN_MAX = 200 };

const char ppa_flamegraph_policy[] = "default-src 'none'; script-src " PPA_PAGE_FLAMEGRAPH_JS_HASH
				     "; img-src data:; style-src " PPA_PAGE_FLAMEGRAPH_CSS_HASH
				     "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static const char css[] = PPA_PAGE_FLAMEGRAPH_CSS, script[] = PPA_PAGE_FLAMEGRAPH_JS;

static const char tools[] =
	"<form id=\"tools\" hidden>\n"
	"<label>Values <select id=\"type\"></select></label>\n"
	"<label>Order <select id=\"layout\"><option value=\"down\">callers on top</option>"
	"<option value=\"up\">callers at the bottom</option><option value=\"callees\">callees first, their callers "
	"below"
	"</option></select></label>\n"
	"<label>Labels <select id=\"label\"><option value=\"\">all together</option></select></label>\n"
	"<label class=\"search\">Search <input id=\"search\" type=\"search\" autocomplete=\"off\" spellcheck=\"false\" "
	"aria-keyshortcuts=\"/\" placeholder=\"part of a function's name\"></label>\n"
	"<button type=\"button\" id=\"out\">Zoom out</button>\n"
	"<button type=\"button\" id=\"reset\">Show all</button>\n"
	"<button type=\"button\" id=\"help\" aria-expanded=\"false\" aria-controls=\"keys\">Keys</button>\n"
	"<output id=\"matched\" role=\"status\"></output>\n"
	"</form>\n"
	"<div id=\"keys\" hidden><dl>"
	"<dt><kbd>Tab</kbd></dt><dd>to the graph</dd>"
	"<dt><kbd>&uarr;</kbd> <kbd>&darr;</kbd></dt><dd>to the caller, to the heaviest callee</dd>"
	"<dt><kbd>&larr;</kbd> <kbd>&rarr;</kbd></dt><dd>to a heavier, a lighter callee of the same caller</dd>"
	"<dt><kbd>Enter</kbd></dt><dd>zoom to this box; a click or a tap does the same</dd>"
	"<dt><kbd>Backspace</kbd></dt><dd>zoom out by one box</dd>"
	"<dt><kbd>Esc</kbd></dt><dd>show all; then forget the search</dd>"
	"<dt><kbd>/</kbd></dt><dd>search; <kbd>Enter</kbd> or <kbd>n</kbd> goes to the next place found, <kbd>N</kbd> "
	"back"
	"</dd></dl></div>\n"
	"<div id=\"legend\" hidden></div>\n"
	"<div id=\"graph\" role=\"tree\" tabindex=\"0\" aria-label=\"Flame graph\" hidden>"
	"<canvas aria-hidden=\"true\"></canvas><div id=\"node0\" role=\"treeitem\"></div><div "
	"id=\"node1\"></div></div>\n"
	"<div id=\"detail\" hidden><b></b><span></span></div>\n";

struct builder {
	const struct ppa_snapshot *s;
	struct ppa_stacks *st;
	struct ppa_sink *page;
	uint32_t type;
	int64_t whole; /* of amounts: what percentages are of */
};

static void add(struct builder *b, const char *html)
{
	ppa_html_add(b->page, html);
}

static void add_text(struct builder *b, const char *text)
{
	ppa_html_text(b->page, text, strlen(text));
}

static const struct ppa_value_type *type_of(const struct builder *b)
{
	return &b->s->sample_types[b->type];
}

static void add_value(struct builder *b, int64_t v)
{
	const struct ppa_value_type *t = type_of(b);

	ppa_html_add_value(b->page, v, t->unit);
	if (!strcmp(t->unit, "count")) {
		add(b, " ");
		add_text(b, t->type);
	}
}

static void add_percent(struct builder *b, int64_t v)
{
	double p = b->whole ? 100.0 * (double)v / (double)b->whole : 0;
	char text[32];

	snprintf(text, sizeof(text), "%.*f %%", p >= 9.95 || p <= -9.95 ? 1 : 2, p);
	add(b, text);
}

/* The head of the page, up to the graph; its totals are of all samples. */
static void add_head(struct builder *b)
{
	struct ppa_process process;
	int64_t total = 0;
	char text[64];

	ppa_process_look(&process);
	for (size_t i = 0; i < b->s->nsamples; i++) {
		int64_t v = b->s->samples[i].values[b->type];

		total = (int64_t)((uint64_t)total + (uint64_t)v);
		b->whole = (int64_t)((uint64_t)b->whole + (v < 0 ? 0 - (uint64_t)v : (uint64_t)v));
	}
	add(b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	       "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	       "<meta name=\"color-scheme\" content=\"light dark\">\n"
	       "<link rel=\"icon\" href=\"data:,\">\n<title>");
	add_text(b, b->s->name);
	add(b, ", ");
	add_text(b, process.program);
	add(b, "</title>\n<style>");
	add(b, css);
	add(b, "</style>\n</head>\n<body>\n<header>\n<h1>");
	add_text(b, b->s->name);
	add(b, b->s->duration_ns ? " of " : "");
	if (b->s->duration_ns)
		ppa_html_add_value(b->page, b->s->duration_ns, "nanoseconds");
	add(b, ": <span id=\"shown\">");
	add_value(b, total);
	if (strcmp(type_of(b)->unit, "count") != 0) {
		add(b, " ");
		add_text(b, type_of(b)->type);
	}
	add(b, "</span></h1>\n<p class=\"quiet\">");
	add_text(b, process.program);
	snprintf(text, sizeof(text), ", pid %d, ", process.pid);
	add(b, text);
	ppa_reply_date(b->s->time_ns / 1000000000, text, sizeof(text));
	add(b, text);
	add(b, "</p>\n<nav><a href=\"/debug/pprof/\">all profiles</a></nav>\n</header>\n");
}

static void add_frame(struct builder *b, uint32_t frame, enum ppa_frame_part part)
{
	uint32_t len;
	const char *text = ppa_stacks_text(b->st, b->st->frames.list[frame].v[part], &len);

	ppa_html_text(b->page, text, len);
}

static void add_function(struct builder *b, const struct ppa_hot *f)
{
	add(b, "<tr><td>");
	add_value(b, f->self);
	add(b, "</td><td>");
	add_percent(b, f->self);
	add(b, "</td><td class=\"wide\">");
	add_value(b, f->total);
	add(b, "</td><td>");
	add_percent(b, f->total);
	add(b, "</td><td>");
	add_frame(b, f->index, PPA_FRAME_NAME);
	add(b, " <small>");
	add_frame(b, f->index, PPA_FRAME_MODULE);
	add(b, "</small></td></tr>\n");
}

static int add_functions(struct builder *b)
{
	struct ppa_hot list[FUNCTIONS_MAX];
	long n = ppa_hottest_functions(b->st, b->type, list, FUNCTIONS_MAX);

	add(b, "<section id=\"functions\">\n<h2>Heaviest functions</h2>\n<div class=\"scroll\"><table>\n"
	       "<thead><tr><th data-by=\"self\">Self</th><th>Self %</th><th data-by=\"total\" class=\"wide\">Total</th>"
	       "<th data-by=\"total\">Total %</th><th>Function</th></tr></thead>\n<tbody>\n");
	for (long i = 0; i < n; i++)
		add_function(b, &list[i]);
	add(b, "</tbody>\n</table></div>\n</section>\n");
	return n < 0 ? (int)n : 0;
}

static void add_stack(struct builder *b, const struct ppa_hot *h)
{
	struct ppa_stack_walk w;
	uint32_t frame, n = 0;

	add(b, "<li><b>");
	add_value(b, h->total);
	add(b, ", ");
	add_percent(b, h->total);
	add(b, "</b> ");
	ppa_stack_begin(b->st, h->index, &w);
	for (; ppa_stack_next(&w, &frame) && n < FRAMES_SHOWN_MAX; n++) {
		if (n)
			add(b, " &rsaquo; ");
		add_frame(b, frame, PPA_FRAME_NAME);
	}
	add(b, n == FRAMES_SHOWN_MAX ? " &hellip;</li>\n" : "</li>\n");
}

static int add_stacks(struct builder *b)
{
	struct ppa_hot list[STACKS_MAX];
	long n = ppa_hottest_stacks(b->st, b->type, list, STACKS_MAX);

	add(b, "<section id=\"stacks\">\n<h2>Heaviest stacks</h2>\n<ol>\n");
	for (long i = 0; i < n; i++)
		add_stack(b, &list[i]);
	add(b, "</ol>\n</section>\n");
	return n < 0 ? (int)n : 0;
}

static void add_comments(struct builder *b)
{
	if (b->s->ncomments == 0)
		return;
	add(b, "<section>\n<h2>How it was measured</h2>\n<ul class=\"quiet\">\n");
	for (size_t i = 0; i < b->s->ncomments; i++) {
		add(b, "<li>");
		add_text(b, b->s->comments[i]);
		add(b, "</li>\n");
	}
	add(b, "</ul>\n</section>\n");
}

int ppa_flamegraph_build(const struct ppa_snapshot *s, uint32_t type, struct ppa_sink *page)
{
	struct ppa_stacks st;
	struct builder b = {.s = s, .st = &st, .page = page, .type = type};
	int err = ppa_stacks_init(&st, s, PPA_FRAMES_BY_PLACE);

	if (!err && type >= s->nsample_types)
		err = -EINVAL;
	if (!err) {
		add_head(&b);
		add(&b, tools);
		err = add_functions(&b);
		err = err ? err : add_stacks(&b);
		add_comments(&b);
		add(&b, "<script type=\"application/json\" id=\"data\">");
		err = err ? err : ppa_flame_encode(&st, type, page);
		add(&b, "</script>\n<script>");
		add(&b, script);
		add(&b, "</script>\n</body>\n</html>\n");
	}
	ppa_stacks_free(&st);
	if (err == -ENOMEM)
		page->err = err;
	return err ? err : page->err;
}
