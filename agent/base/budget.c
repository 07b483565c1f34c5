/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/base/budget.h"

#include <stdatomic.h>

#include "agent/base/sys.h"

enum { DEFAULT_LIMIT = 64 << 20 };

static struct {
	_Atomic uint64_t used, limit;
} budget = {.limit = DEFAULT_LIMIT};

void ppa_budget_set(uint64_t bytes)
{
	atomic_store_explicit(&budget.limit, bytes, memory_order_relaxed);
}

void *ppa_budget_map(size_t bytes)
{
	uint64_t before = atomic_fetch_add_explicit(&budget.used, bytes, memory_order_relaxed);
	void *p = NULL;

	if (before + bytes <= atomic_load_explicit(&budget.limit, memory_order_relaxed))
		p = ppa_sys_map(bytes);
	if (!p)
		atomic_fetch_sub_explicit(&budget.used, bytes, memory_order_relaxed);
	return p;
}

void ppa_budget_unmap(void *p, size_t bytes)
{
	ppa_sys_unmap(p, bytes);
	atomic_fetch_sub_explicit(&budget.used, bytes, memory_order_relaxed);
}

uint64_t ppa_budget_used(void)
{
	return atomic_load_explicit(&budget.used, memory_order_relaxed);
}

uint64_t ppa_budget_limit(void)
{
	return atomic_load_explicit(&budget.limit, memory_order_relaxed);
}
