/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of a trace, brought into an order that contradicts nothing: when each began and ended within the window,
 * who created whom, and which thread a thread id meant at a time. */
#ifndef PPA_PROTO_TRACE_LIVES_H
#define PPA_PROTO_TRACE_LIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/snapshot/trace_input.h"

enum {
	PPA_TRACE_NOBODY = UINT32_MAX, /* instead of an index into lives */
	PPA_TRACE_SETTLE_NS = 64,      /* at the window's start, for saying who is there */
};

struct ppa_trace_life {
	const struct ppa_trace_thread *thread;
	uint64_t tid;	    /* unique among lives that overlap; the kernel's but in contradictory input */
	uint64_t birth;	    /* start of the window + PPA_TRACE_SETTLE_NS at least, if is_newborn; else its start */
	uint64_t death;	    /* > birth; UINT64_MAX: lives on */
	bool is_newborn;    /* began in the window */
	uint32_t creator;   /* index, alive at create_at; or PPA_TRACE_NOBODY */
	uint64_t create_at; /* < birth, if is_newborn */
};

struct ppa_trace_lives {
	const struct ppa_trace_input *in;
	struct ppa_trace_life *list; /* n of them, by birth */
	size_t n;
	uint32_t *by_tid; /* indices, by tid, then birth */
};

/* 0 or -ENOMEM, and nothing is left to free. Threads that did not live in the window, and those without a tid, have no
 * life. Context: server. */
int ppa_trace_lives_init(struct ppa_trace_lives *l, const struct ppa_trace_input *in) PPA_CTX_SERVER;
void ppa_trace_lives_free(struct ppa_trace_lives *l) PPA_CTX_SERVER;

/* The index of the thread that had this kernel id at this time, or the last one that had it before; PPA_TRACE_NOBODY if
 * there was none. Context: server. */
uint32_t ppa_trace_lives_at(const struct ppa_trace_lives *l, uint32_t tid, uint64_t at_ns) PPA_CTX_SERVER;

#endif
