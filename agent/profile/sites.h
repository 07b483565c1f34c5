/* SPDX-License-Identifier: Apache-2.0
 *
 * Sites: the stacks that events were charged to since the process began, each kept once and for ever, with four
 * counters that only grow. One table for each kind of cumulative profile (heap, mmap, locks, thread creation).
 *
 * Hooks find or add a site and count on it without a lock; a snapshot reads while they do. A site is never freed and
 * never moves, so its address is its identity. Memory comes from the budget: when that is used up, what is known goes
 * on counting and new stacks are charged to the table's one site named [other stacks].
 *
 * A stack through a library that can be unloaded is told apart by the library's serials (see ppa_site.origin): the same
 * addresses mean something else after another library was loaded there. */
#ifndef PPA_PROFILE_SITES_H
#define PPA_PROFILE_SITES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

enum { PPA_SITE_COUNTERS = 4, PPA_SITES_BUCKETS = 1 << 13 };

struct ppa_site {
	/* constant once published */
	struct ppa_site *next; /* in its bucket */
	uint64_t hash;
	uint64_t origin; /* hash of the serials of all unloadable modules on the stack; 0: none */
	uint64_t label;	 /* what else tells two sites with one stack apart; the kind's own meaning (heap: size class) */
	uint32_t npcs;
	uint32_t born; /* time by ppa_modules_unloads when first seen: names are looked up in a table of that time */
	/* by the kind's own meaning; relaxed adds */
	_Atomic uint64_t counters[PPA_SITE_COUNTERS];
	uintptr_t pcs[]; /* leaf first, by the address rule of profile.proto */
};

typedef _Atomic(struct ppa_site *) ppa_sites_bucket;

/* Buckets lie elsewhere: most tables stay empty, and then none of their pages is touched. */
struct ppa_sites {
	ppa_sites_bucket *buckets;	  /* PPA_SITES_BUCKETS; not [other stacks] */
	_Atomic(struct ppa_site *) other; /* [other stacks] */
	_Atomic uint64_t count;		  /* sites in the table, with [other stacks] */
	_Atomic uint64_t folded;	  /* events charged to other */
	uint64_t limit;			  /* more than so many sites are not made; 0: as the budget allows */
};

/* Defines a table of at most so many sites (ppa_sites.limit). */
#define PPA_SITES(name, most)                                                                                          \
	static ppa_sites_bucket name##_buckets[PPA_SITES_BUCKETS];                                                     \
	struct ppa_sites name = {.buckets = name##_buckets, .limit = most}

/* The site of this stack, added if it is new. Never NULL once ppa_sites_init succeeded. Context: malloc. */
struct ppa_site *ppa_sites_find(struct ppa_sites *t, const uintptr_t *pcs, uint32_t npcs, uint64_t origin,
				uint64_t label) PPA_CTX_MALLOC;

/* Make [other stacks] while there is memory for it. 0 or -ENOMEM. Context: init. */
int ppa_sites_init(struct ppa_sites *t) PPA_CTX_INIT;

/* Visit every site, [other stacks] included, in no particular order; sites added meanwhile may or may not be seen.
 * Context: server. */
void ppa_sites_each(struct ppa_sites *t, void (*visit)(const struct ppa_site *s, void *arg), void *arg) PPA_CTX_SERVER;

static inline void ppa_site_add(struct ppa_site *s, int counter, uint64_t n)
{
	atomic_fetch_add_explicit(&s->counters[counter], n, memory_order_relaxed);
}

#endif
