/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests in, bodies out. The keeper, one thread of ours, takes the address and sleeps until a connection comes; a
 * worker with a civetweb engine is started for a request and ends after a minute without another. An idle process so
 * has one sleeping thread and one listening socket, in a descriptor table of its own. */
#ifndef PPA_HTTP_SERVER_H
#define PPA_HTTP_SERVER_H

#include <stdbool.h>

#include "agent/base/attr.h"

struct ppa_server_options {
	const char *addr;	/* see http/address.h for the grammar; must have passed ppa_server_check */
	const char *addr_file;	/* file to tell the bound address in, "" for none */
	const char *token_file; /* PPROF_TOKEN_FILE, "" for none; see http/token.h */
	bool allows_settings;	/* PPROF_SETTINGS */
	const char *program;	/* base name of the program, for %e */
	void (*begin)(void);	/* the keeper's first act, NULL for none */
	void (*speak)(void);	/* after the line that tells the address, NULL for none */
	bool is_fork_child;	/* wait a moment first: most children of a fork replace themselves by exec */
};

/* Is addr well formed? 0, or -EINVAL with a reason in *why (static text). Context: init. */
int ppa_server_check(const char *addr, const char **why) PPA_CTX_INIT;

/* Start the keeper. The strings are copied. 0 or -errno. Context: init, child. */
int ppa_server_start(const struct ppa_server_options *o) PPA_CTX_INIT;

/* Forget every thread, connection and static state of the server in the child of a fork; ppa_server_start may follow.
 * Does not touch a descriptor: the child never had ours. Context: child. */
void ppa_server_reset(void) PPA_CTX_CHILD;

#endif
