/* SPDX-License-Identifier: Apache-2.0
 *
 * Request after request on one connection: take the head apart, check who asks, hand over to the routes, decide whether
 * the connection goes on. A connection without a pending request goes back to the gate, so silence costs no worker.
 *
 * After an error, what the client still sends is read by the gate for a moment: no worker waits for it. */
#include "http/session.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "http/access.h"
#include "http/civetweb_embed.h"
#include "http/net.h"
#include "http/path.h"
#include "http/reply.h"
#include "http/request.h"
#include "http/routes.h"
#include "http/token.h"

enum { SCRAP_BYTES = 1024, SCRAPS_MAX = 16 };

static struct {
	bool is_loopback; /* set by the keeper before any worker exists */
} state;

void ppa_session_set_loopback(bool is_loopback)
{
	state.is_loopback = is_loopback;
}

static enum ppa_method method_of(const char *name)
{
	if (!strcmp(name, "GET"))
		return PPA_METHOD_GET;
	if (!strcmp(name, "HEAD"))
		return PPA_METHOD_HEAD;
	if (!strcmp(name, "PUT"))
		return PPA_METHOD_PUT;
	return !strcmp(name, "POST") ? PPA_METHOD_POST : PPA_METHOD_OTHER;
}

/* Split "http://host/path?query" (as proxies get it) or "/path?query"; the host of the first form, NULL for the other.
 * host points into the path's bytes, so the caller has to be done with it before the path is decoded. */
static char *split_uri(char *uri, char **path, const char **query)
{
	char *host = NULL, *mark = strchr(uri, '?');

	*query = mark ? mark + 1 : NULL;
	if (mark)
		*mark = '\0';
	*path = uri;
	if (!strncmp(uri, "http://", 7)) {
		char *slash = strchr(uri + 7, '/');

		host = uri; /* moved down by one to make room for its NUL */
		*path = slash ? slash : uri + strlen(uri);
		memmove(host, uri + 7, (size_t)(*path - uri - 7));
		host[*path - uri - 7] = '\0';
	}
	return host;
}

/* Whether or not the path exists, and before anything is made of it. True: refused. */
static bool refuse_stranger(struct ppa_web *w, struct ppa_request *r, const char *host)
{
	if (state.is_loopback && !ppa_access_host_is_allowed(host))
		ppa_reply_error(r, 403, "Host header is a name: use an IP address or localhost");
	else if (!ppa_access_origin_is_allowed(ppa_web_header(w, "Sec-Fetch-Site"), ppa_web_header(w, "Origin"), host))
		ppa_reply_error(r, 403, "request made by a page of another site: enter the address yourself");
	else if (!ppa_token_admits(ppa_web_header(w, "Authorization")))
		ppa_reply_unauthorized(r);
	else
		return false;
	return true;
}

static void answer(struct ppa_web *w, struct ppa_request *r)
{
	const char *host = ppa_web_header(w, "Host");
	char *uri_host = split_uri((char *)(uintptr_t)ppa_web_uri(w), &r->path, &r->query);

	if (uri_host)
		host = uri_host;
	r->is_under_pprof = !strncmp(r->path, PPA_ROUTES_PREFIX, sizeof(PPA_ROUTES_PREFIX) - 1);
	if (refuse_stranger(w, r, host))
		return;
	if (r->path[0] != '/' || !ppa_path_decode(r->path)) {
		ppa_reply_error(r, 400, "400 Bad Request");
		return;
	}
	ppa_routes_answer(r);
}

/* strcasecmp would ask the target's locale. */
static bool is_100_continue(const char *value)
{
	static const char want[] = "100-continue";

	for (size_t i = 0; i < sizeof(want); i++) {
		if (value[i] != want[i] && (value[i] | 0x20) != want[i])
			return false;
	}
	return true;
}

bool ppa_request_invite_body(struct ppa_request *r)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	const char *expect = ppa_web_header(r->web, "Expect");

	if (!expect || !is_100_continue(expect) || r->is_http10 || !ppa_web_has_unread_body(r->web))
		return true;
	return ppa_web_send(r->web, go_on, sizeof(go_on) - 1) == 0;
}

static void refuse(struct ppa_web *w)
{
	struct ppa_request r = {.web = w, .method = PPA_METHOD_GET};
	int status = ppa_web_bad_status(w);

	ppa_reply_error(&r, status,
			status == 431	? "request header too large"
			: status == 505 ? "HTTP version not supported"
					: "400 Bad Request");
}

/* Take what is here of a request that nobody wants. True: its end was among it. */
static bool take_all(int fd)
{
	char scrap[SCRAP_BYTES];
	long n = 1;

	for (int i = 0; n > 0 && i < SCRAPS_MAX; i++)
		n = ppa_net_recv(fd, scrap, sizeof(scrap), 0);
	return n <= 0 && n != -EAGAIN;
}

/* Its answer is complete. What is here of the rest, and its end, is taken at once, what the client still sends is the
 * gate's to throw away. */
static enum ppa_session_end discard(int fd)
{
	ppa_net_shutdown_write(fd);
	return take_all(fd) ? PPA_SESSION_CLOSE : PPA_SESSION_DISCARD;
}

enum ppa_session_end ppa_session_judge(struct ppa_web *w, int fd)
{
	bool has_ended;

	switch (ppa_web_judge_peeked(w, fd)) {
	case PPA_WEB_REQUEST:
		return PPA_SESSION_PASS;
	case PPA_WEB_NONE:
		return PPA_SESSION_CLOSE;
	case PPA_WEB_BAD:
		break;
	}
	/* Who has said all it wanted gets the answer and the connection's end in one segment. */
	has_ended = take_all(fd);
	refuse(w);
	if (has_ended)
		return PPA_SESSION_CLOSE;
	ppa_net_shutdown_write(fd);
	return PPA_SESSION_DISCARD;
}

enum ppa_session_end ppa_session_turn_away(int fd)
{
	static const char reply[] = "HTTP/1.1 503 Service Unavailable\r\n"
				    "Content-Type: text/plain; charset=utf-8\r\n"
				    "X-Content-Type-Options: nosniff\r\n"
				    "X-Go-Pprof: 1\r\n"
				    "Content-Length: 54\r\n"
				    "Connection: close\r\n\r\n"
				    "profile server busy: no free worker or memory for one\n";

	ppa_net_send(fd, reply, sizeof(reply) - 1, MSG_MORE);
	return discard(fd);
}

enum ppa_session_end ppa_session_serve(struct ppa_web *w, int fd)
{
	bool has_more = true;

	ppa_web_attach(w, fd);
	while (has_more) {
		struct ppa_request r = {.web = w};
		enum ppa_web_got got = ppa_web_read_request(w);

		if (got == PPA_WEB_BAD) {
			refuse(w);
			return discard(fd);
		}
		if (got != PPA_WEB_REQUEST)
			return PPA_SESSION_CLOSE;
		r.method = method_of(ppa_web_method(w));
		r.is_http10 = !strcmp(ppa_web_version(w), "1.0");
		r.keeps_alive = ppa_web_wants_keep_alive(w);
		answer(w, &r);
		if (!r.keeps_alive)
			return ppa_web_has_unread_body(w) ? discard(fd) : PPA_SESSION_CLOSE;
		has_more = ppa_web_finish_request(w);
	}
	return PPA_SESSION_KEEP;
}
