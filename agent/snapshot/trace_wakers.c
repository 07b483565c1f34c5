/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/snapshot/trace_wakers.h"

#include <string.h>

/* ---- sorting: in place, because there may be a million ---- */

enum { ITEM_MAX = 64 };

_Static_assert(sizeof(struct ppa_trace_wake) <= ITEM_MAX && sizeof(struct ppa_trace_want) <= ITEM_MAX, "swap space");

static void swap(char *a, char *b, size_t bytes)
{
	char t[ITEM_MAX];

	memcpy(t, a, bytes);
	memcpy(a, b, bytes);
	memcpy(b, t, bytes);
}

static void sift(char *base, size_t at, size_t n, size_t bytes, bool (*less)(const void *, const void *))
{
	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= n)
			return;
		if (child + 1 < n && less(base + child * bytes, base + (child + 1) * bytes))
			child++;
		if (!less(base + at * bytes, base + child * bytes))
			return;
		swap(base + at * bytes, base + child * bytes, bytes);
		at = child;
	}
}

static void heapsort_items(void *items, size_t n, size_t bytes, bool (*less)(const void *, const void *))
{
	for (size_t i = n / 2; i > 0; i--)
		sift(items, i - 1, n, bytes, less);
	for (size_t i = n; i > 1; i--) {
		swap(items, (char *)items + (i - 1) * bytes, bytes);
		sift(items, 0, i - 1, bytes, less);
	}
}

static bool wake_less(const void *a, const void *b)
{
	const struct ppa_trace_wake *x = a, *y = b;

	return x->object != y->object ? x->object < y->object : x->at_ns < y->at_ns;
}

/* By the moment that decides: a barrier's by who came, others by who went. */
static uint64_t order_of(const struct ppa_trace_want *w)
{
	return w->how == PPA_MATCH_BARRIER ? w->begin_ns : w->end_ns;
}

static bool want_less(const void *a, const void *b)
{
	const struct ppa_trace_want *x = a, *y = b;

	if (x->object != y->object)
		return x->object < y->object;
	return x->how != y->how ? x->how < y->how : order_of(x) < order_of(y);
}

/* ---- matching ---- */

struct matching {
	struct ppa_trace_wake *wakes; /* of all objects */
	size_t nwakes;
	void (*found)(void *record, uint64_t at_ns, uint32_t tid, uint32_t stack);
};

/* The first wake that is not before (object, at). */
static size_t first_at(const struct matching *m, uintptr_t object, uint64_t at_ns)
{
	struct ppa_trace_wake key = {.object = object, .at_ns = at_ns};
	size_t lo = 0, hi = m->nwakes;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (wake_less(&m->wakes[mid], &key))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void tell(const struct matching *m, const struct ppa_trace_want *w, const struct ppa_trace_wake *by)
{
	m->found(w->record, by->at_ns, by->tid, by->stack);
}

static void match_last(const struct matching *m, const struct ppa_trace_want *w)
{
	/* A thread ends a little after it said so, perhaps before anybody joins it. */
	const uint64_t before = w->how == PPA_MATCH_JOIN ? 100000000 : 0;
	size_t i = first_at(m, w->object, w->end_ns + 1);
	const struct ppa_trace_wake *by = i ? &m->wakes[i - 1] : NULL;

	if (by && by->object == w->object && by->at_ns + before >= w->begin_ns)
		tell(m, w, by);
}

/* The first wake from i on that is not used up. */
static size_t unused_from(const struct matching *m, size_t i)
{
	size_t at = i, next;

	while (at < m->nwakes && m->wakes[at].next != at)
		at = m->wakes[at].next;
	/* The next search is short. */
	for (; i < at; i = next) {
		next = m->wakes[i].next;
		m->wakes[i].next = (uint32_t)at;
	}
	return at;
}

static void match_queue(const struct matching *m, const struct ppa_trace_want *w)
{
	size_t i = unused_from(m, first_at(m, w->object, w->begin_ns));

	if (i >= m->nwakes || m->wakes[i].object != w->object || m->wakes[i].at_ns > w->end_ns)
		return;
	tell(m, w, &m->wakes[i]);
	if (!m->wakes[i].is_all)
		m->wakes[i].next = (uint32_t)i + 1;
}

/* wants[i] of n: the last to come before anybody of the same round goes. */
static void match_barrier(const struct matching *m, const struct ppa_trace_want *wants, size_t i, size_t n)
{
	uint64_t open_ns = wants[i].end_ns;
	size_t last = i;

	for (size_t j = i + 1; j < n && wants[j].object == wants[i].object && wants[j].how == PPA_MATCH_BARRIER; j++) {
		if (wants[j].begin_ns > open_ns)
			break;
		if (wants[j].end_ns < open_ns)
			open_ns = wants[j].end_ns;
		last = j;
	}
	if (last != i)
		m->found(wants[i].record, wants[last].begin_ns, wants[last].tid, wants[last].stack);
}

void ppa_trace_match(struct ppa_trace_wake *wakes, size_t nwakes, struct ppa_trace_want *wants, size_t nwants,
		     void (*found)(void *record, uint64_t at_ns, uint32_t tid, uint32_t stack))
{
	struct matching m = {wakes, nwakes, found};

	heapsort_items(wakes, nwakes, sizeof(*wakes), wake_less);
	heapsort_items(wants, nwants, sizeof(*wants), want_less);
	for (size_t i = 0; i < nwakes; i++)
		wakes[i].next = (uint32_t)i;
	for (size_t i = 0; i < nwants; i++) {
		if (wants[i].how == PPA_MATCH_BARRIER)
			match_barrier(&m, wants, i, nwants);
		else if (wants[i].how == PPA_MATCH_QUEUE)
			match_queue(&m, &wants[i]);
		else
			match_last(&m, &wants[i]);
	}
}
