/* SPDX-License-Identifier: Apache-2.0
 *
 * The few socket calls the server needs, straight to the kernel: a preloaded proxifier's connect or an accept that the
 * program itself exports is never called, errno stays as it was, nothing is a cancellation point. All return the
 * result or -errno, and every descriptor they make is close-on-exec. */
#ifndef PPA_HTTP_NET_H
#define PPA_HTTP_NET_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "agent/base/attr.h"

/* A non-blocking socket, or the next connection of one. Where our descriptor table is not private the number is moved
 * out of the target's way, see ppa_net_adopt. Context: server. */
int ppa_net_socket(int family, int type) PPA_CTX_SERVER;
int ppa_net_accept(int fd) PPA_CTX_SERVER;

int ppa_net_bind(int fd, const struct sockaddr *sa, socklen_t len) PPA_CTX_SERVER;
int ppa_net_connect(int fd, const struct sockaddr *sa, socklen_t len) PPA_CTX_SERVER;
int ppa_net_listen(int fd, int backlog) PPA_CTX_SERVER;
int ppa_net_set_option(int fd, int level, int name, int value) PPA_CTX_SERVER;
int ppa_net_local_address(int fd, struct sockaddr *sa, socklen_t *len) PPA_CTX_SERVER;

/* One recv or send, never blocking and never raising SIGPIPE; -EAGAIN when nothing can move. MSG_MORE: the end of the
 * connection follows at once and shares the segment. Context: server. */
long ppa_net_recv(int fd, void *buf, size_t len, int flags) PPA_CTX_SERVER;
long ppa_net_send(int fd, const void *buf, size_t len, int flags) PPA_CTX_SERVER;

/* Send buf from *sent on, waiting for the peer at most idle_ms for each step and total_ms overall. 0 when all of it is
 * sent; -ETIMEDOUT when time is up, to go on with *sent if there is more; -EPIPE and the like after which the connection
 * is of no use. Context: server. */
int ppa_net_send_all(int fd, const void *buf, size_t len, size_t *sent, int idle_ms, int64_t total_ms) PPA_CTX_SERVER;

void ppa_net_shutdown_write(int fd) PPA_CTX_SERVER;

/* Wait for events on one descriptor; the events seen (0: timeout) or -errno. Context: server. */
int ppa_net_poll(int fd, short events, int timeout_ms) PPA_CTX_SERVER;

/* Has the peer closed its sending side, or the connection broken? Context: server. */
bool ppa_net_is_gone(int fd) PPA_CTX_SERVER;

int ppa_net_epoll_create(void) PPA_CTX_SERVER;
int ppa_net_epoll_ctl(int epoll_fd, int op, int fd, uint32_t events, uint64_t data) PPA_CTX_SERVER;
int ppa_net_epoll_wait(int epoll_fd, struct epoll_event *ev, int n, int timeout_ms) PPA_CTX_SERVER;

/* Sleep, whatever happens meanwhile. Context: server. */
void ppa_net_sleep_ms(int ms) PPA_CTX_SERVER;

/* Take over a new descriptor: unchanged where the table is private, else moved to a high number so that the target
 * keeps its low ones. Context: server. */
int ppa_net_adopt(int fd) PPA_CTX_SERVER;

/* Words for an errno, without strerror's tables and locale. Context: any. */
const char *ppa_net_error_text(int err) PPA_CTX_ANY;

#endif
