/* SPDX-License-Identifier: Apache-2.0
 *
 * The one door from the server into the agent: start, wait, take what was measured. */
#ifndef PPA_SNAPSHOT_COLLECT_H
#define PPA_SNAPSHOT_COLLECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_snapshot;

enum { PPA_CPU_HZ_MIN = 1, PPA_CPU_HZ_MAX = 1000, PPA_CPU_SESSIONS_MAX = 16 };

struct ppa_cpu_request {
	int hz;		     /* PPA_CPU_HZ_MIN..PPA_CPU_HZ_MAX; 0: the configured default */
	int64_t duration_ns; /* > 0 */
	bool label_tid;	     /* numeric label "tid" on every sample */
	/* Asked at least every 100 ms while collecting; true ends the profile with -ECANCELED. NULL: never. */
	bool (*is_cancelled)(void *arg);
	void *arg;
};

/* Take a CPU profile of the whole process, blocking for its duration. On 0, *out is the caller's, to be given to
 * ppa_snapshot_free. Fails at once with -EBUSY when PPA_CPU_SESSIONS_MAX run already; with -ECANCELED, -ENOMEM, or
 * -EAGAIN/-EPERM when not one timer could be created. Context: server. */
int ppa_collect_cpu(const struct ppa_cpu_request *req, struct ppa_snapshot **out) PPA_CTX_SERVER;

/* The same for time that passes, whether threads run or not; hz is how often a second each thread is looked at, if that is not
 * too much. Fails as ppa_collect_cpu does. Context: server. */
int ppa_collect_wall(const struct ppa_cpu_request *req, struct ppa_snapshot **out) PPA_CTX_SERVER;

struct ppa_kind;

struct ppa_named_request {
	const struct ppa_kind *kind; /* kinds.h */
	int64_t delta_ns;	     /* what changed in this time from now on; 0: what there is now */
	bool is_since_last;	     /* instead: what was added since the last such request; heap, block and mutex */
	bool wants_text;	     /* for debug=1 */
	bool may_pause;	 /* threads of the target may have to wait a moment, for more of the text's figures */
	bool wants_each; /* for debug=2, where the kind has it */
	/* With wants_each: is given those that are ready while the others are still awaited, at most once. They are not in the
	 * snapshot then; part is gone when it returns. */
	void (*first_part)(void *arg, const struct ppa_snapshot *part);
	/* As above, while a delta waits. */
	bool (*is_cancelled)(void *arg);
	void *arg; /* of both */
};

/* Take a profile of a named kind; blocks for delta_ns. On 0, *out is the caller's, to be given to ppa_snapshot_free, and
 * soon: one such snapshot exists at a time, and others wait for it. -ECANCELED, or -ENOMEM. Context: server. */
int ppa_collect_named(const struct ppa_named_request *req, struct ppa_snapshot **out) PPA_CTX_SERVER;

/* Requests that hold pointers into the symbol tables, +1 or -1: ppa_collect_trim leaves the tables alone then.
 * Context: server. */
void ppa_collect_use_symbols(int users) PPA_CTX_SERVER;

/* The rate of a request that names none. Context: any. */
void ppa_collect_set_default_hz(int hz) PPA_CTX_ANY;

/* Whether profiles have files, lines and inlined calls; they do unless told otherwise. Context: any. */
void ppa_collect_set_lines(bool on) PPA_CTX_ANY;
int ppa_collect_default_hz(void) PPA_CTX_ANY;

/* Context: server. NULL is allowed. */
void ppa_snapshot_free(struct ppa_snapshot *s) PPA_CTX_SERVER;

/* The linker symbol (mangled) of the function that contains address, as /debug/pprof/symbol answers it; address is
 * used as given (callers have subtracted 1 already). Returns the length written, without the final NUL, or -ENOENT.
 * A long name is cut to cap - 1. Context: server. */
int ppa_collect_symbol(uint64_t address, char *buf, size_t cap) PPA_CTX_SERVER;

/* Nobody has asked for anything for a while: drop the symbol tables and give free memory back. Does nothing while a
 * request is being answered. Context: server. */
void ppa_collect_trim(void) PPA_CTX_SERVER;

/* Context: child. */
void ppa_collect_reset(void) PPA_CTX_CHILD;

#endif
