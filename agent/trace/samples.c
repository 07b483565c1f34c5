/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/trace/samples.h"

#include <string.h>

#include "agent/base/lock.h"
#include "agent/base/vheap.h"
#include "agent/cpu/cpu.h"
#include "agent/trace/trace.h"

enum { FIRST = 1024, MAX = 1 << 20 };

static struct {
	struct ppa_lock lock; /* a leaf below the sampler's; server */
	struct ppa_trace_sample *list;
	size_t n, cap;
	uint64_t lost;
} samples;

static struct ppa_trace_sample *add(void)
{
	size_t cap = samples.cap ? 2 * samples.cap : FIRST;
	struct ppa_trace_sample *p;

	if (samples.n == samples.cap) {
		p = cap > MAX ? NULL : ppa_vheap_realloc(samples.list, cap * sizeof(*p));
		if (!p) {
			samples.lost++;
			return NULL;
		}
		samples.list = p;
		samples.cap = cap;
	}
	return &samples.list[samples.n++];
}

void ppa_trace_samples_take(const struct ppa_record *r, const uintptr_t *pcs)
{
	struct ppa_trace_sample *s;

	ppa_lock(&samples.lock);
	s = add();
	if (s) {
		s->at_ns = r->time_ns;
		s->key = r->thread_key;
		s->tid = r->tid;
		memcpy(s->name, r->thread_name, sizeof(s->name));
		s->name[sizeof(s->name) - 1] = '\0';
		/* No origin: the names are those of now, which is a moment later. */
		s->site = ppa_sites_find(&ppa_trace_sites, pcs, r->npcs, 0, 0);
	}
	ppa_unlock(&samples.lock);
}

void ppa_trace_samples_each(void (*visit)(const struct ppa_trace_sample *s, void *arg), void *arg)
{
	ppa_lock(&samples.lock);
	for (size_t i = 0; i < samples.n; i++)
		visit(&samples.list[i], arg);
	ppa_unlock(&samples.lock);
}

void ppa_trace_samples_forget(uint64_t before_ns)
{
	size_t kept = 0;

	ppa_lock(&samples.lock);
	for (size_t i = 0; i < samples.n; i++)
		if (samples.list[i].at_ns >= before_ns)
			samples.list[kept++] = samples.list[i];
	samples.n = kept;
	if (before_ns == UINT64_MAX) {
		ppa_vheap_free(samples.list);
		samples.list = NULL;
		samples.n = samples.cap = 0;
		samples.lost = 0;
	}
	ppa_unlock(&samples.lock);
}

uint64_t ppa_trace_samples_lost(void)
{
	return samples.lost;
}

void ppa_trace_samples_reset(void)
{
	memset(&samples, 0, sizeof(samples));
}
