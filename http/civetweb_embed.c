/* SPDX-License-Identifier: Apache-2.0
 *
 * The only file that knows civetweb, by including its one source file. Every public function of civetweb becomes static
 * (CIVETWEB_API), so the compiler drops all that the few calls below do not reach: the master thread and its SIGPIPE,
 * the thread pool and pthread key, mg_start with its ports, getaddrinfo, getpwnam, popen, opendir, localtime. What is
 * reached still speaks to libc; those names are redirected below, so that nothing of it touches the target's heap,
 * time zone, name service, locale, errno-visible hooks or standard output.
 *
 * Rejected: mg_start with a faked socket(), bind() and pthread_create() underneath. It needs a master thread besides
 * our keeper, starts all workers at once, gives each connection a worker for its whole life, idle time included, and
 * its mg_stop waits for never-started threads.
 *
 * Undefined symbols that remain (nm -u): memchr memcpy memmove memset strchr strcmp strlen strncmp, pure; strtod strtol
 * strtoll strtoul, for our own options, Content-Length and chunk sizes, where no number has a decimal point for the
 * locale to change; __ctype_b_loc and __ctype_tolower_loc, the thread's own pointer; vsnprintf with integers and
 * strings; __errno_location. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* before the first header: civetweb.c asks for it only later */
#endif
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "http/civetweb_embed.h"
#include "http/net.h"

/* poll, recv and send of civetweb's meaning (-1 and errno), on raw system calls. errno is our own thread's. */
static int web_poll(struct pollfd *p, nfds_t n, int timeout_ms)
{
	int seen = n == 1 ? ppa_net_poll(p->fd, p->events, timeout_ms) : -EINVAL;

	p->revents = (short)(seen > 0 ? seen : 0);
	if (seen < 0)
		errno = -seen;
	return seen < 0 ? -1 : seen > 0;
}

struct mg_connection;
static ssize_t web_recv(struct mg_connection *conn, void *buf, size_t len);

static int web_clock_gettime(clockid_t clock, struct timespec *ts)
{
	uint64_t ns = ppa_sys_clock_ns(clock);

	ts->tv_sec = (time_t)(ns / 1000000000U);
	ts->tv_nsec = (long)(ns % 1000000000U);
	return 0;
}

#define malloc ppa_vheap_malloc
#define calloc ppa_vheap_calloc
#define realloc ppa_vheap_realloc
#define free ppa_vheap_free
#define poll web_poll
#define recv(fd, buf, len, flags) web_recv(conn, buf, len)
#define clock_gettime web_clock_gettime
/* A ppa_web is used by one thread only, so civetweb's locks have nothing to protect. */
#define pthread_mutex_lock(m) ((void)(m), 0)
#define pthread_mutex_unlock(m) ((void)(m), 0)

/* The error log, reached when a message is cut to its buffer: it has no file and says nothing. */
#define fopen(path, mode) ((void)(path), (void)(mode), (FILE *)NULL)
#define fclose(f) ((void)(f), 0)
#define fflush(f) ((void)(f), 0)
#define fputc(c, f) ((void)(c), (void)(f), 0)
#define fputs(s, f) ((void)(s), (void)(f), 0)
#define puts(s) ((void)(s), 0)
#define fprintf(...) 0
#define flockfile(f) ((void)(f))
#define funlockfile(f) ((void)(f))
#define stat(path, st) ((void)(path), (void)(st), -1)
#define getnameinfo(...) EAI_FAIL
/* Only where nothing is optimized away: */
#define fileno(f) ((void)(f), -1)
#define time(t) ((void)(t), (time_t)0)

#ifndef NO_SSL
#define NO_SSL
#endif
#ifndef NO_CGI
#define NO_CGI
#endif
#ifndef NO_FILES
#define NO_FILES
#endif
#ifndef NO_CACHING
#define NO_CACHING
#endif
#define CIVETWEB_API static

/* Reported at the end of the file, hence not inside push and pop: what static functions nobody calls. */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wvla"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#pragma GCC diagnostic ignored "-Wframe-larger-than="
#ifdef __clang__
#pragma GCC diagnostic ignored "-Wnull-pointer-subtraction"
#endif
#include "civetweb.c" /* NOLINT(bugprone-suspicious-include): that is the purpose of this file */
#pragma GCC diagnostic pop

enum { NS_A_BYTE = 1000000000 / (32 << 10) }; /* 32 KiB a second at least */

