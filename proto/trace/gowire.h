/* SPDX-License-Identifier: Apache-2.0
 *
 * The outer form of a Go execution trace, version 2: batches, and tables of strings, stacks and CPU samples. Knows what
 * an event looks like, not what it means.
 *
 * Everything is written as it comes, in batches of at most 64 KiB, in one generation; the strings come last, and with
 * them what makes the file complete. */
#ifndef PPA_PROTO_TRACE_GOWIRE_H
#define PPA_PROTO_TRACE_GOWIRE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/snapshot/trace_input.h"
#include "proto/gotrace.h"
#include "proto/strtab.h"
#include "proto/trace/frames.h"
#include "proto/trace/table.h"

struct ppa_sink;

/* Ids of timed events that we use, and their arguments; numbers from Go's internal/trace/tracev2. */
enum ppa_go_event {
	PPA_GO_PROCS_CHANGE = 9,       /* n, stack */
	PPA_GO_PROC_START = 10,	       /* p, seq */
	PPA_GO_PROC_STOP = 11,	       /* */
	PPA_GO_PROC_STATUS = 13,       /* p, status */
	PPA_GO_CREATE = 14,	       /* g, its stack, stack */
	PPA_GO_START = 16,	       /* g, seq */
	PPA_GO_DESTROY = 17,	       /* */
	PPA_GO_BLOCK = 20,	       /* reason, stack */
	PPA_GO_UNBLOCK = 21,	       /* g, seq, stack */
	PPA_GO_SYSCALL_BEGIN = 22,     /* p's seq, stack */
	PPA_GO_SYSCALL_END = 23,       /* */
	PPA_GO_STATUS = 25,	       /* g, m, status */
	PPA_GO_HEAP_ALLOC = 37,	       /* bytes */
	PPA_GO_HEAP_GOAL = 38,	       /* bytes */
	PPA_GO_LABEL = 39,	       /* string */
	PPA_GO_USER_TASK_BEGIN = 40,   /* task, parent, name, stack */
	PPA_GO_USER_TASK_END = 41,     /* task, stack */
	PPA_GO_USER_REGION_BEGIN = 42, /* task, name, stack */
	PPA_GO_USER_REGION_END = 43,   /* task, name, stack */
	PPA_GO_USER_LOG = 44,	       /* task, key, value, stack */
};

enum { PPA_GO_PROC_IDLE = 2, PPA_GO_RUNNING = 2 };

#define PPA_GO_NONE UINT64_MAX /* no M, no P */

/* A batch under construction. */
struct ppa_go_batch {
	uint8_t *bytes; /* owned */
	size_t len;
	uint64_t m, begin, last; /* times of its first and last event */
};

struct ppa_gowire {
	struct ppa_sink *out;
	const struct ppa_trace_input *in;
	enum ppa_gotrace_version version;
	const char *agent; /* instead of the name of PPA_TRACE_STACK_AGENT's frame, or NULL */
	struct ppa_strtab strings;
	struct ppa_go_batch events, stacks, samples;
	struct ppa_trace_table known; /* stack and root -> id */
	uint32_t nstacks;
	uint64_t nevents; /* written so far */
	int err;	  /* sticky, as the sink's and the strings' */
	struct ppa_trace_frame frames[PPA_TRACE_MAX_FRAMES];
};

/* Begin a file at the end of *out. 0 or -ENOMEM; ppa_gowire_free in any case. Context: server. */
int ppa_gowire_init(struct ppa_gowire *w, const struct ppa_trace_input *in, enum ppa_gotrace_version version,
		    struct ppa_sink *out) PPA_CTX_SERVER;

/* Events that follow happened on this thread. All of one thread's come after each other. Context: server. */
void ppa_gowire_thread(struct ppa_gowire *w, uint64_t m) PPA_CTX_SERVER;

/* Append an event. A time before that of the thread's last event is read as that. Context: server. */
void ppa_gowire_event(struct ppa_gowire *w, uint64_t at_ns, enum ppa_go_event id, const uint64_t *args,
		      size_t nargs) PPA_CTX_SERVER;
#define PPA_GO_EVENT(w, at_ns, id, ...)                                                                                \
	ppa_gowire_event(w, at_ns, id, (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

/* Append a CPU sample; unknown threads have m and p PPA_GO_NONE and g 0. Context: server. */
void ppa_gowire_sample(struct ppa_gowire *w, uint64_t at_ns, uint64_t m, uint64_t p, uint64_t g,
		       uint64_t stack) PPA_CTX_SERVER;

/* The id of a text, which must live as long as w; of a stack; of a stack of its last frame alone
 * (proto/trace/frames.h). 0 for none. Context: server. */
uint64_t ppa_gowire_string(struct ppa_gowire *w, const char *text) PPA_CTX_SERVER;
uint64_t ppa_gowire_stack(struct ppa_gowire *w, uint32_t stack, uint32_t root) PPA_CTX_SERVER;
uint64_t ppa_gowire_root(struct ppa_gowire *w, uint32_t stack, uint32_t root) PPA_CTX_SERVER;

/* Complete the file. 0, or the first error of all. Context: server. */
int ppa_gowire_finish(struct ppa_gowire *w) PPA_CTX_SERVER;
void ppa_gowire_free(struct ppa_gowire *w) PPA_CTX_SERVER;

#endif
