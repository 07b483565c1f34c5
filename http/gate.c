/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries are watched edge-triggered: each arrival of bytes is one event, at which the received bytes are looked at
 * (MSG_PEEK) without taking them. When they contain a whole head, the connection goes to the workers, where civetweb reads
 * it from the start. What is no head, or can no longer become one, is told so here: who sends rubbish wakes nobody but the
 * keeper, and a neighbour's CPU is taken once and not twice. Level-triggered events with SO_RCVLOWAT would do for TCP, but
 * Unix sockets ignore that option in poll.
 *
 * A connection is looked at before it is watched: the head of most has come with it, and so has the end of many that will
 * never have one.
 * Connections that are done are watched level-triggered, so that a flood of what nobody wants is read in portions.
 *
 * Full: those that are done go first, then an idle kept-alive one, then the one that has dawdled longest. A client that
 * sends its head in one piece is in here for microseconds and never the victim. */
#include "http/gate.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "agent/base/lock.h"
#include "agent/base/sys.h"
#include "http/civetweb_embed.h"
#include "http/net.h"
#include "http/session.h"

enum { NS_A_SECOND = 1000000000, PORTION_READS = 128, SCRAP_BYTES = 1024 };

struct entry {
	int fd_plus_1; /* 0: free, so that a zeroed table is empty */
	enum ppa_gate_wait what;
	uint64_t since_ns;
};

static const unsigned limit_seconds[] = {
	[PPA_GATE_NEW] = PPA_GATE_NEW_SECONDS,
	[PPA_GATE_IDLE] = PPA_GATE_IDLE_SECONDS,
	[PPA_GATE_DONE] = PPA_GATE_DONE_SECONDS,
};

static struct {
	/* Protects the entries and count; a leaf. Taken by the keeper and by workers that give a connection back. */
	struct ppa_lock lock;
	int epoll_fd;
	unsigned count;
	struct entry entries[PPA_GATE_MAX];
	/* the keeper's own: */
	struct ppa_web *web; /* what it looks with; while somebody waits, else NULL */
} gate;

void ppa_gate_init(int epoll_fd)
{
	ppa_lock(&gate.lock);
	memset(gate.entries, 0, sizeof(gate.entries));
	gate.count = 0;
	gate.epoll_fd = epoll_fd;
	ppa_unlock(&gate.lock);
}

/* Free the entry and return its descriptor, no longer watched. */
static int take_locked(struct entry *e)
{
	int fd = e->fd_plus_1 - 1;

	ppa_net_epoll_ctl(gate.epoll_fd, EPOLL_CTL_DEL, fd, 0, 0);
	e->fd_plus_1 = 0;
	gate.count--;
	return fd;
}

static bool is_lesser_loss(const struct entry *a, const struct entry *b)
{
	if (a->what != b->what)
		return a->what > b->what;
	return a->since_ns < b->since_ns;
}

static struct entry *victim_locked(void)
{
	struct entry *victim = NULL;

	for (struct entry *e = gate.entries; e < gate.entries + PPA_GATE_MAX; e++) {
		if (e->fd_plus_1 && (!victim || is_lesser_loss(e, victim)))
			victim = e;
	}
	return victim;
}

static struct entry *free_entry_locked(void)
{
	struct entry *e;

	for (e = gate.entries; e < gate.entries + PPA_GATE_MAX; e++) {
		if (!e->fd_plus_1)
			return e;
	}
	e = victim_locked();
	ppa_sys_close(take_locked(e));
	return e;
}

void ppa_gate_add(int fd, enum ppa_gate_wait what)
{
	uint32_t events = EPOLLIN | EPOLLRDHUP | (what == PPA_GATE_DONE ? 0 : EPOLLET);
	struct entry *e;

	ppa_lock(&gate.lock);
	e = free_entry_locked();
	e->fd_plus_1 = fd + 1;
	e->what = what;
	e->since_ns = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	gate.count++;
	if (ppa_net_epoll_ctl(gate.epoll_fd, EPOLL_CTL_ADD, fd, events, (uint64_t)(e - gate.entries)))
		ppa_sys_close(take_locked(e));
	ppa_unlock(&gate.lock);
}

