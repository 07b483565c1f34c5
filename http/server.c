/* SPDX-License-Identifier: Apache-2.0
 *
 * The keeper's life: take the address, say so, then pass connections from the listening socket to the gate and from
 * the gate to the workers. It never blocks on a client and allocates nothing while nobody is connected.
 *
 * The address busy: if another process with the agent has it (a parent, a sibling, the old instance of a rolling
 * restart), wait for it silently, trying once a second; if a stranger has it, say so once and go on trying the same way.
 * The stranger is announced only when seen twice, a moment apart, because a holder of ours that is just dying loses its
 * two sockets one after the other. Errors that time does not cure end the keeper with one line; the target runs on without
 * us.
 *
 * Each time it wakes, something of the target's may lose its CPU to it. When that has happened often of late, clients by
 * the hundred are at work, and it naps between two rounds: what came meanwhile is handled together.
 *
 * All options are copied at start: the target may change its environment's memory. */
#include "http/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/image.h"
#include "agent/base/log.h"
#include "agent/base/sys.h"
#include "agent/base/thread.h"
#include "http/announce.h"
#include "http/gate.h"
#include "http/listen.h"
#include "http/civetweb_embed.h"
#include "http/net.h"
#include "http/pool.h"
#include "http/reply.h"
#include "http/routes.h"
#include "http/session.h"
#include "http/token.h"

enum {
	KEEPER_STACK_BYTES = 64 << 10,
	TEXT_MAX = 512,
	RETRY_MS = 1000,
	LOOK_AGAIN_MS = 150,
	FORK_CHILD_MS = 50,
	SPEAK_AFTER_MS = 200,
	TICK_MS = 1000,
	EVENTS_AT_ONCE = 32,
	ACCEPTS_AT_ONCE = 16, /* with naps, 3200 a second */
	NO_DESCRIPTOR_MS = 100,
	ROUNDS_AT_ONCE = 50, /* without a nap */
	ROUNDS_A_SECOND = 100,
	NAP_MS = 5,
};

#define NS_A_MS 1000000ULL
#define LISTENER_EVENT UINT64_MAX /* epoll data of the listening socket; all else is the gate's */

static struct {
	/* written before the keeper starts, read by it alone */
	char addr[TEXT_MAX], addr_file[TEXT_MAX], token_file[TEXT_MAX], program[TEXT_MAX];
	bool is_fork_child, allows_settings;
	void (*begin)(void), (*speak)(void);
	struct ppa_address address;
	/* the keeper's own */
	struct ppa_listener listener;
	pid_t pid;
	int epoll_fd;
	uint64_t
		rounds_paid_ns; /* the time up to which rounds have used up what they may; in the past after a quiet time */
} server;

int ppa_server_check(const char *addr, const char **why)
{
	struct ppa_address unused;

	return ppa_address_parse(addr, &unused, why);
}

/* Can waiting help? */
static bool is_transient(int err)
{
	switch (-err) {
	case EADDRINUSE:
	case EADDRNOTAVAIL: /* an interface that comes up later */
	case ENOMEM:
	case ENOBUFS:
	case EMFILE:
	case ENFILE:
	case EAGAIN:
	case EINTR:
		return true;
	}
	return false;
}

static void log_refusal(int err)
{
	const char *outlook = is_transient(err) ? "; still trying" : "; not listening";

	if (err == -EADDRINUSE)
		ppa_log("%s is in use by another program; still trying", server.addr);
	else
		ppa_log("cannot listen on %s: %s (errno %d)%s", server.addr, ppa_net_error_text(-err), -err, outlook);
}

/* Until the address is ours. False: it never will be. */
static bool acquire_address(void)
{
	bool has_told = false;
	int strangers = 0;

	for (;;) {
		int err = ppa_listen_open(&server.listener, &server.address, server.program, server.pid);
		bool is_ours = server.listener.is_held_by_agent;

		if (!err)
			return true;
		strangers = err == -EADDRINUSE && !is_ours ? strangers + 1 : 0;
		if (!has_told && !is_ours && (err != -EADDRINUSE || strangers == 2)) {
			log_refusal(err);
			has_told = true;
		}
		if (!is_transient(err))
			return false;
		ppa_net_sleep_ms(strangers == 1 && !has_told ? LOOK_AGAIN_MS : RETRY_MS);
	}
}

static void accept_all(void)
{
	for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
		int fd = ppa_net_accept(server.listener.fd);

		if (fd >= 0) {
			fd = ppa_gate_admit(fd);
			if (fd >= 0)
				ppa_pool_submit(fd);
			continue;
		}
		if (fd == -ECONNABORTED || fd == -EINTR || fd == -EPROTO)
			continue;
		/* Out of descriptors or memory: the listening socket stays readable, so make room or wait a little. */
		if (fd != -EAGAIN && !ppa_gate_evict())
			ppa_net_sleep_ms(NO_DESCRIPTOR_MS);
		return;
	}
}

