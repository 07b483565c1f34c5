/* SPDX-License-Identifier: Apache-2.0
 *
 * Who waits for which lock, and how much of their waiting was already charged to a holder: pure bookkeeping over lock
 * addresses and times, without clock, stacks or sampling.
 *
 * The waiting of each waiter is cut at every release of its lock into pieces that each belong to one releaser, so that
 * what holders are charged is what waiters waited, to the unit:
 *
 *     waiter     |----------------------------------|          from enter to leave
 *     releases           r1          r2          |             pieces up to r1, r1..r2: charged by release
 *     the rest                        |-------------|          the wake-up: charged by leave, to r2's holder
 *
 * A lock without waiters has no entry and costs one look at ppa_contended_watched. An entry is a count of waiters, the
 * sum of the times up to which each is charged, and the last release: three numbers in two words that change by one
 * compare-and-swap. Nobody waits for anybody here, and a signal handler may come back at any point.
 *
 * Who releases learns its own stack only after the lock is free again (the critical section should not grow), so a
 * waiter may be faster: it then leaves what it owes in the entry, and the releaser collects it. */
#ifndef PPA_LOCK_CONTENDED_H
#define PPA_LOCK_CONTENDED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"

enum { PPA_WATCH_BITS = 12, PPA_CONTENDED_HOLDER_BITS = 48 };

/* How many registered waiters the locks of a hash have. */
extern _Atomic uint16_t ppa_contended_watched[1 << PPA_WATCH_BITS] __attribute__((visibility("hidden")));

static inline uint32_t ppa_contended_hash(const void *lock)
{
	return (uint32_t)(((uint64_t)(uintptr_t)lock >> 3) * 0x9e3779b97f4a7c15ULL >> (64 - PPA_WATCH_BITS));
}

/* Does anybody wait for this lock, or for one that looks like it? Context: signal. */
static inline bool ppa_contended_is_watched(const void *lock)
{
	return atomic_load_explicit(&ppa_contended_watched[ppa_contended_hash(lock)], memory_order_relaxed) != 0;
}

/* Times are in the caller's unit, greater than 0, below 2^52, and hardly ever go back. */
typedef uint64_t ppa_stamp;

/* Whom to charge: opaque, 48 bits; 0 charges nobody. */
typedef uint64_t ppa_holder;

struct ppa_contended;

/* One waiter's registration. */
struct ppa_stay {
	struct ppa_contended *at; /* NULL: not registered */
	const void *lock;
	ppa_stamp begin;
	ppa_stamp release;   /* the entry's last one at begin */
	uint32_t generation; /* of the process, see reset */
};

/* How much of whose waiting is whose. */
struct ppa_debt {
	enum { PPA_DEBT_NONE, PPA_DEBT_HOLDER, PPA_DEBT_UNKNOWN } whose; /* UNKNOWN: no release was seen */
	ppa_holder holder;
	uint16_t scale; /* as given to settle */
	uint64_t waiters, time;
	ppa_stamp end; /* of the wait, for leave: not before the last release that is charged for it */
};

/* Begin to wait. Without room at is NULL and the waiter is on its own: leave will then say UNKNOWN. Context: malloc. */
void ppa_contended_enter(const void *lock, ppa_stamp now, struct ppa_stay *s) PPA_CTX_MALLOC;

/* Done waiting, with the lock or without: what is left to be charged. Without it, nobody knows who has it. A second
 * leave of the same stay is the caller's mistake. Context: malloc. */
void ppa_contended_leave(const struct ppa_stay *s, ppa_stamp now, bool got, struct ppa_debt *out) PPA_CTX_MALLOC;

struct ppa_release {
	struct ppa_contended *at;
	ppa_stamp stamp;
	uint64_t time; /* of all waiters together, since the release before */
};

/* The lock is about to be released. False: nobody waits. Otherwise settle must follow. Context: malloc. */
bool ppa_contended_release(const void *lock, ppa_stamp now, struct ppa_release *r) PPA_CTX_MALLOC;

/* Who it was; *out is what waiters that were faster left for it. Context: malloc. */
void ppa_contended_settle(const struct ppa_release *r, ppa_holder holder, uint16_t scale,
			  struct ppa_debt *out) PPA_CTX_MALLOC;

/* Nobody waits here any more: stays begun before are nothing. Context: child. */
void ppa_contended_reset(void) PPA_CTX_CHILD;

#endif
