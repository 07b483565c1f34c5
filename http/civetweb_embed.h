/* SPDX-License-Identifier: Apache-2.0
 *
 * What we use of civetweb: its HTTP/1 engine, that is reading and parsing requests, bodies (sized or chunked), timeouts
 * and the rules of keep-alive, on a connection handed to it. Its listener, its threads, its file and name handling are
 * not compiled in: see civetweb_embed.c. One ppa_web belongs to one worker thread and is shared with nobody. */
#ifndef PPA_HTTP_CIVETWEB_EMBED_H
#define PPA_HTTP_CIVETWEB_EMBED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_web;

enum {
	PPA_WEB_HEAD_MAX = 32 << 10,  /* bytes of request line and headers together */
	PPA_WEB_REQUEST_SECONDS = 10, /* for a request's head, and for each step of its body */
	PPA_WEB_SEND_IDLE_MS = 10000, /* a peer that takes nothing for so long is given up */
	PPA_WEB_SEND_QUICK_MS = 200,  /* who needs longer for an answer is slow, and */
	PPA_WEB_SLOW_MAX = 6,	      /* so many are waited for at a time, no more */
};

/* Result of ppa_web_read_request. */
enum ppa_web_got {
	PPA_WEB_REQUEST, /* the accessors below are valid until the next read */
	PPA_WEB_NONE,	 /* peer closed or timed out: close */
	PPA_WEB_BAD,	 /* answer ppa_web_bad_status, then close */
};

/* Result of ppa_web_peek. */
enum ppa_web_seen {
	PPA_WEB_PART, /* a head that may still become one, or nothing */
	PPA_WEB_HEAD, /* a whole head, or what cannot become one: to be judged */
	PPA_WEB_END,  /* the end of the stream, or of the connection, and no head before it */
};

/* Memory for one connection at a time, from the private heap; NULL when that is exhausted. Context: server. */
struct ppa_web *ppa_web_new(void) PPA_CTX_SERVER;
void ppa_web_free(struct ppa_web *w) PPA_CTX_SERVER;

/* Start on a connection. Takes no ownership: the caller closes fd. Context: server. */
void ppa_web_attach(struct ppa_web *w, int fd) PPA_CTX_SERVER;

/* Wait for one whole request head. Context: server. */
enum ppa_web_got ppa_web_read_request(struct ppa_web *w) PPA_CTX_SERVER;

/* Look at what has come on fd, and take nothing. Never waits. Context: server. */
enum ppa_web_seen ppa_web_peek(struct ppa_web *w, int fd) PPA_CTX_SERVER;

/* After PPA_WEB_HEAD for the same fd: as ppa_web_attach and ppa_web_read_request, but that nothing has been taken from the
 * socket, the rest of the request included. Never waits. Context: server. */
enum ppa_web_got ppa_web_judge_peeked(struct ppa_web *w, int fd) PPA_CTX_SERVER;

int ppa_web_bad_status(const struct ppa_web *w) PPA_CTX_SERVER;
const char *ppa_web_method(const struct ppa_web *w) PPA_CTX_SERVER;
const char *ppa_web_uri(const struct ppa_web *w) PPA_CTX_SERVER;     /* as sent, query included; writable */
const char *ppa_web_version(const struct ppa_web *w) PPA_CTX_SERVER; /* "1.1" */
/* Value of a header, NULL if absent; name in any case. */
const char *ppa_web_header(const struct ppa_web *w, const char *name) PPA_CTX_SERVER;

/* Does the client want this connection to live on, and does the protocol allow it? */
bool ppa_web_wants_keep_alive(const struct ppa_web *w) PPA_CTX_SERVER;

/* Part of the request's body: bytes read, 0 at its end, -EIO for a broken or timed out one. Context: server. */
long ppa_web_read_body(struct ppa_web *w, void *buf, size_t len) PPA_CTX_SERVER;
/* Is there a body not read to its end? */
bool ppa_web_has_unread_body(const struct ppa_web *w) PPA_CTX_SERVER;

/* Drop the request just answered. True: bytes of the next one are here already. Context: server. */
bool ppa_web_finish_request(struct ppa_web *w) PPA_CTX_SERVER;

int ppa_web_fd(const struct ppa_web *w) PPA_CTX_SERVER;

/* Send all; 0 or -errno. The time allowed grows with len, but for slow readers when there are too many of them: answers
 * larger than the kernel's buffers cannot be made to hold all workers. Context: server. */
int ppa_web_send(struct ppa_web *w, const void *buf, size_t len) PPA_CTX_SERVER;

/* Context: child. */
void ppa_web_reset(void) PPA_CTX_CHILD;

/* Has the peer closed its end, fully or half (as Go counts it)? Context: server. */
bool ppa_web_is_gone(const struct ppa_web *w) PPA_CTX_SERVER;

#endif
