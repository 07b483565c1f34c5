/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs end regions in the wrong order, or those that another thread began, and records get lost; Go's reader
 * refuses a whole file for one of these. An end that fits an outer region ends the inner ones with it, one that fits
 * none is left out. */
#include "proto/trace/goregions.h"

#include <string.h>

#include "agent/base/vheap.h"

enum { FIRST = 64 /* a power of two */ };

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

static uint64_t *place_of(uint64_t *tasks, size_t cap, uint64_t task)
{
	size_t at = (task * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (cap - 1);

	while (tasks[at] && tasks[at] != task)
		at = (at + 1) & (cap - 1);
	return &tasks[at];
}

bool ppa_go_task_begin(struct ppa_go_said *s, uint64_t task)
{
	uint64_t *place;

	if (!task || task == UINT64_MAX)
		return false;
	if (2 * (s->ntasks + 1) > s->tasks_cap) {
		size_t cap = s->tasks_cap ? 2 * s->tasks_cap : FIRST;
		uint64_t *tasks = ppa_vheap_calloc(cap, sizeof(*tasks));

		if (!tasks)
			return false;
		for (size_t i = 0; i < s->tasks_cap; i++)
			if (s->tasks[i])
				*place_of(tasks, cap, s->tasks[i]) = s->tasks[i];
		ppa_vheap_free(s->tasks);
		s->tasks = tasks;
		s->tasks_cap = cap;
	}
	place = place_of(s->tasks, s->tasks_cap, task);
	if (*place)
		return false;
	*place = task;
	s->ntasks++;
	return true;
}

void ppa_go_said_free(struct ppa_go_said *s)
{
	ppa_vheap_free(s->regions);
	ppa_vheap_free(s->tasks);
	memset(s, 0, sizeof(*s));
}
