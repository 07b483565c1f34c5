/* SPDX-License-Identifier: Apache-2.0 */
// link: http/routes.c http/path.c http/query.c http/access.c http/symbol_words.c
/* Promise: a path leads where Go's would, whatever its spelling; methods that a route does not know are told which it
 * knows; long requests never take more than their share of the workers.
 * Promise: a Host that is a name is no way in.
 * Promise: addresses are read as Go reads them, however the body is cut into pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "agent/snapshot/kinds.h"
#include "http/access.h"
#include "http/civetweb_embed.h"
#include "http/path.h"
#include "http/reply.h"
#include "http/routes.h"
#include "http/symbol_words.h"

/* What the fakes below saw of the last answer. */
static struct {
	int status;
	char text[256]; /* location, error line or the route's name */
	const char *allow, *accept;
	int nested, deepest, refused;
} seen;

const char *ppa_web_header(const struct ppa_web *w, const char *name)
{
	(void)w;
	return strcmp(name, "Accept") ? NULL : seen.accept;
}

void ppa_reply_send(struct ppa_request *r, const struct ppa_reply *h, const void *body, size_t len)
{
	(void)r;
	seen.status = h->status;
	seen.allow = h->allow;
	snprintf(seen.text, sizeof(seen.text), "%.*s", (int)len, (const char *)body);
}

void ppa_reply_error(struct ppa_request *r, int status, const char *line)
{
	(void)r;
	seen.status = status;
	seen.refused += status == 503;
	snprintf(seen.text, sizeof(seen.text), "%s", line);
}

void ppa_reply_redirect(struct ppa_request *r, int status, const char *location)
{
	(void)r;
	seen.status = status;
	snprintf(seen.text, sizeof(seen.text), "%s", location);
}

static void handled_by(const char *name)
{
	seen.status = 200;
	snprintf(seen.text, sizeof(seen.text), "%s", name);
}

void ppa_handle_index(struct ppa_request *r)
{
	(void)r;
	handled_by("index");
}

void ppa_handle_cmdline(struct ppa_request *r)
{
	(void)r;
	handled_by("cmdline");
}

void ppa_handle_symbol(struct ppa_request *r)
{
	(void)r;
	handled_by("symbol");
}

void ppa_handle_legacy_profile(struct ppa_request *r)
{
	(void)r;
	handled_by("legacy profile");
}

void ppa_handle_legacy_named(struct ppa_request *r)
{
	(void)r;
	handled_by("legacy named");
}

void ppa_handle_delta(struct ppa_request *r)
{
	(void)r;
	handled_by("delta");
}

void ppa_handle_metrics(struct ppa_request *r)
{
	(void)r;
	handled_by("metrics");
}

void ppa_handle_settings(struct ppa_request *r)
{
	(void)r;
	handled_by("settings");
}

const struct ppa_kind *ppa_kinds_find(const char *name)
{
	static const struct ppa_kind kind = {.name = "heap"};

	return strcmp(name, kind.name) ? NULL : &kind;
}

static void nest(struct ppa_request *r, char *path);

void ppa_handle_named(struct ppa_request *r)
{
	char path[] = "/debug/pprof/heap";

	nest(r, path);
	handled_by("named");
}

/* Starts another one of its kind before it ends, seen.nested times. */
static void nest(struct ppa_request *r, char *path)
{
	struct ppa_request inner = {.method = r->method, .path = path, .query = r->query};

	seen.deepest++;
	if (seen.nested-- > 0)
		ppa_routes_answer(&inner);
}

void ppa_handle_profile(struct ppa_request *r)
{
	char path[] = "/debug/pprof/profile";

	nest(r, path);
	handled_by("profile");
}

void ppa_handle_trace(struct ppa_request *r)
{
	char path[] = "/debug/pprof/trace";

	nest(r, path);
	handled_by("trace");
}

void ppa_handle_wall(struct ppa_request *r)
{
	char path[] = "/debug/pprof/wall";

	nest(r, path);
	handled_by("wall");
}

static void asks(enum ppa_method method, const char *uri, const char *query, int status, const char *text)
{
	char path[256];
	struct ppa_request r = {.method = method, .path = path, .query = query};

	snprintf(path, sizeof(path), "%s", uri);
	seen.status = 0;
	seen.allow = NULL;
	assert_true(ppa_path_decode(path));
	ppa_routes_answer(&r);
	if (seen.status != status || strcmp(seen.text, text))
		fail_msg("%s: %d \"%s\", expected %d \"%s\"", uri, seen.status, seen.text, status, text);
}

