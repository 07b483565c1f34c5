/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs end regions in the wrong order, or those that another thread began, and records get lost; Go's reader
 * refuses a whole file for one of these. An end that fits an outer region ends the inner ones with it, one that fits
 * none is left out. */
#include "proto/trace/goregions.h"

#include <string.h>

#include "agent/base/vheap.h"

enum { FIRST = 64 };

bool ppa_go_region_begin(struct ppa_go_said *s, struct ppa_go_region r)
{
	if (s->nregions >= PPA_GO_MAX_REGIONS)
		return false;
	if (s->nregions == s->regions_cap) {
		size_t cap = s->regions_cap ? 2 * s->regions_cap : FIRST;
		struct ppa_go_region *list = ppa_vheap_realloc(s->regions, cap * sizeof(*list));

		if (!list)
			return false;
		s->regions = list;
		s->regions_cap = cap;
	}
	s->regions[s->nregions++] = r;
	return true;
}

size_t ppa_go_region_end(const struct ppa_go_said *s, struct ppa_go_region r)
{
	for (size_t i = s->nregions; i > 0; i--)
		if (s->regions[i - 1].task == r.task && s->regions[i - 1].name == r.name)
			return s->nregions - i + 1;
	return 0;
}

struct ppa_go_region ppa_go_region_pop(struct ppa_go_said *s)
{
	return s->regions[--s->nregions];
}

bool ppa_go_task_begin(struct ppa_go_said *s, uint64_t task)
{
	uint32_t *is_known;

	if (!task || task == UINT64_MAX)
		return false;
	is_known = ppa_trace_table_at(&s->tasks, task);
	if (!is_known || *is_known)
		return false;
	*is_known = 1;
	return true;
}

void ppa_go_said_free(struct ppa_go_said *s)
{
	ppa_vheap_free(s->regions);
	ppa_trace_table_free(&s->tasks);
	memset(s, 0, sizeof(*s));
}
