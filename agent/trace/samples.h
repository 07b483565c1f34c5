/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU samples of a trace, one by one, in the order in which they were drained. On the private heap; no memory: lost, and
 * counted. */
#ifndef PPA_TRACE_SAMPLES_H
#define PPA_TRACE_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_record;
struct ppa_site;

struct ppa_trace_sample {
	uint64_t at_ns;
	uint64_t key; /* ppa_threads_key */
	uint32_t tid;
	char name[16]; /* of the thread, zero-padded */
	const struct ppa_site *site;
};

/* The sampler's tap. Context: server. */
void ppa_trace_samples_take(const struct ppa_record *r, const uintptr_t *pcs) PPA_CTX_SERVER;

/* Visit those that are there; nobody takes meanwhile. Context: server. */
void ppa_trace_samples_each(void (*visit)(const struct ppa_trace_sample *s, void *arg), void *arg) PPA_CTX_SERVER;

/* Forget those before this time; all: UINT64_MAX. Context: server. */
void ppa_trace_samples_forget(uint64_t before_ns) PPA_CTX_SERVER;

/* Lost since the last time all were forgotten. Context: server. */
uint64_t ppa_trace_samples_lost(void) PPA_CTX_SERVER;

/* Context: child. */
void ppa_trace_samples_reset(void) PPA_CTX_CHILD;

#endif
