/* SPDX-License-Identifier: Apache-2.0
 *
 * The stack of the calling thread, for hooks: walked into a buffer of the agent's, because the target's stack may be
 * small, and without the agent's own frames. */
#ifndef PPA_THREAD_STACK_HERE_H
#define PPA_THREAD_STACK_HERE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_site;
struct ppa_sites;

struct ppa_stack_here {
	const uintptr_t *pcs; /* leaf first: the first is in whoever called the interposed function */
	uint32_t npcs;	      /* at least 1 */
	uint64_t origin;      /* struct ppa_site's */
	void *buffer;	      /* for drop */
};

/* Walk. caller: the return address of the interposed function, for when nothing better can be had. When every buffer is
 * busy the stack is the marker [lost samples]. To be given to ppa_stack_drop. Context: malloc. */
void ppa_stack_take(uintptr_t caller, struct ppa_stack_here *out) PPA_CTX_MALLOC;
void ppa_stack_drop(struct ppa_stack_here *s) PPA_CTX_MALLOC;

/* Put a frame below the leaf, if there is room (there is for one or two in place of the agent's own): code of a library
 * that stays. Context: malloc. */
void ppa_stack_add_leaf(struct ppa_stack_here *s, uintptr_t pc) PPA_CTX_MALLOC;

/* A table in which the stack of here is wanted. */
struct ppa_stack_want {
	struct ppa_sites *table;
	uintptr_t above; /* one more frame, below the leaf; 0: none */
	uint64_t label;	 /* struct ppa_site's */
	bool is_sampled; /* asked for by few of many events: not remembered before its site counts for the second time */
	struct ppa_site *site;
};

/* Find the site of the caller's stack in n tables (3 at most), with function (0: none) as the leaf: for what a thread
 * does again and again, because a stack that was met before at the same place is not walked (stack_known.h). caller: as
 * above. Context: malloc. */
void ppa_stack_find(struct ppa_stack_want *wants, size_t n, uintptr_t function, uintptr_t caller) PPA_CTX_MALLOC;

/* Map the buffers, once. 0 or -ENOMEM. Context: init. */
int ppa_stack_init(void) PPA_CTX_INIT;

/* Other threads' walks do not exist in the child. Context: child. */
void ppa_stack_reset(void) PPA_CTX_CHILD;

#endif