static void names_lead_to_handlers(void **state)
{
	(void)state;
	asks(PPA_METHOD_GET, "/debug/pprof/", NULL, 200, "index");
	asks(PPA_METHOD_GET, "/debug/pprof/cmdline", "debug=1", 200, "cmdline");
	asks(PPA_METHOD_GET, "/debug/pprof/cmd%6Cine", NULL, 200, "cmdline");
	asks(PPA_METHOD_HEAD, "/debug/pprof/profile", NULL, 200, "profile");
	asks(PPA_METHOD_POST, "/debug/pprof/symbol", NULL, 200, "symbol");
	asks(PPA_METHOD_GET, "/debug/pprof/symbolz", NULL, 200, "symbol");
	asks(PPA_METHOD_GET, "/debug/pprof/wall", NULL, 200, "wall");
	asks(PPA_METHOD_GET, "/debug/fgprof", "seconds=1", 200, "wall");
	asks(PPA_METHOD_GET, "/debug/fgprof/", NULL, 404, "404 page not found");
	asks(PPA_METHOD_GET, "/pprof/profile", NULL, 200, "legacy profile");
	asks(PPA_METHOD_GET, "/pprof/heap", NULL, 200, "legacy named");
	asks(PPA_METHOD_POST, "/pprof/symbol", NULL, 200, "symbol");
	asks(PPA_METHOD_GET, "/pprof/nope", NULL, 404, "404 page not found");
	asks(PPA_METHOD_GET, "/pprof/", NULL, 404, "404 page not found");
	asks(PPA_METHOD_GET, "/metrics", NULL, 200, "metrics");
	asks(PPA_METHOD_GET, "/metrics/", NULL, 404, "404 page not found");
	asks(PPA_METHOD_PUT, "/debug/pprof/settings", NULL, 200, "settings");
	asks(PPA_METHOD_GET, "/debug/pprof/he%61p", NULL, 200, "named");
}

static void unknown_names_are_404(void **state)
{
	(void)state;
	asks(PPA_METHOD_GET, "/debug/pprof/nope", "seconds=abc", 404, "Unknown profile");
	asks(PPA_METHOD_GET, "/debug/pprof/Profile", NULL, 404, "Unknown profile");
	asks(PPA_METHOD_GET, "/debug/pprof/heap/", NULL, 404, "Unknown profile");
	asks(PPA_METHOD_GET, "/debug/pprof/cmdline/", NULL, 404, "Unknown profile");
	asks(PPA_METHOD_GET, "/debug/pprofx", NULL, 404, "404 page not found");
	asks(PPA_METHOD_GET, "/debug", NULL, 404, "404 page not found");
	asks(PPA_METHOD_OTHER, "/x", NULL, 404, "404 page not found");
}

static void paths_are_cleaned_by_redirect(void **state)
{
	(void)state;
	asks(PPA_METHOD_GET, "/debug/pprof", "x=1&y=2", 301, "/debug/pprof/?x=1&y=2");
	asks(PPA_METHOD_GET, "/debug/pprof//profile", "a", 301, "/debug/pprof/profile?a");
	asks(PPA_METHOD_GET, "/debug/pprof/../pprof/profile", NULL, 301, "/debug/pprof/profile");
	asks(PPA_METHOD_GET, "/debug/%2e%2E/debug/./pprof/", NULL, 301, "/debug/pprof/");
	asks(PPA_METHOD_GET, "//evil.example/x", NULL, 301, "/evil.example/x");
	asks(PPA_METHOD_GET, "/../../..", NULL, 301, "/");
	asks(PPA_METHOD_GET, "/a//%0d%0aX: y\\", "q%0d\r\n", 301, "/a/%0D%0AX%3A%20y%5C?q%0d");
}

static void the_root_knows_browsers(void **state)
{
	(void)state;
	seen.accept = NULL;
	asks(PPA_METHOD_GET, "/", "seconds=5", 302, "/debug/pprof/profile?seconds=5");
	seen.accept = "text/html,*/*";
	asks(PPA_METHOD_GET, "/", NULL, 302, "/debug/pprof/");
}

static void methods_are_limited(void **state)
{
	(void)state;
	asks(PPA_METHOD_POST, "/debug/pprof/profile", NULL, 405, "Method Not Allowed\n");
	assert_string_equal(seen.allow, "GET, HEAD");
	asks(PPA_METHOD_OTHER, "/debug/pprof/symbol", NULL, 405, "Method Not Allowed\n");
	assert_string_equal(seen.allow, "GET, HEAD, POST");
	asks(PPA_METHOD_PUT, "/debug/pprof/symbol", NULL, 405, "Method Not Allowed\n");
	asks(PPA_METHOD_POST, "/debug/pprof/settings", NULL, 405, "Method Not Allowed\n");
	assert_string_equal(seen.allow, "GET, HEAD, PUT");
	asks(PPA_METHOD_OTHER, "/debug/pprof/nope", NULL, 405, "Method Not Allowed\n");
}