struct ppa_web {
	struct mg_context ctx;
	struct mg_connection conn;
	int bad_status;	   /* of the request last read, 0 if it was well formed */
	uint64_t asked_ns; /* when we began to read it */
	uint64_t received; /* bytes since */
	size_t peeked;	   /* bytes in buf that have not been taken from the socket */
	size_t touched;	   /* bytes of buf that may not be zero */
	bool never_waits;  /* for the client to take an answer */
	char buf[PPA_WEB_HEAD_MAX];
};

/* civetweb's timeouts start anew with each byte. Here a sender is held to a rate, so that a body which drips in cannot
 * keep a worker: the time allowed grows only with what has arrived. */
static ssize_t web_recv(struct mg_connection *conn, void *buf, size_t len)
{
	struct ppa_web *w = (struct ppa_web *)((char *)conn - offsetof(struct ppa_web, conn));
	uint64_t allowed_ns = PPA_WEB_REQUEST_SECONDS * 1000000000ULL + w->received * NS_A_BYTE;
	long n;

	if (ppa_sys_clock_ns(CLOCK_MONOTONIC) - w->asked_ns > allowed_ns)
		n = -ETIMEDOUT;
	else
		n = ppa_net_recv(conn->client.sock, buf, len, 0);
	if (n < 0)
		errno = (int)-n;
	else
		w->received += (uint64_t)n;
	return n < 0 ? -1 : n;
}

struct ppa_web *ppa_web_new(void)
{
	struct ppa_web *w = ppa_vheap_calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	/* Options are only read on the paths we use, so the table's literals need no copies. */
	for (int i = 0; config_options[i].name; i++)
		w->ctx.dd.config[i] = (char *)(uintptr_t)config_options[i].default_value;
	w->ctx.dd.config[ENABLE_KEEP_ALIVE] = (char *)(uintptr_t) "yes";
	w->ctx.dd.config[REQUEST_TIMEOUT] = (char *)(uintptr_t) "10000"; /* PPA_WEB_REQUEST_SECONDS */
	/* For the rest of a head that came together with the request before it; all other waiting is the gate's. */
	w->ctx.dd.config[KEEP_ALIVE_TIMEOUT] = (char *)(uintptr_t) "1000";
	w->ctx.context_type = CONTEXT_SERVER;
	w->ctx.max_request_size = sizeof(w->buf);
	w->conn.phys_ctx = &w->ctx;
	w->conn.dom_ctx = &w->ctx.dd;
	w->conn.buf = w->buf;
	w->conn.buf_size = sizeof(w->buf);
	return w;
}

void ppa_web_free(struct ppa_web *w)
{
	ppa_vheap_free(w);
}

void ppa_web_attach(struct ppa_web *w, int fd)
{
	w->never_waits = false;
	w->conn.client.sock = fd;
	w->conn.protocol_type = PROTOCOL_TYPE_HTTP1;
	init_connection(&w->conn);
	w->conn.must_close = 0;
}

/* civetweb parses up to the buffer's size, not up to what was received: a head that begins with an empty line would
 * otherwise continue in the remains of an older request. Most heads are short, and so is what has to be cleared. */
static void clear_remains(struct ppa_web *w)
{
	size_t len = (size_t)w->conn.data_len;

	if (w->touched > len)
		memset(w->buf + len, 0, w->touched - len);
	w->touched = len;
}

static enum ppa_web_got get_head(struct ppa_web *w)
{
	char why[100];
	int status = 0;

	clear_remains(w);
	w->bad_status = 0;
	w->received = 0;
	w->asked_ns = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	if (get_request(&w->conn, why, sizeof(why), &status)) {
		const char *version = w->conn.request_info.http_version;

		/* Empty lines before a request would be counted as its whole head and the request answered twice. */
		if (w->conn.request_info.request_method != w->buf)
			status = 400;
		else if (strcmp(version, "1.1") && strcmp(version, "1.0"))
			status = 505;
	} else if (w->conn.data_len >= w->conn.buf_size) {
		status = 431;
	}
	w->touched = (size_t)w->conn.data_len;
	w->bad_status = status == 411 ? 400 : status; /* 411 is for a missing Content-Length, not for a bad one */
	if (status)
		return PPA_WEB_BAD;
	return w->conn.request_len > 0 ? PPA_WEB_REQUEST : PPA_WEB_NONE;
}

enum ppa_web_got ppa_web_read_request(struct ppa_web *w)
{
	return get_head(w);
}

static enum ppa_web_seen peek(struct ppa_web *w, int fd)
{
	long n = ppa_net_recv(fd, w->buf, sizeof(w->buf), MSG_PEEK);

