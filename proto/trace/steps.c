/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of the records is that of their begins. A wait that lies within another one (a hook within a hook) is part
 * of it and dropped; one that reaches into it begins when that ends. A wait without an end was left by a jump if the
 * thread did something else later, and ended before that; else it still goes on. */
#include "proto/trace/steps.h"

#include <errno.h>

#include "agent/base/vheap.h"
#include "proto/trace/sort.h"

bool ppa_trace_is_wait(uint32_t kind)
{
	return kind >= PPA_TRACE_MUTEX && kind <= PPA_TRACE_FILE;
}

static struct ppa_trace_key key_of(const void *item)
{
	return (struct ppa_trace_key){((const struct ppa_trace_record *)item)->at_ns, 0};
}

int ppa_trace_walk_begin(struct ppa_trace_walk *w, const struct ppa_trace_lives *lives,
			 const struct ppa_trace_life *life, uint64_t now, uint64_t shortest_ns)
{
	const struct ppa_trace_thread *t = life->thread;
	size_t n = 0;

	*w = (struct ppa_trace_walk){.lives = lives, .life = life, .now = now, .shortest_ns = shortest_ns};
	for (size_t i = 0; i < t->npieces; i++)
		n += t->pieces[i].n;
	w->records = ppa_vheap_malloc((n + 1) * sizeof(const void *));
	if (!w->records)
		return -ENOMEM;
	for (size_t i = 0; i < t->npieces; i++)
		for (size_t k = 0; k < t->pieces[i].n; k++) {
			const struct ppa_trace_record *r = &t->pieces[i].records[k];

			if (r->kind > PPA_TRACE_NOTHING && r->kind < PPA_TRACE_KINDS)
				w->records[w->n++] = r;
		}
	if (ppa_trace_sort((const void **)w->records, w->n, key_of)) {
		ppa_trace_walk_end(w);
		return -ENOMEM;
	}
	return 0;
}

void ppa_trace_walk_end(struct ppa_trace_walk *w)
{
	ppa_vheap_free(w->records);
	w->records = NULL;
	w->n = 0;
}

/* When the thread next did something that it cannot do while it waits; UINT64_MAX: not in this life. */
static uint64_t next_sign_of_life(const struct ppa_trace_walk *w)
{
	for (size_t i = w->next; i < w->n; i++)
		if (w->records[i]->kind != PPA_TRACE_SAMPLE)
			return w->records[i]->at_ns;
	return UINT64_MAX;
}

static void find_waker(const struct ppa_trace_walk *w, const struct ppa_trace_record *r, struct ppa_trace_step *s)
{
	const struct ppa_trace_life *by;
	uint64_t at = r->wait.waker_ns ? r->wait.waker_ns : r->wait.end_ns;

	if (!r->wait.waker_tid || s->end == UINT64_MAX)
		return;
	at = at <= s->at ? s->at + 1 : at;
	at = at >= s->end ? s->end - 1 : at;
	s->waker = ppa_trace_lives_at(w->lives, r->wait.waker_tid, at);
	if (s->waker == PPA_TRACE_NOBODY)
		return;
	by = &w->lives->list[s->waker];
	/* Who wakes by ending is seen to end a moment before its waiter notices. */
	s->waker_at = at > by->death ? by->death : at;
	if (by == w->life || s->waker_at <= s->at)
		s->waker = PPA_TRACE_NOBODY;
}

/* False: the wait is not to be seen. */
static bool place_wait(struct ppa_trace_walk *w, const struct ppa_trace_record *r, struct ppa_trace_step *s)
{
	uint64_t stop = w->lives->in->stop_ns, end = r->wait.end_ns;

	if (!end)
		end = next_sign_of_life(w);
	if (end <= w->now)
		return false;
	if (end != UINT64_MAX && end - (r->at_ns < end ? r->at_ns : end) < w->shortest_ns) {
		w->left_out++;
		return false;
	}
	s->at = r->at_ns > w->now ? r->at_ns : w->now + 1;
	if (s->at >= stop || s->at >= w->life->death)
		return false;
	end = end < s->at + 2 ? s->at + 2 : end;
	s->end = end >= stop || end >= w->life->death ? UINT64_MAX : end;
	find_waker(w, r, s);
	w->is_over = s->end == UINT64_MAX;
	w->now = w->is_over ? s->at : s->end;
	return true;
}

bool ppa_trace_walk_next(struct ppa_trace_walk *w, struct ppa_trace_step *s)
{
	uint64_t stop = w->lives->in->stop_ns;

	while (w->next < w->n) {
		const struct ppa_trace_record *r = w->records[w->next++];

		*s = (struct ppa_trace_step){.record = r, .is_wait = ppa_trace_is_wait(r->kind)};
		s->waker = PPA_TRACE_NOBODY;
		if (r->at_ns >= stop)
			return false;
		if (w->is_over && r->kind != PPA_TRACE_SAMPLE)
			continue;
		if (s->is_wait) {
			if (place_wait(w, r, s))
				return true;
			continue;
		}
		if (r->at_ns < w->lives->in->start_ns || r->at_ns < w->life->birth)
			continue;
		if (r->kind == PPA_TRACE_SAMPLE) {
			s->at = r->at_ns < w->life->death ? r->at_ns : w->life->death;
			return true;
		}
		s->at = r->at_ns > w->now ? r->at_ns : w->now + 1;
		if (s->at >= w->life->death)
			continue;
		w->now = s->at;
		return true;
	}
	return false;
}