/* A portion of what nobody wants. */
static enum ppa_web_seen discard(int fd)
{
	char scrap[SCRAP_BYTES];

	for (int i = 0; i < PORTION_READS; i++) {
		long n = ppa_net_recv(fd, scrap, sizeof(scrap), 0);

		if (n <= 0)
			return n == -EAGAIN ? PPA_WEB_PART : PPA_WEB_END;
	}
	return PPA_WEB_PART;
}

static bool can_look(void)
{
	if (!gate.web)
		gate.web = ppa_web_new();
	return gate.web != NULL;
}

/* fd has been told, or not, what there is to tell. Returns it if a worker should have it, else -1. */
static int follow(int fd, enum ppa_session_end end)
{
	switch (end) {
	case PPA_SESSION_PASS:
		return fd;
	case PPA_SESSION_DISCARD:
		ppa_gate_add(fd, PPA_GATE_DONE);
		break;
	case PPA_SESSION_KEEP:
	case PPA_SESSION_CLOSE:
		ppa_sys_close(fd);
		break;
	}
	return -1;
}

int ppa_gate_admit(int fd)
{
	if (!can_look())
		return follow(fd, ppa_session_turn_away(fd));
	switch (ppa_web_peek(gate.web, fd)) {
	case PPA_WEB_HEAD:
		return follow(fd, ppa_session_judge(gate.web, fd));
	case PPA_WEB_PART:
		ppa_gate_add(fd, PPA_GATE_NEW);
		break;
	case PPA_WEB_END:
		ppa_sys_close(fd);
		break;
	}
	return -1;
}

int ppa_gate_check(uint64_t entry)
{
	struct entry *e = &gate.entries[entry % PPA_GATE_MAX];
	bool has_web = can_look();
	enum ppa_gate_wait what;
	int fd = -1;

	ppa_lock(&gate.lock);
	what = e->what;
	if (e->fd_plus_1) {
		enum ppa_web_seen seen = PPA_WEB_HEAD;

		if (what == PPA_GATE_DONE)
			seen = discard(e->fd_plus_1 - 1);
		else if (has_web)
			seen = ppa_web_peek(gate.web, e->fd_plus_1 - 1);
		if (seen == PPA_WEB_END)
			ppa_sys_close(take_locked(e));
		else if (seen == PPA_WEB_HEAD)
			fd = take_locked(e);
	}
	ppa_unlock(&gate.lock);
	if (fd < 0)
		return -1;
	if (!has_web)
		return follow(fd, ppa_session_turn_away(fd));
	/* An older connection may be full of answers that its client has not read: for that a worker can wait. */
	return what == PPA_GATE_NEW ? follow(fd, ppa_session_judge(gate.web, fd)) : fd;
}

unsigned ppa_gate_expire(void)
{
	uint64_t now = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	unsigned left;

	ppa_lock(&gate.lock);
	for (struct entry *e = gate.entries; gate.count > 0 && e < gate.entries + PPA_GATE_MAX; e++) {
		/* A worker may have added the entry after now was read: since_ns can be the later. */
		if (e->fd_plus_1 && e->since_ns + limit_seconds[e->what] * (uint64_t)NS_A_SECOND < now)
			ppa_sys_close(take_locked(e));
	}
	left = gate.count;
	ppa_unlock(&gate.lock);
	if (left == 0) {
		ppa_web_free(gate.web);
		gate.web = NULL;
	}
	return left;
}

bool ppa_gate_evict(void)
{
	struct entry *e;

	ppa_lock(&gate.lock);
	e = victim_locked();
	if (e)
		ppa_sys_close(take_locked(e));
	ppa_unlock(&gate.lock);
	return e != NULL;
}

void ppa_gate_reset(void)
{
	memset(&gate, 0, sizeof(gate));
}
