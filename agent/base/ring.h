/* SPDX-License-Identifier: Apache-2.0
 *
 * A lossy event ring: many handlers write, one drainer reads, nobody waits.
 *
 * Records of varying length in 8-byte words. A writer reserves by moving head, fills, and commits by storing the
 * record's length into its first word; the drainer stops at a first word that is still zero, and zeroes what it has
 * read before it moves tail, so that a word is zero until it is committed. A writer that is preempted between the two
 * steps holds back what comes behind it in its ring, never another ring, and loses nothing.
 * Full: the record is refused and the caller counts it. */
#ifndef PPA_BASE_RING_H
#define PPA_BASE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_ring {
	/* immutable after init */
	_Atomic uint64_t *words;
	uint64_t cap; /* words, a power of two */
	/* moved by writers */
	_Alignas(64) _Atomic uint64_t head;
	/* moved by the drainer */
	_Alignas(64) _Atomic uint64_t tail;
};

/* A record in two parts, written one behind the other. */
struct ppa_ring_part {
	const void *data;
	size_t words;
};

/* bytes: a power of two, at least 64 KiB. 0 or -ENOMEM. Context: server. */
int ppa_ring_init(struct ppa_ring *r, size_t bytes) PPA_CTX_SERVER;

/* Append one record; false if it does not fit. Context: signal. */
bool ppa_ring_push(struct ppa_ring *r, const struct ppa_ring_part *a, const struct ppa_ring_part *b) PPA_CTX_SIGNAL;

/* Copy the oldest record into out (cap words) and remove it; its length in words, 0 if there is none. A record longer
 * than cap is removed and cut. Context: server, one drainer at a time. */
size_t ppa_ring_pop(struct ppa_ring *r, uint64_t *out, size_t cap) PPA_CTX_SERVER;

/* Is more than half of it unread? Context: server. */
bool ppa_ring_is_filling(const struct ppa_ring *r) PPA_CTX_SERVER;

/* Empty it and give its pages back; no writer may be active. Context: server, child. */
void ppa_ring_reset(struct ppa_ring *r) PPA_CTX_SERVER;

#endif
