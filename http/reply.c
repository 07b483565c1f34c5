/* SPDX-License-Identifier: Apache-2.0
 *
 * One writer of response heads. Go's rules, as its clients rely on them: nosniff on everything; X-Go-Pprof on errors
 * below /debug/pprof/ only, which makes `go tool pprof` show their text; never a Content-Encoding, because the gzip
 * layer is part of the profile and a client would silently unwrap it.
 *
 * Head and body of short answers go out in one segment; a long body follows its head. */
#include "http/reply.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/base/sys.h"
#include "http/civetweb_embed.h"

enum { HEAD_MAX = 1600, SECONDS_A_DAY = 86400 }; /* a location of 1 KiB fits */

static const char *reason_of(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 301:
		return "Moved Permanently";
	case 302:
		return "Found";
	case 400:
		return "Bad Request";
	case 401:
		return "Unauthorized";
	case 403:
		return "Forbidden";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 413:
		return "Request Entity Too Large";
	case 431:
		return "Request Header Fields Too Large";
	case 500:
		return "Internal Server Error";
	case 503:
		return "Service Unavailable";
	case 505:
		return "HTTP Version Not Supported";
	}
	return "Unknown";
}

void ppa_reply_date(long long seconds, char *buf, size_t cap)
{
	static const char days[] = "ThuFriSatSunMonTueWed";
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	long long day = seconds / SECONDS_A_DAY;
	int of_day = (int)(seconds % SECONDS_A_DAY);
	/* Years begin in March here, so that the leap day is the last of its year: 400 years are 146097 days. */
	long long since_0000_03 = day + 719468, era = since_0000_03 / 146097;
	int of_era = (int)(since_0000_03 % 146097);
	int year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	int march_month = (5 * of_year + 2) / 153;
	int month = march_month < 10 ? march_month + 3 : march_month - 9;

	snprintf(buf, cap, "%.3s, %02d %.3s %lld %02d:%02d:%02d GMT", days + 3 * (day % 7),
		 of_year - (153 * march_month + 2) / 5 + 1, months + 3 * (month - 1),
		 era * 400 + year_of_era + (month <= 2), of_day / 3600, of_day / 60 % 60, of_day % 60);
}

static _Atomic unsigned long long answers[6]; /* by the status' first digit; only grow */

struct head {
	char text[HEAD_MAX];
	size_t len;
	bool is_cut;
};

static void PPA_PRINTF(2, 3) add(struct head *h, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(h->text + h->len, sizeof(h->text) - h->len, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(h->text) - h->len)
		h->is_cut = true;
	else
		h->len += (size_t)n;
}

static void build_head(struct ppa_request *r, const struct ppa_reply *reply, long long content_len, struct head *h)
{
	char date[40];

	h->len = 0;
	h->is_cut = false;
	ppa_reply_date((long long)(ppa_sys_clock_ns(CLOCK_REALTIME) / 1000000000U), date, sizeof(date));
	add(h, "HTTP/1.%d %d %s\r\n", r->is_http10 ? 0 : 1, reply->status, reason_of(reply->status));
	if (reply->type)
		add(h, "Content-Type: %s\r\n", reply->type);
	add(h, "X-Content-Type-Options: nosniff\r\n");
	if (reply->status >= 400 && r->is_under_pprof)
		add(h, "X-Go-Pprof: 1\r\n");
	if (reply->attachment)
		add(h, "Content-Disposition: attachment; filename=\"%s\"\r\n", reply->attachment);
	if (reply->location)
		add(h, "Location: %s\r\n", reply->location);
	if (reply->allow)
		add(h, "Allow: %s\r\n", reply->allow);
	if (reply->challenge)
		add(h, "WWW-Authenticate: %s\r\n", reply->challenge);
	if (reply->policy)
		add(h, "Content-Security-Policy: %s\r\n", reply->policy);
	add(h, "Date: %s\r\n", date);
	if (content_len >= 0)
		add(h, "Content-Length: %lld\r\n", content_len);
	if (!r->keeps_alive)
		add(h, "Connection: close\r\n");
	else if (r->is_http10)
		add(h, "Connection: keep-alive\r\n");
	add(h, "\r\n");
}

