/* SPDX-License-Identifier: Apache-2.0
 *
 * Which stack added a value to a custom profile: a table from value to site, without a lock, so that a thread may be
 * interrupted or killed anywhere in it. Memory is the budget's, in segments that double, and is never given back; all
 * such tables together take a quarter of it at most. */
#ifndef PPA_API_VALUES_H
#define PPA_API_VALUES_H

#include <stdatomic.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_site;
struct ppa_values_segment;

enum { PPA_VALUES_SEGMENTS = 20, PPA_VALUES_SHARE = 4 };

/* All zero is empty. */
struct ppa_values {
	_Atomic(struct ppa_values_segment *) segments[PPA_VALUES_SEGMENTS]; /* each twice the one before */
};

/* Remember that site added value, which is not 0. 0; -EEXIST if it is there (two threads that add the same value at the
 * same time may both succeed), -ENOMEM. Context: any, handlers of the target included. */
int ppa_values_add(struct ppa_values *v, uintptr_t value, struct ppa_site *site) PPA_CTX_ANY;

/* Take value out: the site that added it, NULL if it is not there. Context: as above. */
struct ppa_site *ppa_values_remove(struct ppa_values *v, uintptr_t value) PPA_CTX_ANY;

#endif
