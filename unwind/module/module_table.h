/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the two halves of the module table: modules.c, which handlers run through, and module_table.c, where server
 * threads build tables, publish and free them. Nobody else includes this. */
#ifndef PPA_UNWIND_MODULE_MODULE_TABLE_H
#define PPA_UNWIND_MODULE_MODULE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/module/module_scan.h"
#include "unwind/module/modules.h"

/* A table as handlers see it; immutable while it is the current one. */
struct ppa_live_table {
	const uintptr_t *starts; /* starts[i] begins ranges[i]: what a search touches lies close together */
	const struct ppa_module_range *ranges;
	size_t nranges;
	uint64_t layout;
	uint64_t epoch_stays;
};

/* Epochs are numbered together with layouts, which begin above it. */
enum { PPA_EPOCH_STAYS = 1 };

/* Make t the current table; the one before, or NULL. Context: server. */
const struct ppa_live_table *ppa_live_swap(const struct ppa_live_table *t) PPA_CTX_SERVER;

/* Of a set of stripes of walks, those that are busy now. Once a stripe was idle after a swap, no walk in it uses what
 * was swapped out. Context: any. */
uint64_t ppa_live_busy(uint64_t stripes) PPA_CTX_ANY;

/* What a refresh is about to look at. Context: server. */
struct ppa_live_request {
	uint64_t unload_seq;
	bool unloading;	 /* a dlclose is running: the picture will not be final */
	bool marked;	 /* somebody saw something unknown since the last request */
	bool is_settled; /* no dlclose since the last settled table */
};
struct ppa_live_request ppa_live_take_request(void) PPA_CTX_SERVER;

/* The current table is true as of the request. Context: server. */
void ppa_live_settle(const struct ppa_live_request *r) PPA_CTX_SERVER;

/* Forget walks and dlcloses of other threads. Context: child. */
void ppa_live_reset(void) PPA_CTX_CHILD;

#endif