/* Called once a round. */
static void nap_if_busy(void)
{
	const uint64_t a_round = 1000 * NS_A_MS / ROUNDS_A_SECOND;
	uint64_t now = ppa_sys_clock_ns(CLOCK_MONOTONIC);

	if (server.rounds_paid_ns + ROUNDS_AT_ONCE * a_round < now)
		server.rounds_paid_ns = now - ROUNDS_AT_ONCE * a_round;
	if (server.rounds_paid_ns + a_round > now)
		ppa_net_sleep_ms(NAP_MS);
	else
		server.rounds_paid_ns += a_round;
}

/* Returns only if our descriptors have been taken from us, which a target can do where the table is not private. */
static void serve(void)
{
	uint64_t begin = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	struct epoll_event events[EVENTS_AT_ONCE];
	bool is_quiet = true, has_spoken = false, has_served = false;

	ppa_image_release(); /* while the program starts, too, it is small */
	for (;;) {
		int wait_ms = !has_spoken ? SPEAK_AFTER_MS : is_quiet && !has_served ? -1 : TICK_MS;
		int n = ppa_net_epoll_wait(server.epoll_fd, events, EVENTS_AT_ONCE, wait_ms);

		if (n < 0 && n != -EINTR)
			return;
		/* Not after each request: who asks once asks again, and the target's hooks run through these pages, too. */
		if (n == 0 && is_quiet && has_served) {
			ppa_image_release();
			has_served = false;
		}
		has_served |= n > 0;
		for (int i = 0; i < n; i++) {
			int fd;

			if (events[i].data.u64 == LISTENER_EVENT) {
				if (events[i].events & (EPOLLERR | EPOLLHUP))
					return;
				accept_all();
				continue;
			}
			fd = ppa_gate_check(events[i].data.u64);
			if (fd >= 0)
				ppa_pool_submit(fd);
		}
		/* Not from each mkdir of an entrypoint script that has the port for a moment. */
		if (!has_spoken && ppa_sys_clock_ns(CLOCK_MONOTONIC) - begin >= SPEAK_AFTER_MS * NS_A_MS) {
			ppa_announce_line(&server.listener, server.program, server.pid);
			if (server.speak)
				server.speak();
			has_spoken = true;
			ppa_image_release(); /* with what the program's own start has touched of the hooks */
		}
		is_quiet = ppa_gate_expire() == 0;
		is_quiet = !ppa_pool_tick() && is_quiet;
		nap_if_busy();
	}
}

static bool open_epoll(void)
{
	server.epoll_fd = ppa_net_epoll_create();
	if (server.epoll_fd < 0)
		return false;
	ppa_gate_init(server.epoll_fd);
	return ppa_net_epoll_ctl(server.epoll_fd, EPOLL_CTL_ADD, server.listener.fd, EPOLLIN, LISTENER_EVENT) == 0;
}

static void *keeper(void *unused)
{
	(void)unused;
	if (server.begin)
		server.begin();
	if (server.is_fork_child)
		ppa_net_sleep_ms(FORK_CHILD_MS);
	server.pid = ppa_sys_getpid();
	ppa_session_set_loopback(server.address.kind != PPA_ADDRESS_UNIX && ppa_address_is_loopback(&server.address));
	ppa_token_set_file(server.token_file);
	ppa_settings_allow(server.allows_settings);
	while (acquire_address()) {
		if (open_epoll()) {
			ppa_announce_file(&server.listener, server.addr_file, server.pid);
			serve();
		}
		if (server.epoll_fd >= 0)
			ppa_sys_close(server.epoll_fd);
		ppa_listen_close(&server.listener);
		ppa_net_sleep_ms(RETRY_MS);
	}
	return NULL;
}

static int copy(char to[static TEXT_MAX], const char *from)
{
	size_t len = strlen(from);

	if (len >= TEXT_MAX)
		return -ENAMETOOLONG;
	memcpy(to, from, len + 1);
	return 0;
}

int ppa_server_start(const struct ppa_server_options *o)
{
	const char *why;
	int err = copy(server.addr, o->addr);

	if (!err)
		err = copy(server.addr_file, o->addr_file);
	if (!err)
		err = copy(server.token_file, o->token_file);
	if (!err)
		err = ppa_address_parse(server.addr, &server.address, &why);
	if (err)
		return err;
	/* A name is for people: cut rather than refused. */
	strncpy(server.program, o->program, sizeof(server.program) - 1);
	server.is_fork_child = o->is_fork_child;
	server.allows_settings = o->allows_settings;
	server.begin = o->begin;
	server.speak = o->speak;
	return ppa_thread_spawn(keeper, NULL, KEEPER_STACK_BYTES, "pprof-keeper");
}

void ppa_server_reset(void)
{
	memset(&server, 0, sizeof(server));
	ppa_gate_reset();
	ppa_pool_reset();
	ppa_routes_reset();
	ppa_reply_reset();
	ppa_web_reset();
}
