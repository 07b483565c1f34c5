/* SPDX-License-Identifier: Apache-2.0
 *
 * What the agent may keep for good: PPROF_MAX_MEMORY, shared by everything that grows with what the target does (sites,
 * live blocks, their filter). Working memory of a request is not counted here. Taken from hooks, so a plain counter. */
#ifndef PPA_BASE_BUDGET_H
#define PPA_BASE_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

/* Bytes, at least 1 MiB. Context: init. */
void ppa_budget_set(uint64_t bytes) PPA_CTX_INIT;

/* Zeroed pages, or NULL when the budget (or the kernel) refuses; unmap gives back the same bytes. Context: signal. */
void *ppa_budget_map(size_t bytes) PPA_CTX_SIGNAL;
void ppa_budget_unmap(void *p, size_t bytes) PPA_CTX_SIGNAL;

/* Bytes handed out, and the limit. Context: signal. */
uint64_t ppa_budget_used(void) PPA_CTX_SIGNAL;
uint64_t ppa_budget_limit(void) PPA_CTX_SIGNAL;

#endif
