/* SPDX-License-Identifier: Apache-2.0
 *
 * The table that programs find by dlsym (pprof_agent.h). Each function checks that the agent is on, keeps errno, and
 * hands over. It may be entered before our constructor ran, from handlers, and by threads that we do not know: those
 * carry no labels. */
#define PPROF_AGENT_TABLE_ONLY
#include "agent/api/pprof_agent.h"

#include <stdatomic.h>
#include <string.h>

#include "agent/api/custom.h"
#include "agent/base/attr.h"
#include "agent/base/self.h"
#include "agent/profile/tags.h"
#include "agent/thread/threads.h"
#include "agent/trace/trace.h"

/* The value of a key, NULL if the set has none. */
static const char *value_in(uint32_t set, const char *key)
{
	struct ppa_tag t;

	for (uint32_t i = 0; ppa_tags_at(set, i, &t); i++)
		if (strcmp(t.key, key) == 0)
			return t.value;
	return NULL;
}

/* Tell the trace what is different. */
static void note_labels(uint32_t before, uint32_t now, uintptr_t caller)
{
	struct ppa_tag t;

	for (uint32_t i = 0; ppa_tags_at(before, i, &t); i++)
		if (!value_in(now, t.key))
			ppa_trace_note(PPA_NOTE_LABEL, 0, 0, t.key, NULL, caller);
	for (uint32_t i = 0; ppa_tags_at(now, i, &t); i++) {
		const char *was = value_in(before, t.key);

		if (!was || strcmp(was, t.value) != 0)
			ppa_trace_note(PPA_NOTE_LABEL, 0, 0, t.key, t.value, caller);
	}
}

static int label_set(const char *key, const char *value)
{
	struct ppa_thread *t = ppa_self.slot;
	uint32_t before, set;
	int err;

	if (!t)
		return 0;
	before = atomic_load_explicit(&t->tags, memory_order_relaxed);
	err = ppa_tags_with(before, key, value, &set);
	if (err)
		return err;
	atomic_store_explicit(&t->tags, set, memory_order_relaxed);
	if (ppa_trace_is_on())
		note_labels(before, set, (uintptr_t)__builtin_return_address(0));
	return 0;
}

static pprof_labels labels_get(void)
{
	struct ppa_thread *t = ppa_self.slot;

	return t ? atomic_load_explicit(&t->tags, memory_order_relaxed) : 0;
}

static void labels_put(pprof_labels set)
{
	struct ppa_thread *t = ppa_self.slot;
	uint32_t before;

	if (!t || !ppa_tags_exists(set))
		return;
	before = atomic_load_explicit(&t->tags, memory_order_relaxed);
	atomic_store_explicit(&t->tags, set, memory_order_relaxed);
	if (ppa_trace_is_on())
		note_labels(before, set, (uintptr_t)__builtin_return_address(0));
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

/* ---- trace ---- */

static pprof_task task_begin(pprof_task parent, const char *name)
{
	static _Atomic uint64_t last;
	uint64_t task;

	if (!ppa_self.slot)
		return 0;
	/* Also while nothing is recorded: it may end in a trace. */
	task = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
	if (ppa_trace_is_on())
		ppa_trace_note(PPA_NOTE_TASK_BEGIN, task, parent, name, NULL, (uintptr_t)__builtin_return_address(0));
	return task;
}

static void task_end(pprof_task task)
{
	if (task && ppa_trace_is_on())
		ppa_trace_note(PPA_NOTE_TASK_END, task, 0, NULL, NULL, (uintptr_t)__builtin_return_address(0));
}

static void region_begin(pprof_task task, const char *name)
{
	if (ppa_trace_is_on())
		ppa_trace_note(PPA_NOTE_REGION_BEGIN, task, 0, name, NULL, (uintptr_t)__builtin_return_address(0));
}

static void region_end(pprof_task task, const char *name)
{
	if (ppa_trace_is_on())
		ppa_trace_note(PPA_NOTE_REGION_END, task, 0, name, NULL, (uintptr_t)__builtin_return_address(0));
}

static void log_message(pprof_task task, const char *category, const char *message)
{
	if (ppa_trace_is_on())
		ppa_trace_note(PPA_NOTE_LOG, task, 0, category, message, (uintptr_t)__builtin_return_address(0));
}

PPA_EXPORT const struct pprof_agent_api pprof_agent_api_v1 = {
	.size = sizeof(pprof_agent_api_v1),
	.label_set = label_set,
	.labels_get = labels_get,
	.labels_put = labels_put,
	.profile_new = profile_new,
	.profile_add = profile_add,
	.profile_remove = profile_remove,
	.task_begin = task_begin,
	.task_end = task_end,
	.region_begin = region_begin,
	.region_end = region_end,
	.log = log_message,
};
