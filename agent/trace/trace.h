/* SPDX-License-Identifier: Apache-2.0
 *
 * The hot side of the execution trace: what hooks say while one is recorded. Each thread writes its own records
 * (buffer.h), once, when a call returns; a server thread reads them (recorder.h) and makes sense of them
 * (snapshot/build_trace.c): who woke whom is found there, by object and time.
 *
 * While nothing is recorded, a hook reads one flag. Calls that took less than PPA_TRACE_INSTANT_NS waited for nothing and
 * leave no record; of those under PPA_TRACE_SHORT_NS a thread may record PPA_TRACE_SHORT_MAX in each
 * PPA_TRACE_SHORT_PERIOD_NS. What is beyond is counted, as is what finds no memory. */
#ifndef PPA_TRACE_TRACE_H
#define PPA_TRACE_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/profile/sites.h"
#include "agent/thread/threads.h"

enum {
	PPA_TRACE_INSTANT_NS = 1000,
	PPA_TRACE_SHORT_NS = 20000,
	PPA_TRACE_SHORT_MAX = 500,
	PPA_TRACE_SHORT_PERIOD_NS = 50000000,
};

/* Is anything recorded? Context: signal. */
extern _Atomic bool ppa_trace_on __attribute__((visibility("hidden")));

static inline bool ppa_trace_is_on(void)
{
	return atomic_load_explicit(&ppa_trace_on, memory_order_relaxed);
}

/* Stacks of records. */
extern struct ppa_sites ppa_trace_sites __attribute__((visibility("hidden")));

/* What else than a descriptor a call may be about. */
enum {
	PPA_TRACE_FD_NETWORK = -1, /* it waits for somebody else, whatever the descriptor is */
	PPA_TRACE_FD_FILE = -2,
	PPA_TRACE_FD_NONE = -3,
};

/* A wait that is over, or another call that may take long. */
struct ppa_trace_wait {
	enum ppa_parked_kind kind;
	int fd;		    /* PARKED_IO: of the call, or one of the above */
	const void *object; /* what it waited for; NULL if nothing in memory */
	uint64_t begin_ns, end_ns;
	bool is_vain; /* nobody woke it: time was up, or a signal came */
};

/* Is it worth a record? Counts it if there are too many of its like. Context: malloc. */
bool ppa_trace_wants(const struct ppa_trace_wait *w) PPA_CTX_MALLOC;

/* Record it; site: where it waited, of any table, or NULL. Keeps errno. Context: malloc. */
void ppa_trace_wait(const struct ppa_trace_wait *w, const struct ppa_site *site) PPA_CTX_MALLOC;

/* ---- who wakes ---- */

enum { PPA_TRACE_WATCH_BITS = 12 };

/* How many waiters the objects of a hash have. */
extern _Atomic uint16_t ppa_trace_watched[1 << PPA_TRACE_WATCH_BITS] __attribute__((visibility("hidden")));

static inline uint32_t ppa_trace_hash(const void *object)
{
	return (uint32_t)(((uint64_t)(uintptr_t)object >> 2) * 0x9e3779b97f4a7c15ULL >> (64 - PPA_TRACE_WATCH_BITS));
}

/* Does anybody wait for this object, or for one that looks like it, while we record? Context: signal. */
static inline bool ppa_trace_is_watched(const void *object)
{
	return ppa_trace_is_on() &&
	       atomic_load_explicit(&ppa_trace_watched[ppa_trace_hash(object)], memory_order_relaxed) != 0;
}

/* A wait for object begins; what to give to unwatch at its end. Context: malloc. */
uint32_t ppa_trace_watch(const void *object) PPA_CTX_MALLOC;
void ppa_trace_unwatch(const void *object, uint32_t watching) PPA_CTX_MALLOC;

/* The calling thread lets somebody go on who waits for object, at this time: one waiter, or is_all. Context: malloc. */
void ppa_trace_wake_at(const void *object, uint64_t at_ns, bool is_all, const struct ppa_site *site) PPA_CTX_MALLOC;

/* The same for a function that wakes: its time, asked for just before the genuine function (0: none is to be recorded),
 * and its record with the stack of the caller afterwards, so that nobody sleeps a moment longer for our sake. function is
 * what it called, caller the hook's return address. Both keep errno. Context: malloc. */
uint64_t ppa_trace_waking(void) PPA_CTX_MALLOC;
void ppa_trace_woke(const void *object, uint64_t at_ns, bool is_all, uintptr_t function,
		    uintptr_t caller) PPA_CTX_MALLOC;

/* ---- threads ---- */

/* The calling thread created the thread of this key (ppa_threads_key), at this time. Context: any. */
void ppa_trace_created(uint64_t key, uint64_t at_ns, const struct ppa_site *site) PPA_CTX_ANY;

/* First and last word of a thread, by itself. Context: any. */
void ppa_trace_thread_begins(void) PPA_CTX_ANY;
void ppa_trace_thread_ends(void) PPA_CTX_ANY;

/* ---- what the program says of itself ---- */

enum ppa_trace_note {
	PPA_NOTE_TASK_BEGIN,   /* task (not 0), parent (0: none), text: its name */
	PPA_NOTE_TASK_END,     /* task */
	PPA_NOTE_REGION_BEGIN, /* task (0: none), text: its name */
	PPA_NOTE_REGION_END,   /* the same */
	PPA_NOTE_LOG,	       /* task (0: none), text: category, value: message */
	PPA_NOTE_LABEL,	       /* text: key, value: its value, "" if it is removed */
	PPA_NOTE_NAME,	       /* text: the thread's new name */
	PPA_NOTE_KINDS
};

/* Text and value (either may be NULL, which is "") are copied, up to PPA_TRACE_TEXT_MAX bytes each. caller: return
 * address of the function that the program called. Does nothing unless ppa_trace_is_on. Keeps errno. Context: any. */
enum { PPA_TRACE_TEXT_MAX = 900 };
void ppa_trace_note(enum ppa_trace_note what, uint64_t task, uint64_t parent, const char *text, const char *value,
		    uintptr_t caller) PPA_CTX_ANY;

/* ---- for recorder.c ---- */

/* Count the waiters of now: nobody has watched so far. Context: server. */
void ppa_trace_watch_parked(void) PPA_CTX_SERVER;

#endif
