/* SPDX-License-Identifier: Apache-2.0 */
// link: http/session.c http/civetweb_embed.c http/routes.c http/reply.c http/symbol.c http/symbol_words.c http/cmdline.c http/path.c http/query.c http/access.c http/token.c http/settings.c proto/sink.c test/fakes/vheap.c
/* Promise: whatever bytes a connection brings, in whatever pieces, it comes to an end, and all that goes back are whole
 * HTTP answers: heads without a stray byte, bodies of the announced length. Where a token is demanded that nobody has, none
 * of them is a success, and nothing of the program is in them.
 *
 * What the keeper judges before, by a look at what has come, is what a worker would have said: it refuses with one answer,
 * for which it does not wait, or takes nothing.
 *
 * The first byte chooses the size of the pieces, whether Host counts, whether a token is demanded and settings are fixed. The network is
 * memory; one engine serves all inputs, as a worker does, so what one leaves behind would meet the next. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/log.h"
#include "agent/snapshot/collect.h"
#include "agent/snapshot/kinds.h"
#include "agent/snapshot/settings.h"
#include "http/civetweb_embed.h"
#include "http/net.h"
#include "http/reply.h"
#include "http/routes.h"
#include "http/session.h"
#include "http/token.h"
#include "test/fakes/vheap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	const uint8_t *at;
	size_t left, piece;
	long long body; /* bytes of the last answer that have not come yet */
	int nanswers, first_status;
	bool is_shut; /* a token is demanded */
} net;

/* ---- the network ---- */

long ppa_net_recv(int fd, void *buf, size_t len, int flags)
{
	size_t n = net.left < net.piece ? net.left : net.piece;

	(void)fd;
	n = n < len ? n : len;
	memcpy(buf, net.at, n);
	if (!(flags & MSG_PEEK)) {
		net.at += n;
		net.left -= n;
	}
	return (long)n;
}

static long long number_after(const char *head, const char *name)
{
	const char *at = strstr(head, name);

	return at ? atoll(at + strlen(name)) : -1;
}

/* One head, and what of its body came along. */
static void check_answer(const char *bytes, size_t len)
{
	const char *end = memmem(bytes, len, "\r\n\r\n", 4);
	char head[2048];
	size_t n;

	if (!end || (n = (size_t)(end - bytes) + 4) >= sizeof(head))
		abort();
	memcpy(head, bytes, n);
	head[n] = '\0';
	if (!strcmp(head, "HTTP/1.1 100 Continue\r\n\r\n")) {
		net.body = 0;
		return;
	}
	for (const char *p = head; *p; p++) {
		if (*p == '\r' ? p[1] != '\n' : *p == '\n' ? p[-1] != '\r' : (unsigned char)*p < ' ' || *p == 0x7f)
			abort();
	}
	if (strlen(head) != n || strncmp(head, "HTTP/1.", 7) || (head[7] != '0' && head[7] != '1') || head[8] != ' ')
		abort();
	if (!strstr(head, "\r\nX-Content-Type-Options: nosniff\r\n") || (net.is_shut && head[9] < '4'))
		abort();
	net.body = number_after(head, "\r\nContent-Length: ");
	if (len > n && net.body != (long long)(len - n))
		abort();
	net.body = len > n || net.body < 0 ? 0 : net.body; /* what does not come at all is HEAD's */
	if (net.nanswers++ == 0)
		net.first_status = atoi(head + 9);
}

int ppa_net_send_all(int fd, const void *buf, size_t len, size_t *sent, int idle_ms, int64_t total_ms)
{
	(void)fd;
	(void)idle_ms;
	(void)total_ms;
	*sent = len;
	if (net.is_shut && memmem(buf, len, "fuzz/request", 12))
		abort();
	if (net.body > 0 && (len < 7 || memcmp(buf, "HTTP/1.", 7))) {
		if ((long long)len != net.body)
			abort();
		net.body = 0;
	} else {
		check_answer(buf, len);
	}
	return 0;
}

long ppa_net_send(int fd, const void *buf, size_t len, int flags)
{
	size_t sent;

	(void)flags;
	return ppa_net_send_all(fd, buf, len, &sent, 0, 0) ? -1 : (long)len;
}

int ppa_net_poll(int fd, short events, int timeout_ms)
{
	(void)fd;
	(void)timeout_ms;
	return events;
}