static void collections_keep_to_their_share(void **state)
{
	(void)state;
	seen.nested = 100;
	seen.deepest = seen.refused = 0;
	asks(PPA_METHOD_GET, "/debug/pprof/profile", NULL, 200, "profile");
	assert_int_equal(seen.deepest, PPA_ROUTES_COLLECTIONS_MAX);
	assert_int_equal(seen.refused, 1);
	/* All shares have been given back. */
	seen.nested = PPA_ROUTES_COLLECTIONS_MAX - 1;
	seen.deepest = seen.refused = 0;
	asks(PPA_METHOD_GET, "/debug/pprof/profile", NULL, 200, "profile");
	assert_int_equal(seen.deepest, PPA_ROUTES_COLLECTIONS_MAX);
	assert_int_equal(seen.refused, 0);
}

/* Only those that wait: a snapshot is never refused. */
static void deltas_keep_to_their_share(void **state)
{
	(void)state;
	seen.nested = 30;
	seen.deepest = seen.refused = 0;
	asks(PPA_METHOD_GET, "/debug/pprof/heap", "seconds=1", 200, "named");
	assert_int_equal(seen.deepest, PPA_ROUTES_COLLECTIONS_MAX);
	assert_int_equal(seen.refused, 1);
	seen.nested = 30;
	seen.deepest = seen.refused = 0;
	asks(PPA_METHOD_GET, "/debug/pprof/heap", "seconds=", 200, "named");
	assert_int_equal(seen.deepest, 31);
	assert_int_equal(seen.refused, 0);
}

static void the_index_is_sorted(void **state)
{
	const struct ppa_route *route;
	const char *last = "";

	(void)state;
	for (size_t i = 1; (route = ppa_routes_at(i)); i++) {
		assert_true(strcmp(last, route->name) < 0);
		last = route->name;
	}
}

static void bad_escapes_are_refused(void **state)
{
	static const char *const bad[] = {"/%", "/%2", "/%zz", "/%00", "/a%2"};
	char path[16];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		strcpy(path, bad[i]);
		assert_false(ppa_path_decode(path));
	}
}

static void hosts_that_are_names_are_refused(void **state)
{
	static const char *const good[] = {"",		"localhost",  "LocalHost:80", "localhost.:1",
					   "127.0.0.1", "10.0.0.7:1", "[::1]",	      "[fe80::1]:60"};
	static const char *const bad[] = {
		"evil.example", "localhost.evil", "127.0.0.1.evil", "127.0.0.1:x", "[::1",
		"[x]",		"localhostx",	  "1.2.3",	    ":80",	   "a@127.0.0.1",
		"localhost..",	"[::1]x",	  "127.0.0.1 "};

	(void)state;
	assert_true(ppa_access_host_is_allowed(NULL));
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		if (!ppa_access_host_is_allowed(good[i]))
			fail_msg("refused: %s", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (ppa_access_host_is_allowed(bad[i]))
			fail_msg("allowed: %s", bad[i]);
}

static void addresses_are_read_in_any_pieces(void **state)
{
	static const char text[] =
		"0x10+020+16+0b10000+0o20+ 16\r\n+0X10"
		"+0+0x0+garbage+0x+08+-5+++0x1_0+99999999999999999999+0x10g+"
		"111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111"
		"+0xffffffffffffffff+0x0000000000000000010";
	static const uint64_t want[] = {16, 16, 16, 16, 16, 16, 16, UINT64_MAX, 16};

	(void)state;
	for (size_t piece = 1; piece <= sizeof(text); piece++) {
		struct ppa_symbol_words words = {.len = 0};
		size_t n = 0;
		uint64_t got;

		for (size_t i = 0; i < sizeof(text) - 1; i += piece) {
			const char *at = text + i;
			const char *end = i + piece < sizeof(text) - 1 ? at + piece : text + sizeof(text) - 1;

			while (ppa_symbol_words_next(&words, &at, end, &got)) {
				assert_true(n < 9);
				assert_int_equal(got, want[n]);
				n++;
			}
			assert_ptr_equal(at, end);
		}
		assert_int_equal(n, 8);
		assert_true(ppa_symbol_words_last(&words, &got));
		assert_int_equal(got, want[8]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_lead_to_handlers),
		cmocka_unit_test(unknown_names_are_404),
		cmocka_unit_test(paths_are_cleaned_by_redirect),
		cmocka_unit_test(the_root_knows_browsers),
		cmocka_unit_test(methods_are_limited),
		cmocka_unit_test(collections_keep_to_their_share),
		cmocka_unit_test(deltas_keep_to_their_share),
		cmocka_unit_test(the_index_is_sorted),
		cmocka_unit_test(bad_escapes_are_refused),
		cmocka_unit_test(hosts_that_are_names_are_refused),
		cmocka_unit_test(addresses_are_read_in_any_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
