/* SPDX-License-Identifier: Apache-2.0
 *
 * A bracket around dlsym. What libc allocates in it, a message for each name it does not find, comes from the agent's
 * heap: the target's stays as it is, and no allocator is entered that might take a lock whose hook is just being
 * resolved. errno is kept. Brackets may nest. */
#ifndef PPA_BASE_RESOLVE_H
#define PPA_BASE_RESOLVE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/base/self.h"

struct ppa_resolving {
	uint64_t heap_left;
	bool was;
	int error;
};

/* Context: any. */
static inline struct ppa_resolving ppa_resolve_begin(void)
{
	struct ppa_resolving r = {ppa_self.heap_left, ppa_self.is_resolving, errno};

	ppa_self.is_resolving = true;
	ppa_self.heap_left = 0; /* so that hooks of malloc ask: see hook/malloc.c */
	return r;
}

static inline void ppa_resolve_end(const struct ppa_resolving *r)
{
	ppa_self.heap_left = r->heap_left;
	ppa_self.is_resolving = r->was;
	errno = r->error;
}

#endif
