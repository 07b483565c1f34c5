/* SPDX-License-Identifier: Apache-2.0
 *
 * A number for each of many keys: what the writers know again by. Nothing is ever removed. */
#ifndef PPA_PROTO_TRACE_TABLE_H
#define PPA_PROTO_TRACE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_trace_table_entry {
	uint64_t key;
	uint32_t value; /* 0: the place is free */
};

/* All zero is an empty table. */
struct ppa_trace_table {
	struct ppa_trace_table_entry *entries; /* owned; open addressing */
	size_t n, cap;
};

/* Where the key's value is, until the next call. 0 if the key is new: then the caller must put in another one. NULL on
 * no memory. Context: server. */
uint32_t *ppa_trace_table_at(struct ppa_trace_table *t, uint64_t key) PPA_CTX_SERVER;
/* The key's value, 0 if there is none. Context: server. */
uint32_t ppa_trace_table_find(const struct ppa_trace_table *t, uint64_t key) PPA_CTX_SERVER;
void ppa_trace_table_free(struct ppa_trace_table *t) PPA_CTX_SERVER;

#endif
