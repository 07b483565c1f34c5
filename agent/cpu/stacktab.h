/* SPDX-License-Identifier: Apache-2.0
 *
 * The stack table of one session: equal stacks are kept once and counted. It is an epoch of its own, on the server's
 * side of the ring: filled by the drainer alone, read by the snapshot, freed as a whole with the session, so that a
 * profile of two hours needs the memory of its distinct stacks and nothing is left behind.
 * Full (PPA_STACKTAB_MAX_BYTES, or no memory): what is known goes on counting, new stacks fold into [other stacks]. */
#ifndef PPA_CPU_STACKTAB_H
#define PPA_CPU_STACKTAB_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

enum { PPA_STACKTAB_MAX_BYTES = 64 << 20 };

/* What makes two samples the same. */
struct ppa_stack_key {
	const uintptr_t *pcs; /* leaf first */
	uint32_t npcs;
	uint32_t label;	 /* index of the thread label */
	uint32_t tid;	 /* 0 unless the session labels samples with it */
	uint32_t tags;	 /* profile/tags.h */
	uint64_t layout; /* of the module table: one address may mean two things in two layouts */
};

struct ppa_stack {
	struct ppa_stack *next; /* in its bucket */
	uint64_t hash;
	uint64_t layout;
	uint32_t label, tid, tags;
	uint32_t npcs;
	int64_t count; /* samples */
	uintptr_t pcs[];
};

struct ppa_stack_block;

struct ppa_stacktab {
	struct ppa_stack **buckets;
	size_t nbuckets; /* a power of two, 0 before the first stack */
	size_t nstacks;
	size_t bytes;
	struct ppa_stack *fold;		/* [other stacks] */
	struct ppa_stack_block *blocks; /* memory of the stacks */
};

/* Add n samples. Context: server. */
void ppa_stacktab_add(struct ppa_stacktab *t, const struct ppa_stack_key *k, int64_t n) PPA_CTX_SERVER;

/* The stack of this key, added if it is new; [other stacks] where there is no room; NULL if there is not even that. To
 * be counted on by the caller. Context: server. */
struct ppa_stack *ppa_stacktab_at(struct ppa_stacktab *t, const struct ppa_stack_key *k) PPA_CTX_SERVER;

/* Visit every stack that has samples, in no particular order. Context: server. */
void ppa_stacktab_each(const struct ppa_stacktab *t, void (*visit)(const struct ppa_stack *s, void *arg),
		       void *arg) PPA_CTX_SERVER;

void ppa_stacktab_free(struct ppa_stacktab *t) PPA_CTX_SERVER;

#endif
