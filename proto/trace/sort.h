/* SPDX-License-Identifier: Apache-2.0
 *
 * A stable sort of pointers: libc's qsort may call malloc, and most of what is sorted here is sorted already. */
#ifndef PPA_PROTO_TRACE_SORT_H
#define PPA_PROTO_TRACE_SORT_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

/* The two keys to sort by. */
struct ppa_trace_key {
	uint64_t first, second;
};

/* Sort n pointers by ascending key; equal keys keep their order. 0 or -ENOMEM (n more pointers, unless they are in
 * order). Context: server. */
int ppa_trace_sort(const void **items, size_t n, struct ppa_trace_key (*key_of)(const void *item)) PPA_CTX_SERVER;

#endif
