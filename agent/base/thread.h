/* SPDX-License-Identifier: Apache-2.0
 *
 * Our own threads: how they are started, told apart from the target's, and billed.
 *
 * Each blocks every signal (a handler of the target must never run on it), and leaves the target's descriptor table
 * for an empty one of its own (close_range with CLOSE_RANGE_UNSHARE; unshare(CLONE_FILES) on kernels before 5.9): no
 * descriptor of ours is ever seen, inherited over fork, closed by closefrom or counted against the target's. Threads
 * started by one of ours share that private table. They are scheduled as SCHED_BATCH: waking up, they take no CPU from a
 * thread of the target's that runs. */
#ifndef PPA_BASE_THREAD_H
#define PPA_BASE_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/base/attr.h"

/* Start a detached thread of ours that runs fn(arg). name is at most 15 bytes. Returns 0 or -errno.
 * Context: server, init, child. */
int ppa_thread_spawn(void *(*fn)(void *), void *arg, size_t stack_bytes, const char *name) PPA_CTX_SERVER;

/* Is the calling thread one of ours? Context: signal. */
bool ppa_thread_is_ours(void) PPA_CTX_SIGNAL;

/* Is tid one of our threads now? Context: server. */
bool ppa_thread_owns(pid_t tid) PPA_CTX_SERVER;

/* Wait until every thread that we have created so far is known to ppa_thread_owns: whoever reads a list of threads calls
 * this behind it. One that has ended is known for a moment longer. Context: server. */
void ppa_thread_settle(void) PPA_CTX_SERVER;

/* How many of our threads there are now. Context: server. */
unsigned ppa_thread_count(void) PPA_CTX_SERVER;

/* CPU time our threads have used since start, ended ones included, in nanoseconds. Context: server. */
uint64_t ppa_thread_cpu_ns(void) PPA_CTX_SERVER;

/* False where the kernel refused a private descriptor table: descriptors of ours are then visible to the target and
 * must be moved to high numbers with close-on-exec set. Context: server. */
bool ppa_thread_fds_are_private(void) PPA_CTX_SERVER;

/* The child of a fork has none of our threads. Context: child. */
void ppa_thread_reset(void) PPA_CTX_CHILD;

#endif
