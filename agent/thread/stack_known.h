/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks that hooks met before. A thread that waits in a loop waits with the same stack each time, and to see that it
 * is the same takes a comparison of the words that the last walk depended on (struct ppa_unwind_trail), where they stand
 * on the stack now: no walk, no search for the site. What has changed, be it one word, is walked again.
 *
 * One table for the process, found by the hook's frame, its caller and the function that it stands for. Entries are
 * written under a sequence number that readers check, so nobody waits; a writer who is left by a jump, or copied by a fork
 * half-way, leaves its entry unused for ever. Full: the entry that was there is replaced. */
#ifndef PPA_THREAD_STACK_KNOWN_H
#define PPA_THREAD_STACK_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/thread/stack_here.h"

struct ppa_unwind_trail;

struct ppa_stack_key {
	uintptr_t frame; /* of the function that asks, on the thread's own stack */
	uintptr_t room;	 /* bytes from there to the end of that stack */
	uintptr_t caller, function;
};

/* If the stack is one that is known in all these tables, set their sites. Context: malloc. */
bool ppa_stack_known_find(const struct ppa_stack_key *key, struct ppa_stack_want *wants, size_t n) PPA_CTX_MALLOC;

/* Remember what a walk found; trail's floor is key's frame. may_go: struct ppa_unwind_buf's. Context: malloc. */
void ppa_stack_known_keep(const struct ppa_stack_key *key, const struct ppa_unwind_trail *trail, bool may_go,
			  const struct ppa_stack_want *wants, size_t n) PPA_CTX_MALLOC;

/* Map the table; without it nothing is remembered. Context: init. */
void ppa_stack_known_init(void) PPA_CTX_INIT;

#endif