bool ppa_net_is_gone(int fd)
{
	(void)fd;
	return false;
}

void ppa_net_shutdown_write(int fd)
{
	(void)fd;
}

int ppa_net_adopt(int fd)
{
	return fd;
}

const char *ppa_net_error_text(int err)
{
	(void)err;
	return "error";
}

void ppa_log(const char *fmt, ...)
{
	(void)fmt;
}

/* ---- the agent ---- */

int ppa_collect_symbol(uint64_t address, char *buf, size_t cap)
{
	int n = address & 1 ? snprintf(buf, cap, "function_%d\n", (int)(address & 0xffff)) : -ENOENT;

	return n;
}

const struct ppa_kind *ppa_kinds_find(const char *name)
{
	static const struct ppa_kind kind = {.name = "heap"};

	return strcmp(name, kind.name) ? NULL : &kind;
}

static void handle(struct ppa_request *r)
{
	static const char body[5000] = "fuzz/request";

	ppa_reply_ok(r, PPA_TYPE_TEXT, NULL, body, r->query ? strlen(r->query) % sizeof(body) : sizeof(body));
}

/* The other handlers, whatever there are by now: routes.c alone knows. */
#define HANDLER(name)                                                                                                  \
	void name(struct ppa_request *r)                                                                               \
	{                                                                                                              \
		handle(r);                                                                                             \
	}
HANDLER(ppa_handle_index)
HANDLER(ppa_handle_named)
HANDLER(ppa_handle_delta)
HANDLER(ppa_handle_profile)
HANDLER(ppa_handle_trace)
HANDLER(ppa_handle_wall)
HANDLER(ppa_handle_legacy_profile)
HANDLER(ppa_handle_legacy_named)
HANDLER(ppa_handle_metrics)

static int64_t setting;

static int64_t get_setting(void)
{
	return setting;
}

static void set_setting(int64_t value)
{
	if (value < 0 || value > 1000)
		abort();
	setting = value;
}

const struct ppa_setting *ppa_settings_at(size_t i)
{
	static const struct ppa_setting one = {"heap_rate", "help", 0, 1000, get_setting, set_setting};

	return i ? NULL : &one;
}

/* ---- */

static void begin(const uint8_t *data, size_t size, size_t piece)
{
	net.at = data + 1;
	net.left = size - 1;
	net.piece = piece;
	net.body = 0;
	net.nanswers = 0;
	net.first_status = 0;
}

/* What the keeper says, 0 if it leaves the request to a worker. More and more comes, until there is a head. */
static int judge(struct ppa_web *keeper, const uint8_t *data, size_t size, size_t piece)
{
	enum ppa_web_seen seen = PPA_WEB_PART;
	enum ppa_session_end end;

	for (begin(data, size, piece); seen == PPA_WEB_PART; net.piece += piece) {
		seen = ppa_web_peek(keeper, 7);
		if (net.piece >= net.left)
			break;
	}
	if (seen != PPA_WEB_HEAD)
		return 0;
	end = ppa_session_judge(keeper, 7);
	if (end == PPA_SESSION_KEEP || net.nanswers != (end != PPA_SESSION_PASS) ||
	    (end == PPA_SESSION_PASS && net.at != data + 1))
		abort();
	return net.first_status;
}

/* Whoever has got all of a head that is too large may find something else wrong with it first. */
static bool are_the_same(int a, int b)
{
	return a == b || (a == 400 && b == 431) || (a == 431 && b == 400);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ppa_web *web, *keeper;
	size_t piece;
	int refused;
	long live;

	if (size < 1)
		return 0;
	if ((!web && !(web = ppa_web_new())) || (!keeper && !(keeper = ppa_web_new())))
		return 0;
	piece = (size_t)1 << (data[0] & 15);
	net.is_shut = data[0] & 0x20;
	ppa_session_set_loopback(data[0] & 0x10);
	ppa_token_set_file(net.is_shut ? "no file" : "");
	ppa_settings_allow(!(data[0] & 0x40));
	live = fake_vheap_live;
	refused = judge(keeper, data, size, piece);
	begin(data, size, piece);
	/* True: the client may go on later; here it has left. */
	ppa_session_serve(web, 7);
	if (fake_vheap_live != live || (net.left > 0 && net.nanswers == 0))
		abort();
	if (refused && !are_the_same(refused, net.first_status))
		abort();
	return 0;
}
