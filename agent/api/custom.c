/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles hang in a list, each complete before it is put at the head: the loser of a race looks at what came before it,
 * so that no name is given twice. Its number is then lost. */
#include "agent/api/custom.h"

#include <errno.h>
#include <string.h>

#include "agent/api/values.h"
#include "agent/profile/marker.h"
#include "agent/thread/stack_here.h"

struct ppa_custom {
	struct ppa_custom *next; /* constant once it is in the list, as are the next two */
	uint32_t number;
	char name[PPA_CUSTOM_NAME_BYTES];
	_Atomic(struct ppa_site *) other; /* its own [other stacks] */
	_Atomic uint64_t count, lost;
	struct ppa_values values;
};

PPA_SITES(ppa_custom_sites, 0);

static struct {
	_Atomic(struct ppa_custom *) list;
	_Atomic(struct ppa_custom *) by_number[PPA_CUSTOM_MAX];
	_Atomic uint32_t numbers; /* given */
	_Atomic bool is_on;
	bool (*is_taken)(const char *name); /* set before is_on */
	struct ppa_custom pool[PPA_CUSTOM_MAX];
} custom;

/* ---- names ---- */

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* One or more names separated by slashes, none of them of dots alone: what cleaning a path leaves as it is. */
static bool is_sound(const char *name)
{
	bool has_letter = false;
	size_t n = 0;

	for (; name[n] && n < PPA_CUSTOM_NAME_BYTES; n++) {
		if (is_letter(name[n]))
			has_letter = true;
		else if (name[n] == '/' && has_letter)
			has_letter = false;
		else if (name[n] != '.')
			return false;
	}
	return has_letter && n < PPA_CUSTOM_NAME_BYTES;
}

static const struct ppa_custom *search(const struct ppa_custom *from, const struct ppa_custom *until, const char *name)
{
	for (; from != until; from = from->next)
		if (strcmp(from->name, name) == 0)
			return from;
	return NULL;
}

static struct ppa_custom *draw(void)
{
	uint32_t n = atomic_load_explicit(&custom.numbers, memory_order_relaxed);

	do {
		if (n == PPA_CUSTOM_MAX)
			return NULL;
	} while (!atomic_compare_exchange_weak_explicit(&custom.numbers, &n, n + 1, memory_order_relaxed,
							memory_order_relaxed));
	custom.pool[n].number = n;
	return &custom.pool[n];
}

static bool is_on(void)
{
	/* acquire: what start made is there; pairs with the release in ppa_custom_start. */
	return atomic_load_explicit(&custom.is_on, memory_order_acquire);
}

struct ppa_custom *ppa_custom_new(const char *name)
{
	/* acquire: whole profiles; pairs with the release below. */
	struct ppa_custom *head = atomic_load_explicit(&custom.list, memory_order_acquire), *seen = NULL, *c = NULL;

	if (!name || !is_sound(name) || (is_on() && custom.is_taken(name)))
		return NULL;
	do {
		if (search(head, seen, name) || (!c && !(c = draw())))
			return NULL;
		memcpy(c->name, name, strlen(name) + 1);
		c->next = seen = head;
	} while (!atomic_compare_exchange_strong_explicit(&custom.list, &head, c, memory_order_release,
							  memory_order_acquire));
	/* release: pairs with the acquire in ppa_custom_at. */
	atomic_store_explicit(&custom.by_number[c->number], c, memory_order_release);
	return c;
}

/* ---- values ---- */

static struct ppa_site *other_of(struct ppa_custom *c)
{
	uintptr_t pc = ppa_marker_address(PPA_MARKER_OTHER);
	struct ppa_site *s = atomic_load_explicit(&c->other, memory_order_relaxed);

	if (s)
		return s;
	s = ppa_sites_find(&ppa_custom_sites, &pc, 1, 0, c->number + 1);
	atomic_store_explicit(&c->other, s, memory_order_relaxed);
	return s;
}

/* NULL when memory is used up and was before the profile's first value. */
static struct ppa_site *site_of(struct ppa_custom *c, int skip, uintptr_t caller)
{
	struct ppa_site *site, *other = other_of(c); /* first, while there is room */
	struct ppa_stack_here s;
	uint32_t cut;

	ppa_stack_take(caller, &s);
	cut = skip <= 0 ? 0 : (uint32_t)skip < s.npcs ? (uint32_t)skip : s.npcs - 1;
	site = ppa_sites_find(&ppa_custom_sites, s.pcs + cut, s.npcs - cut, s.origin, c->number + 1);
	ppa_stack_drop(&s);
	return site->label ? site : other->label ? other : NULL;
}

int ppa_custom_add(struct ppa_custom *c, uintptr_t value, int skip, uintptr_t caller)
{
	struct ppa_site *site;
	int err = -ENOMEM;

	if (!is_on())
		return 0;
	if (!value)
		return -EINVAL;
	site = site_of(c, skip, caller);
	if (site) {
		/* Before it can be removed. */
		ppa_site_add(site, PPA_CUSTOM_ADDED, 1);
		err = ppa_values_add(&c->values, value, site);
		if (!err)
			atomic_fetch_add_explicit(&c->count, 1, memory_order_relaxed);
		else
			/* It was not added after all; a profile taken meanwhile may have seen it. */
			ppa_site_add(site, PPA_CUSTOM_REMOVED, 1);
	}
	if (err == -ENOMEM)
		atomic_fetch_add_explicit(&c->lost, 1, memory_order_relaxed);
	return err;
}

void ppa_custom_remove(struct ppa_custom *c, uintptr_t value)
{
	struct ppa_site *site = value ? ppa_values_remove(&c->values, value) : NULL;

	if (!site)
		return;
	atomic_fetch_sub_explicit(&c->count, 1, memory_order_relaxed);
	/* release: whoever sees this sees the value added. */
	atomic_fetch_add_explicit(&site->counters[PPA_CUSTOM_REMOVED], 1, memory_order_release);
}

/* ---- for the server ---- */

int ppa_custom_start(bool (*is_taken)(const char *name))
{
	int err = ppa_sites_init(&ppa_custom_sites);

	if (!err)
		err = ppa_stack_init();
	if (err)
		return err;
	custom.is_taken = is_taken;
	atomic_store_explicit(&custom.is_on, true, memory_order_release);
	return 0;
}

const struct ppa_custom *ppa_custom_at(size_t i)
{
	return i < PPA_CUSTOM_MAX ? atomic_load_explicit(&custom.by_number[i], memory_order_acquire) : NULL;
}

const char *ppa_custom_name(const struct ppa_custom *c)
{
	return c->name;
}

uint64_t ppa_custom_count(const struct ppa_custom *c)
{
	int64_t n = (int64_t)atomic_load_explicit(&c->count, memory_order_relaxed);

	return n > 0 ? (uint64_t)n : 0;
}

uint64_t ppa_custom_lost(const struct ppa_custom *c)
{
	return atomic_load_explicit(&c->lost, memory_order_relaxed);
}
