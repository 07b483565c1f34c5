/* SPDX-License-Identifier: Apache-2.0
 *
 * What was added since the last request of this sort, by whomever: for scrapers that want it subtracted here, as
 * Grafana's godeltaprof does it in Go programs. One memory of the values for each kind, for the process; it is made by
 * the first such request, on our private heap, and stays. */
#ifndef PPA_SNAPSHOT_SINCE_H
#define PPA_SNAPSHOT_SINCE_H

#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_kind;
struct ppa_rows;

enum { PPA_SINCE_KINDS = 3, PPA_SINCE_VALUES = 2 };

/* Subtract from the first PPA_SINCE_VALUES values of each row what they were the last time, and remember what they are;
 * the others stay: in the heap's profile they say what is in use now. For kinds whose rows are one a site. *duration_ns:
 * since that time, 0 for the first. 0, or -ENOMEM (also for more than PPA_SINCE_KINDS kinds) and nothing is changed.
 * Context: server, collect.c's named_lock. */
int ppa_since_subtract(const struct ppa_kind *kind, struct ppa_rows *rows, int64_t *duration_ns) PPA_CTX_SERVER;

/* Context: child. */
void ppa_since_reset(void) PPA_CTX_CHILD;

#endif
