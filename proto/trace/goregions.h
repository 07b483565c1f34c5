/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs say of themselves, as far as Go's format is strict about it: a region must end as the innermost one of
 * its thread, and a task may begin but once. */
#ifndef PPA_PROTO_TRACE_GOREGIONS_H
#define PPA_PROTO_TRACE_GOREGIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "proto/trace/table.h"

enum { PPA_GO_MAX_REGIONS = 4096 /* of a thread, open at the same time */ };

struct ppa_go_region {
	uint64_t task;
	uint64_t name; /* string id */
};

/* Regions of the thread in hand that are open, and tasks of all that began. */
struct ppa_go_said {
	struct ppa_go_region *regions; /* owned */
	size_t nregions, regions_cap;
	struct ppa_trace_table tasks; /* task -> 1 */
};

/* A region begins: false if it must not be written, for want of memory or because too many are open. Context: server. */
bool ppa_go_region_begin(struct ppa_go_said *s, struct ppa_go_region r) PPA_CTX_SERVER;

/* A region ends: how many regions must be ended now, from the innermost one on, this one as the last; 0: none. Ended one by one
 * with ppa_go_region_pop. Context: server. */
size_t ppa_go_region_end(const struct ppa_go_said *s, struct ppa_go_region r) PPA_CTX_SERVER;
struct ppa_go_region ppa_go_region_pop(struct ppa_go_said *s) PPA_CTX_SERVER;

/* A task begins: false if it did before, or must not be written for want of memory. Context: server. */
bool ppa_go_task_begin(struct ppa_go_said *s, uint64_t task) PPA_CTX_SERVER;

void ppa_go_said_free(struct ppa_go_said *s) PPA_CTX_SERVER;

#endif
