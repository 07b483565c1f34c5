/* SPDX-License-Identifier: Apache-2.0
 *
 * Taking an address, once. Who retries and what is said about a refusal is the keeper's affair. */
#ifndef PPA_HTTP_LISTEN_H
#define PPA_HTTP_LISTEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/base/attr.h"
#include "http/address.h"

enum { PPA_LISTEN_PATH_MAX = 108, PPA_LISTEN_TEXT_MAX = 128 };

struct ppa_listener {
	int fd;				/* non-blocking, listening; -1 if closed */
	int lock_fd;			/* says to other agents that we hold the address; -1 if there is none */
	struct ppa_address address;	/* port is the real one */
	char path[PPA_LISTEN_PATH_MAX]; /* UNIX: the file */
	bool is_held_by_agent;		/* after -EADDRINUSE: the holder is another process with this library */
};

/* Bind and listen. 0, or -errno with nothing left open: -EADDRINUSE when someone listens there, -EEXIST when the path
 * is a file but no socket. A socket file whose server is gone is replaced. Context: server. */
int ppa_listen_open(struct ppa_listener *l, const struct ppa_address *a, const char *program, pid_t pid) PPA_CTX_SERVER;

void ppa_listen_close(struct ppa_listener *l) PPA_CTX_SERVER;

/* How to reach it from this machine: "127.0.0.1:6060", "[::1]:6060", "unix:/path". A wildcard is told as 127.0.0.1,
 * which is always among its interfaces. Context: any. */
void ppa_listen_text(const struct ppa_listener *l, char buf[static PPA_LISTEN_TEXT_MAX]) PPA_CTX_ANY;

#endif
