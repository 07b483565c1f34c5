/* SPDX-License-Identifier: Apache-2.0
 *
 * A bounded queue of connections between the keeper and up to 32 workers. A worker is started when a connection is
 * queued that no idle one can take; each worker owns its civetweb engine and buffer (40 KiB of private heap), which go
 * with it when it has had nothing to do for a minute. The last one to leave gives the heap's empty pages back.
 *
 * When the queue is full or no thread can be had, the answer is an immediate 503: the keeper never blocks. */
#include "http/pool.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/lock.h"
#include "agent/base/slice.h"
#include "agent/base/sys.h"
#include "agent/base/thread.h"
#include "agent/snapshot/collect.h"
#include "http/civetweb_embed.h"
#include "http/gate.h"
#include "http/net.h"
#include "http/session.h"

enum { WORKER_STACK_BYTES = 256 << 10 };

static struct {
	/* Protects all but wake; a leaf. Taken by the keeper and the workers. */
	struct ppa_lock lock;
	unsigned nworkers; /* threads started and not yet leaving */
	unsigned nidle;	   /* of these, waiting for a connection or just about to */
	unsigned head, nqueued;
	int queue[PPA_POOL_QUEUE_MAX];
	/* Futex: grows with each submission. */
	_Atomic uint32_t wake;
} pool;

static int take_locked(void)
{
	int fd = pool.queue[pool.head];

	pool.head = (pool.head + 1) % PPA_POOL_QUEUE_MAX;
	pool.nqueued--;
	return fd;
}

/* The next connection, or -1 when none came for PPA_POOL_LINGER_SECONDS: the caller is no worker any more then. The
 * caller counts as idle on entry. */
static int next_connection(void)
{
	uint64_t leave_at = ppa_sys_clock_ns(CLOCK_MONOTONIC) + PPA_POOL_LINGER_SECONDS * 1000000000ULL;
	int fd = -1;

	ppa_lock(&pool.lock);
	while (pool.nqueued == 0) {
		/* acquire: pairs with the release in ppa_pool_submit; read under the lock, so no submission is missed. */
		uint32_t seen = atomic_load_explicit(&pool.wake, memory_order_acquire);
		uint64_t now = ppa_sys_clock_ns(CLOCK_MONOTONIC);
		struct timespec left;

		if (now >= leave_at)
			break;
		left.tv_sec = (time_t)((leave_at - now) / 1000000000U);
		left.tv_nsec = (long)((leave_at - now) % 1000000000U);
		ppa_unlock(&pool.lock);
		ppa_syscall(SYS_futex, (long)&pool.wake, FUTEX_WAIT_PRIVATE, (long)seen, (long)&left, 0, 0);
		ppa_lock(&pool.lock);
	}
	pool.nidle--;
	if (pool.nqueued > 0)
		fd = take_locked();
	else
		pool.nworkers--;
	ppa_unlock(&pool.lock);
	return fd;
}

static void become_idle(void)
{
	ppa_lock(&pool.lock);
	pool.nidle++;
	ppa_unlock(&pool.lock);
}

static void follow(int fd, enum ppa_session_end end)
{
	switch (end) {
	case PPA_SESSION_PASS:
	case PPA_SESSION_CLOSE:
		ppa_sys_close(fd);
		break;
	case PPA_SESSION_KEEP:
		ppa_gate_add(fd, PPA_GATE_IDLE);
		break;
	case PPA_SESSION_DISCARD:
		ppa_gate_add(fd, PPA_GATE_DONE);
		break;
	}
}

static void *worker(void *unused)
{
	struct ppa_web *web = ppa_web_new();
	bool is_last;
	int fd;

	(void)unused;
	while ((fd = next_connection()) >= 0) {
		if (!web)
			web = ppa_web_new();
		follow(fd, web ? ppa_session_serve(web, fd) : ppa_session_turn_away(fd));
		ppa_slice_usual();
		become_idle();
	}
	ppa_web_free(web);
	ppa_lock(&pool.lock);
	is_last = pool.nworkers == 0;
	ppa_unlock(&pool.lock);
	if (is_last)
		ppa_collect_trim();
	return NULL;
}

/* Enough workers for what is queued, as far as threads can be had. */
static int start_workers_locked(void)
{
	int err = 0;

	while (!err && pool.nqueued > pool.nidle && pool.nworkers < PPA_POOL_WORKERS_MAX) {
		err = ppa_thread_spawn(worker, NULL, WORKER_STACK_BYTES, "pprof-http");
		if (!err) {
			pool.nworkers++;
			pool.nidle++;
		}
	}
	return err;
}

void ppa_pool_submit(int fd)
{
	bool is_full;

	ppa_lock(&pool.lock);
	is_full = pool.nqueued == PPA_POOL_QUEUE_MAX;
	if (!is_full) {
		pool.queue[(pool.head + pool.nqueued) % PPA_POOL_QUEUE_MAX] = fd;
		pool.nqueued++;
		start_workers_locked();
		/* release: pairs with the acquire in next_connection. */
		atomic_fetch_add_explicit(&pool.wake, 1, memory_order_release);
	}
	ppa_unlock(&pool.lock);
	if (is_full)
		follow(fd, ppa_session_turn_away(fd));
	else
		ppa_syscall(SYS_futex, (long)&pool.wake, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

/* No worker exists and none can be started: say so instead of letting clients wait for nothing. -1: nobody is queued, or
 * can be served. */
static int next_hopeless(bool *is_busy)
{
	int fd = -1;

	ppa_lock(&pool.lock);
	if (start_workers_locked() && pool.nworkers == 0 && pool.nqueued > 0)
		fd = take_locked();
	*is_busy = pool.nqueued > 0 || pool.nworkers > pool.nidle;
	ppa_unlock(&pool.lock);
	return fd;
}

bool ppa_pool_tick(void)
{
	bool is_busy;
	int fd;

	while ((fd = next_hopeless(&is_busy)) >= 0)
		follow(fd, ppa_session_turn_away(fd));
	return is_busy;
}

void ppa_pool_reset(void)
{
	memset(&pool, 0, sizeof(pool));
}
