/* SPDX-License-Identifier: Apache-2.0
 *
 * The waist of the execution trace: what the recorder knows of one window, as plain data that no longer changes. The
 * recorder fills it on a server thread once recording has stopped, the writers (proto/gotrace.h, proto/perfetto.h) read
 * it, nobody keeps a pointer into it.
 *
 * Nothing here has to be complete or free of contradictions: records may be missing anywhere, out of order, outside
 * the window or their thread's life, overlapping; wakers may not exist. The writers make a valid file of it in any
 * case. Only two things must hold: pointers and counts are right, and texts end in NUL. An index that leads nowhere is
 * read as 0.
 *
 * Times are CLOCK_MONOTONIC nanoseconds; 0 is "none". Threads are named by kernel thread ids, which may be used twice in a
 * window; who is meant is decided by the time beside the id. A stack id is 1 + an index into stacks->samples, 0 is "no
 * stack"; a text id is an index into texts, and text 0 is "". */
#ifndef PPA_SNAPSHOT_TRACE_INPUT_H
#define PPA_SNAPSHOT_TRACE_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/snapshot/snapshot.h"

enum ppa_trace_kind {
	PPA_TRACE_NOTHING, /* skipped */

	/* Waits: at_ns to wait.end_ns. Outermost hook only; one that is still going on has end_ns 0. */
	PPA_TRACE_MUTEX,
	PPA_TRACE_RDLOCK, /* rwlock, for reading */
	PPA_TRACE_WRLOCK, /* rwlock, for writing */
	PPA_TRACE_SPIN,
	PPA_TRACE_COND, /* the whole call, taking the mutex again included */
	PPA_TRACE_SEM,
	PPA_TRACE_BARRIER,
	PPA_TRACE_JOIN,	   /* the waker is the thread that ended */
	PPA_TRACE_FUTEX,   /* syscall(SYS_futex) */
	PPA_TRACE_SLEEP,   /* nanosleep and its like */
	PPA_TRACE_NETWORK, /* sockets; poll, select, epoll */
	PPA_TRACE_CHILD,   /* waitpid and its like */
	PPA_TRACE_PAUSE,   /* pause, sigsuspend, sigwait: until a signal comes */
	PPA_TRACE_FILE,	   /* system calls on files: shown as such, not as waits */

	/* Moments, at at_ns. */
	PPA_TRACE_SAMPLE,	/* stack: what used the CPU */
	PPA_TRACE_NAME,		/* user.text: the thread's new name */
	PPA_TRACE_TASK_BEGIN,	/* user.task (never 0), user.parent (0: none), user.text: its name */
	PPA_TRACE_TASK_END,	/* user.task */
	PPA_TRACE_REGION_BEGIN, /* user.task (0: none), user.text: its name */
	PPA_TRACE_REGION_END,	/* the same two */
	PPA_TRACE_LOG,		/* user.task (0: none), user.text: category, user.value: message */
	PPA_TRACE_LABEL,	/* user.text: key, user.value: value, "" if it was removed */

	PPA_TRACE_KINDS,
};

/* 40 bytes, so that rings may hold them as they are. */
struct ppa_trace_record {
	uint64_t at_ns;
	union {
		struct {
			uint64_t end_ns;      /* 0: not yet */
			uint64_t waker_ns;    /* 0: with waker_tid 0 nobody (timeout, poll), else at the end */
			uint32_t waker_tid;   /* 0: unknown or nobody */
			uint32_t waker_stack; /* where it unlocked, signalled, posted; 0: unknown */
		} wait;
		struct {
			uint64_t task, parent;
			uint32_t text, value; /* text ids */
		} user;
	};
	uint32_t stack; /* whose record it is: where it waits, was sampled, said it. 0: unknown */
	uint32_t kind;	/* enum ppa_trace_kind */
};

/* Records lie in pieces (a ring's two halves, chunks), oldest piece first. */
struct ppa_trace_piece {
	const struct ppa_trace_record *records;
	size_t n;
};

struct ppa_trace_thread {
	uint32_t tid;	   /* 0: samples of threads that are not known; nothing else of it is shown */
	const char *name;  /* at the window's start or its own; NULL or "": unknown */
	uint64_t start_ns; /* 0: it was there before the window */
	uint64_t exit_ns;  /* 0: it was there after it */
	/* Of threads that began in the window: who created them, and where. */
	uint32_t creator_tid;  /* 0: unknown */
	uint32_t create_stack; /* 0: unknown */
	uint64_t create_ns;    /* 0: with start_ns */
	/* Outermost frame of all its stacks: its start routine. Frames beyond are cut off. The stack's first frame is
	 * taken. 0: unknown, then what the stacks end in, less libc's frames. */
	uint32_t root_stack;
	uint64_t lost; /* records dropped */
	const struct ppa_trace_piece *pieces;
	size_t npieces;
};

/* How much memory the process had; ascending times are not required. */
struct ppa_trace_counter {
	uint64_t at_ns;
	uint64_t heap_bytes; /* in use; UINT64_MAX: unknown */
	uint64_t rss_bytes;  /* resident; UINT64_MAX: unknown */
};

struct ppa_trace_input {
	uint64_t start_ns, stop_ns; /* the window; start_ns > 0 */
	int64_t start_utc_ns;	    /* CLOCK_REALTIME at start_ns */
	uint32_t pid;
	uint32_t agent_tid;	  /* a thread of ours, which is not among threads; 0: unknown */
	const char *program;	  /* never NULL */
	const char *const *texts; /* texts[0] is "" */
	size_t ntexts;
	/* Stacks, one a sample, leaf first, and what their addresses mean. Labels and values are not looked at. */
	const struct ppa_snapshot *stacks;
	const struct ppa_trace_thread *threads; /* any order; the agent's own are left out */
	size_t nthreads;
	const struct ppa_trace_counter *counters;
	size_t ncounters;
	uint64_t lost; /* records dropped that are in no thread's count */
};

#endif
