/* SPDX-License-Identifier: Apache-2.0
 *
 * Each reason is a column of the viewer's table of goroutines, so there are not more than needed. */
#include "proto/trace/waits.h"

#include "agent/snapshot/trace_input.h"

static const char *const reasons[PPA_TRACE_KINDS] = {
	[PPA_TRACE_MUTEX] = "sync (pthread_mutex_lock)",
	[PPA_TRACE_RDLOCK] = "sync (rwlock rd)",
	[PPA_TRACE_WRLOCK] = "sync (rwlock wr)",
	[PPA_TRACE_SPIN] = "sync (pthread_spin_lock)",
	[PPA_TRACE_COND] = "sync (pthread_cond_wait)",
	[PPA_TRACE_SEM] = "sync (sem_wait)",
	[PPA_TRACE_BARRIER] = "sync (barrier)",
	[PPA_TRACE_JOIN] = "sync (pthread_join)",
	[PPA_TRACE_FUTEX] = "sync (futex)",
	[PPA_TRACE_SLEEP] = "sleep",
	[PPA_TRACE_NETWORK] = "network",
	[PPA_TRACE_CHILD] = "child process",
	[PPA_TRACE_PAUSE] = "forever",
	[PPA_TRACE_FILE] = "syscall",
};

const char *ppa_trace_wait_reason(uint32_t kind)
{
	return kind < PPA_TRACE_KINDS && reasons[kind] ? reasons[kind] : "wait";
}

const char *ppa_trace_text(const struct ppa_trace_input *in, uint32_t id)
{
	return id < in->ntexts && in->texts[id] ? in->texts[id] : "";
}
