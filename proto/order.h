/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorting for encoders: by a key, largest first. qsort may take memory from the target's heap. */
#ifndef PPA_PROTO_ORDER_H
#define PPA_PROTO_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_order {
	int64_t key;
	uint32_t index; /* of what has this key */
};

/* Largest key first, equal ones as they were. room holds n, too; the result is in one of the two, which is returned.
 * Context: any; pure. */
struct ppa_order *ppa_order_sort(struct ppa_order *list, struct ppa_order *room, size_t n) PPA_CTX_ANY;

#endif
