/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/thread/created.h"

#include <errno.h>
#include <stdbool.h>

#include "agent/base/self.h"
#include "agent/profile/marker.h"
#include "agent/thread/stack_here.h"
#include "agent/thread/threads.h"

PPA_SITES(ppa_created_sites, 0);

static struct {
	atomic_bool is_on;
	/* set once; NULL where there was no memory */
	struct ppa_site *first, *unknown;
} created;

static struct ppa_site *marker_site(enum ppa_marker m)
{
	uintptr_t pc = ppa_marker_address(m);

	return ppa_sites_find(&ppa_created_sites, &pc, 1, 0, 0);
}

int ppa_created_start(void)
{
	int err = ppa_stack_init();

	if (!err)
		err = ppa_sites_init(&ppa_created_sites);
	if (err)
		return err;
	created.first = marker_site(PPA_MARKER_MAIN);
	created.unknown = marker_site(PPA_MARKER_UNKNOWN_CREATOR);
	ppa_created_count(created.first);
	/* release: the sites are there; pairs with the acquire in ppa_created_by_caller. */
	atomic_store_explicit(&created.is_on, true, memory_order_release);
	return 0;
}

struct ppa_site *ppa_created_by_caller(struct ppa_thread *t, uintptr_t caller)
{
	struct ppa_stack_here s;
	struct ppa_site *site;

	if (!atomic_load_explicit(&created.is_on, memory_order_acquire))
		return NULL;
	ppa_stack_take(caller, &s);
	site = ppa_sites_find(&ppa_created_sites, s.pcs, s.npcs, s.origin, 0);
	ppa_stack_drop(&s);
	t->creator = site;
	if (ppa_self.slot)
		t->creator_tid = atomic_load_explicit(&ppa_self.slot->tid, memory_order_relaxed);
	return site;
}

void ppa_created_count(struct ppa_site *site)
{
	if (site)
		ppa_site_add(site, 0, 1);
}

void ppa_created_note_unknown(uint64_t now)
{
	uint64_t most;

	if (!created.unknown)
		return;
	most = atomic_load_explicit(&created.unknown->counters[0], memory_order_relaxed);
	while (now > most && !atomic_compare_exchange_weak_explicit(&created.unknown->counters[0], &most, now,
								    memory_order_relaxed, memory_order_relaxed))
		;
}

static void forget(const struct ppa_site *s, void *unused)
{
	(void)unused;
	atomic_store_explicit(&((struct ppa_site *)s)->counters[0], s == created.first, memory_order_relaxed);
}

void ppa_created_reset(void)
{
	enum { MARKERS = 3 }; /* first, unknown, and the table's own */

	/* The parent of many children often has created no thread: its pages are not to be read for nothing. */
	if (atomic_load_explicit(&ppa_created_sites.count, memory_order_relaxed) > MARKERS) {
		ppa_sites_each(&ppa_created_sites, forget, NULL);
		return;
	}
	if (created.first)
		forget(created.first, NULL);
	if (created.unknown)
		forget(created.unknown, NULL);
}
