/* SPDX-License-Identifier: Apache-2.0
 *
 * The table that programs find by dlsym (pprof_agent.h). Each function checks that the agent is on, keeps errno, and
 * hands over. It may be entered before our constructor ran, from handlers, and by threads that we do not know: those
 * carry no labels. */
#define PPROF_AGENT_TABLE_ONLY
#include "agent/api/pprof_agent.h"

#include <stdatomic.h>

#include "agent/api/custom.h"
#include "agent/base/attr.h"
#include "agent/base/self.h"
#include "agent/profile/tags.h"
#include "agent/thread/threads.h"

static int label_set(const char *key, const char *value)
{
	struct ppa_thread *t = ppa_self.slot;
	uint32_t set;
	int err;

	if (!t)
		return 0;
	err = ppa_tags_with(atomic_load_explicit(&t->tags, memory_order_relaxed), key, value, &set);
	if (!err)
		atomic_store_explicit(&t->tags, set, memory_order_relaxed);
	return err;
}

static pprof_labels labels_get(void)
{
	struct ppa_thread *t = ppa_self.slot;

	return t ? atomic_load_explicit(&t->tags, memory_order_relaxed) : 0;
}

static void labels_put(pprof_labels set)
{
	struct ppa_thread *t = ppa_self.slot;

	if (t && ppa_tags_exists(set))
		atomic_store_explicit(&t->tags, set, memory_order_relaxed);
}

/* A thread that has no slot may add, too. Before our constructor, and where we are off, names are only taken. */
static struct pprof_profile *profile_new(const char *name)
{
	return (struct pprof_profile *)ppa_custom_new(name);
}

static int profile_add(struct pprof_profile *profile, const void *value, int skip)
{
	if (!profile)
		return 0;
	return ppa_custom_add((struct ppa_custom *)profile, (uintptr_t)value, skip,
			      (uintptr_t)__builtin_return_address(0));
}

static void profile_remove(struct pprof_profile *profile, const void *value)
{
	if (profile)
		ppa_custom_remove((struct ppa_custom *)profile, (uintptr_t)value);
}

PPA_EXPORT const struct pprof_agent_api pprof_agent_api_v1 = {
	.size = sizeof(pprof_agent_api_v1),
	.label_set = label_set,
	.labels_get = labels_get,
	.labels_put = labels_put,
	.profile_new = profile_new,
	.profile_add = profile_add,
	.profile_remove = profile_remove,
};