static _Atomic long long held; /* bytes of large bodies being sent */

void ppa_reply_reset(void)
{
	atomic_store_explicit(&held, 0, memory_order_relaxed);
}

static void send_whole(struct ppa_request *r, const struct ppa_reply *reply, const void *body, long long len)
{
	struct head h;
	size_t rest = len > 0 && r->method != PPA_METHOD_HEAD ? (size_t)len : 0;

	atomic_fetch_add_explicit(&answers[reply->status / 100 % 6], 1, memory_order_relaxed);
	/* What is left of the body would be read as the next request. */
	if (ppa_web_has_unread_body(r->web))
		r->keeps_alive = false;
	build_head(r, reply, len, &h);
	if (!h.is_cut && rest > 0 && rest <= sizeof(h.text) - h.len) {
		memcpy(h.text + h.len, body, rest);
		h.len += rest;
		rest = 0;
	}
	if (h.is_cut || ppa_web_send(r->web, h.text, h.len) || (rest > 0 && ppa_web_send(r->web, body, rest)))
		r->keeps_alive = false;
}

/* As ppa_reply_send; len may be -1: unknown, no body. */
static void send_reply(struct ppa_request *r, const struct ppa_reply *reply, const void *body, long long len)
{
	static const struct ppa_reply busy = {.status = 503, .type = PPA_TYPE_TEXT};
	static const char text[] = "too many large answers are waiting for their readers, try again later\n";
	long long before;

	ppa_request_leave(r);
	if (len < PPA_REPLY_LARGE) {
		send_whole(r, reply, body, len);
		return;
	}
	/* Relaxed: the number orders nothing. */
	before = atomic_fetch_add_explicit(&held, len, memory_order_relaxed);
	if (before > 0 && before + len > PPA_REPLY_HELD_MAX)
		send_whole(r, &busy, text, sizeof(text) - 1);
	else
		send_whole(r, reply, body, len);
	atomic_fetch_sub_explicit(&held, len, memory_order_relaxed);
}

unsigned long long ppa_reply_count(int class)
{
	return atomic_load_explicit(&answers[class], memory_order_relaxed);
}

void ppa_reply_send(struct ppa_request *r, const struct ppa_reply *h, const void *body, size_t len)
{
	send_reply(r, h, body, (long long)len);
}

void ppa_reply_ok(struct ppa_request *r, const char *type, const char *attachment, const void *body, size_t len)
{
	struct ppa_reply h = {.status = 200, .type = type, .attachment = attachment};

	send_reply(r, &h, body, (long long)len);
}

void ppa_reply_send_head(struct ppa_request *r, const struct ppa_reply *h)
{
	send_reply(r, h, NULL, -1);
}

void ppa_reply_ok_head(struct ppa_request *r, const char *type, const char *attachment)
{
	struct ppa_reply h = {.status = 200, .type = type, .attachment = attachment};

	ppa_reply_send_head(r, &h);
}

void ppa_reply_error(struct ppa_request *r, int status, const char *line)
{
	struct ppa_reply h = {.status = status, .type = PPA_TYPE_TEXT};
	char body[256];
	int n = snprintf(body, sizeof(body), "%s\n", line);

	if (n >= (int)sizeof(body))
		n = (int)sizeof(body) - 1;
	send_reply(r, &h, body, n);
}

void ppa_reply_unauthorized(struct ppa_request *r)
{
	static const char body[] = "401 Unauthorized\n";
	struct ppa_reply h = {
		.status = 401,
		.type = PPA_TYPE_TEXT,
		.challenge = "Basic realm=\"pprof\", charset=\"UTF-8\", Bearer realm=\"pprof\"",
	};

	/* Told as an error of pprof's wherever it was asked for: the path must not show. */
	r->is_under_pprof = true;
	ppa_reply_send(r, &h, body, sizeof(body) - 1);
}

void ppa_reply_redirect(struct ppa_request *r, int status, const char *location)
{
	struct ppa_reply h = {.status = status, .type = PPA_TYPE_HTML, .location = location};

	send_reply(r, &h, NULL, 0);
}
