/* SPDX-License-Identifier: Apache-2.0
 *
 * Labels that the program gives its own threads, as Go's pprof.Labels: sets of key and value, each kept once and for
 * ever, so that a thread carries a number and a sample copies it. (In the agent "label" is what a profile's sample has,
 * whoever put it there; "tags" are those that the program chose.)
 *
 * Threads add sets without a lock and anybody may read them. Sets are never freed: a program that puts request numbers
 * into a label runs into PPA_TAGS_SETS. From then on a new value of a key becomes "[other labels]", so that the keys
 * with few values go on telling what they told; when that finds no room either, the set is PPA_TAGS_LOST. */
#ifndef PPA_PROFILE_TAGS_H
#define PPA_PROFILE_TAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"

enum {
	PPA_TAGS_NONE = 0, /* the empty set: every thread's first */
	PPA_TAGS_LOST = 1, /* one label named "labels": the program's own found no room */
	PPA_TAGS_SETS = 4096,
	PPA_TAGS_PAIRS = 16,	   /* in a set */
	PPA_TAGS_SET_BYTES = 1024, /* of text in a set, with a NUL behind each key and value */
	PPA_TAGS_KEY_MAX = 63,
	PPA_TAGS_VALUE_MAX = 255, /* longer ones are cut at a character */
	PPA_TAGS_MEMORY = 1 << 20 /* of PPROF_MAX_MEMORY, or an eighth of it if that is less */
};

struct ppa_tag {
	const char *key, *value; /* live as long as the process */
};

/* *out: the set that base becomes when key has value; NULL takes key out of it. 0; -EINVAL for an empty or long key and
 * for those that the agent's own labels have (thread, tid, bytes, age_seconds, backing, pprof::…); -ENOSPC for a set of
 * more pairs or bytes than above, and *out is untouched. A set that finds no room in memory is no error. Context: any,
 * handlers of the target included. */
int ppa_tags_with(uint32_t base, const char *key, const char *value, uint32_t *out) PPA_CTX_ANY;

/* Is this the number of a set? Context: any. */
bool ppa_tags_exists(uint32_t set) PPA_CTX_ANY;

/* The pair at index i, by key; false after the last. Context: any. */
bool ppa_tags_at(uint32_t set, uint32_t i, struct ppa_tag *out) PPA_CTX_ANY;

/* How often a value became "[other labels]", or a set PPA_TAGS_LOST. Context: any. */
uint64_t ppa_tags_folded(void) PPA_CTX_ANY;

#endif
