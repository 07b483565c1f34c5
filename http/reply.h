/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers, in the form net/http/pprof gives them. The status is decided before the first byte: every body is complete
 * in memory, so that a failure can still be told as one and Content-Length is always right. */
#ifndef PPA_HTTP_REPLY_H
#define PPA_HTTP_REPLY_H

#include <stddef.h>

#include "agent/base/attr.h"
#include "http/request.h"

#define PPA_TYPE_TEXT "text/plain; charset=utf-8"
#define PPA_TYPE_HTML "text/html; charset=utf-8"
#define PPA_TYPE_BYTES "application/octet-stream"

struct ppa_reply {
	int status;
	const char *type;	/* Content-Type */
	const char *attachment; /* file name of Content-Disposition, NULL for none */
	const char *location;	/* NULL for none */
	const char *allow;	/* NULL for none */
	const char *challenge;	/* WWW-Authenticate, NULL for none */
	const char *policy;	/* Content-Security-Policy, NULL for none */
};

enum { PPA_REPLY_HELD_MAX = 64 << 20, PPA_REPLY_LARGE = 1 << 20 };

/* Context: child. */
void ppa_reply_reset(void) PPA_CTX_CHILD;

/* Send head and body; to HEAD the head alone. Large bodies are held in memory while they are sent: when all together
 * would be more than PPA_REPLY_HELD_MAX the answer is 503 instead, unless it is the only one. A connection that breaks meanwhile is the client's loss: the request is
 * marked as its connection's last. Context: server. */
void ppa_reply_send(struct ppa_request *r, const struct ppa_reply *h, const void *body, size_t len) PPA_CTX_SERVER;

/* 200 with a text, HTML or profile body. Context: server. */
void ppa_reply_ok(struct ppa_request *r, const char *type, const char *attachment, const void *body,
		  size_t len) PPA_CTX_SERVER;

/* The head of an answer whose body is not made, for HEAD on something that takes time. Context: server. */
void ppa_reply_send_head(struct ppa_request *r, const struct ppa_reply *h) PPA_CTX_SERVER;

/* The same of a 200 that needs no more. Context: server. */
void ppa_reply_ok_head(struct ppa_request *r, const char *type, const char *attachment) PPA_CTX_SERVER;

/* One line of plain text, its newline added. Context: server. */
void ppa_reply_error(struct ppa_request *r, int status, const char *line) PPA_CTX_SERVER;

/* Answers of the class 2 to 5 (2: status 2xx) so far. Context: any. */
unsigned long long ppa_reply_count(int class) PPA_CTX_ANY;

/* 401, the same for every path. Context: server. */
void ppa_reply_unauthorized(struct ppa_request *r) PPA_CTX_SERVER;

/* location is escaped already. Context: server. */
void ppa_reply_redirect(struct ppa_request *r, int status, const char *location) PPA_CTX_SERVER;

/* "Sat, 21 Nov 2026 11:58:39 GMT" from seconds since 1970, into at least 30 bytes; gmtime may read time zone files.
 * Context: any. */
void ppa_reply_date(long long seconds, char *buf, size_t cap) PPA_CTX_ANY;

#endif
