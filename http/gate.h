/* SPDX-License-Identifier: Apache-2.0
 *
 * The waiting room: connections that have not sent a whole request head yet, new ones and idle kept-alive ones alike.
 * They cost a table entry each and no thread, so clients that dawdle cannot keep others out. */
#ifndef PPA_HTTP_GATE_H
#define PPA_HTTP_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"

enum {
	PPA_GATE_MAX = 256, /* connections waiting at a time; beyond, the one that has waited longest is closed */
	PPA_GATE_NEW_SECONDS = 10,  /* from accept to a whole head */
	PPA_GATE_IDLE_SECONDS = 30, /* between requests of one connection */
	PPA_GATE_DONE_SECONDS = 1,  /* for the rest of what was refused */
};

/* What an entry waits for; whoever comes last is the least loss when there is no room. */
enum ppa_gate_wait {
	PPA_GATE_NEW,  /* the first request's head */
	PPA_GATE_IDLE, /* the next one's, after an answer */
	PPA_GATE_DONE, /* the client's end: it has its answer, and what it still sends is thrown away, because closing with
			* unread input makes the kernel send a reset, which can destroy an answer on its way */
};

/* Use epoll_fd from now on; entries of an older life are forgotten. Context: server. */
void ppa_gate_init(int epoll_fd) PPA_CTX_SERVER;

/* Let fd wait; takes ownership. Its epoll events carry the number that ppa_gate_check wants. Context: server, also from
 * workers. */
void ppa_gate_add(int fd, enum ppa_gate_wait what) PPA_CTX_SERVER;

/* A connection just accepted, ownership included: the descriptor if its head is here already and a worker should have
 * it, else -1, and it waits. Context: server, the keeper only. */
int ppa_gate_admit(int fd) PPA_CTX_SERVER;

/* An event came for an entry: the descriptor, ownership included, if a worker should have it now; -1 if it goes on
 * waiting or was closed. Context: server, the keeper only. */
int ppa_gate_check(uint64_t entry) PPA_CTX_SERVER;

/* Close what has waited too long. How many still wait. Context: server, the keeper only. */
unsigned ppa_gate_expire(void) PPA_CTX_SERVER;

/* Close the entry that is the least loss; false if there is none. Context: server. */
bool ppa_gate_evict(void) PPA_CTX_SERVER;

/* Context: child. */
void ppa_gate_reset(void) PPA_CTX_CHILD;

#endif
