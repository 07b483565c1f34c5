/* SPDX-License-Identifier: Apache-2.0
 *
 * The few functions and stacks that matter most, for a page that is read rather than drawn. */
#ifndef PPA_PROTO_HOTTEST_H
#define PPA_PROTO_HOTTEST_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_stacks;

struct ppa_hot {
	uint32_t index; /* of the frame in st->frames, or of a sample that has the stack */
	int64_t self;	/* where it is the leaf; a stack's value */
	int64_t total;	/* where it is anywhere in the stack, recursion counted once; a stack's value */
};

/* The up to cap functions of the largest self value (a delta's may be negative: the largest amount), largest first, and
 * those with a total alone after them. Their number, or -ENOMEM. Context: server. */
long ppa_hottest_functions(const struct ppa_stacks *st, uint32_t type, struct ppa_hot *out, size_t cap) PPA_CTX_SERVER;

/* The same for whole stacks. Context: server. */
long ppa_hottest_stacks(const struct ppa_stacks *st, uint32_t type, struct ppa_hot *out, size_t cap) PPA_CTX_SERVER;

#endif