	w->peeked = n > 0 ? (size_t)n : 0;
	if (w->touched < w->peeked)
		w->touched = w->peeked;
	if (n == -EAGAIN)
		return PPA_WEB_PART;
	if (n <= 0)
		return PPA_WEB_END;
	return w->peeked == sizeof(w->buf) || get_http_header_len(w->buf, (int)n) ? PPA_WEB_HEAD : PPA_WEB_PART;
}

enum ppa_web_seen ppa_web_peek(struct ppa_web *w, int fd)
{
	enum ppa_web_seen seen = peek(w, fd);

	if (seen != PPA_WEB_PART || !ppa_net_is_gone(fd))
		return seen;
	/* What came with or before the end of the stream, but after the first look. */
	return peek(w, fd) == PPA_WEB_HEAD ? PPA_WEB_HEAD : PPA_WEB_END;
}

enum ppa_web_got ppa_web_judge_peeked(struct ppa_web *w, int fd)
{
	ppa_web_attach(w, fd);
	w->never_waits = true;
	w->conn.data_len = (int)w->peeked; /* get_request looks at this first, and reads no more than it lacks */
	return get_head(w);
}

int ppa_web_bad_status(const struct ppa_web *w)
{
	return w->bad_status;
}

const char *ppa_web_method(const struct ppa_web *w)
{
	return w->conn.request_info.request_method;
}

const char *ppa_web_uri(const struct ppa_web *w)
{
	return w->conn.request_info.request_uri;
}

const char *ppa_web_version(const struct ppa_web *w)
{
	return w->conn.request_info.http_version;
}

const char *ppa_web_header(const struct ppa_web *w, const char *name)
{
	return mg_get_header(&w->conn, name);
}

bool ppa_web_wants_keep_alive(const struct ppa_web *w)
{
	return should_keep_alive(&w->conn) != 0;
}

long ppa_web_read_body(struct ppa_web *w, void *buf, size_t len)
{
	/* civetweb's chunk reader reports the end of the body as an empty read only while some is asked for. */
	int n = mg_read(&w->conn, buf, len);

	if (n > 0)
		return n;
	return n == 0 && !ppa_web_has_unread_body(w) ? 0 : -EIO;
}

bool ppa_web_has_unread_body(const struct ppa_web *w)
{
	if (w->conn.is_chunked)
		return w->conn.is_chunked != 4;
	return w->conn.consumed_content < w->conn.content_len;
}

bool ppa_web_finish_request(struct ppa_web *w)
{
	/* What has been consumed beyond the buffer went from the socket to the reader directly. */
	int64_t used = w->conn.request_len + w->conn.consumed_content;

	if (used > w->conn.data_len)
		used = w->conn.data_len;
	w->conn.data_len -= (int)used;
	memmove(w->buf, w->buf + used, (size_t)w->conn.data_len);
	w->conn.handled_requests++;
	return w->conn.data_len > 0;
}

int ppa_web_fd(const struct ppa_web *w)
{
	return w->conn.client.sock;
}

static _Atomic int slow_readers; /* workers that wait for one now */

int ppa_web_send(struct ppa_web *w, const void *buf, size_t len)
{
	enum { GRACE_MS = 30000, SLOWEST_BYTES_PER_MS = 4 };
	int fd = w->conn.client.sock, err;
	size_t sent = 0;

	if (w->never_waits) /* and says goodbye with it */
		return ppa_net_send(fd, buf, len, MSG_MORE) == (long)len ? 0 : -EAGAIN;
	err = ppa_net_send_all(fd, buf, len, &sent, PPA_WEB_SEND_QUICK_MS, PPA_WEB_SEND_QUICK_MS);
	if (err != -ETIMEDOUT)
		return err;
	/* Relaxed: the number orders nothing. */
	if (atomic_fetch_add_explicit(&slow_readers, 1, memory_order_relaxed) < PPA_WEB_SLOW_MAX)
		err = ppa_net_send_all(fd, buf, len, &sent, PPA_WEB_SEND_IDLE_MS,
				       GRACE_MS + (int64_t)(len / SLOWEST_BYTES_PER_MS));
	atomic_fetch_sub_explicit(&slow_readers, 1, memory_order_relaxed);
	return err;
}

void ppa_web_reset(void)
{
	atomic_store_explicit(&slow_readers, 0, memory_order_relaxed);
}

bool ppa_web_is_gone(const struct ppa_web *w)
{
	return ppa_net_is_gone(w->conn.client.sock);
}
