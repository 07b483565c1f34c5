/* SPDX-License-Identifier: Apache-2.0
 *
 * Whatever follows relies on three things that are made true here: lives are ordered by birth; two lives of one tid do
 * not overlap (an end that was lost is put before the next beginning, and where there is no room the later one gets a
 * number of its own above all thread ids); a newborn was created before it began. */
#include "proto/trace/lives.h"

#include <errno.h>

#include "agent/base/vheap.h"
#include "proto/trace/sort.h"

enum { ALIAS = 30000000 /* above Linux' largest thread id, 2^22 */, GAP_NS = 8 };

static struct ppa_trace_key key_of_birth(const void *item)
{
	const struct ppa_trace_life *life = item;

	return (struct ppa_trace_key){life->birth, 0};
}

static struct ppa_trace_key key_of_tid(const void *item)
{
	const struct ppa_trace_life *life = item;

	return (struct ppa_trace_key){life->thread->tid, life->birth};
}

/* Of one thread alone. False if it has no life in the window. */
static bool draw(const struct ppa_trace_input *in, const struct ppa_trace_thread *t, struct ppa_trace_life *life)
{
	uint64_t settled = in->start_ns + PPA_TRACE_SETTLE_NS;

	if (!t->tid || t->start_ns >= in->stop_ns || (t->exit_ns && t->exit_ns <= in->start_ns))
		return false;
	*life = (struct ppa_trace_life){
		.thread = t, .tid = t->tid, .birth = in->start_ns, .death = UINT64_MAX, .creator = PPA_TRACE_NOBODY};
	if (t->start_ns > in->start_ns) {
		life->is_newborn = true;
		life->birth = t->start_ns > settled ? t->start_ns : settled;
		life->create_at = t->create_ns && t->create_ns < life->birth ? t->create_ns : life->birth - 1;
		if (life->create_at < settled - 1)
			life->create_at = settled - 1;
	}
	if (t->exit_ns && t->exit_ns < in->stop_ns)
		life->death = t->exit_ns > life->birth + GAP_NS ? t->exit_ns : life->birth + GAP_NS;
	return true;
}

static int by_birth(struct ppa_trace_lives *l, const void **order)
{
	struct ppa_trace_life *sorted;
	int err;

	for (size_t i = 0; i < l->n; i++)
		order[i] = &l->list[i];
	err = ppa_trace_sort(order, l->n, key_of_birth);
	if (err)
		return err;
	sorted = ppa_vheap_malloc((l->n + 1) * sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < l->n; i++)
		sorted[i] = *(const struct ppa_trace_life *)order[i];
	ppa_vheap_free(l->list);
	l->list = sorted;
	return 0;
}

static int by_tid(struct ppa_trace_lives *l, const void **order)
{
	struct ppa_trace_life *last; /* of its tid, that has it for itself */
	int err;

	for (size_t i = 0; i < l->n; i++)
		order[i] = &l->list[i];
	err = ppa_trace_sort(order, l->n, key_of_tid);
	if (err)
		return err;
	for (size_t i = 0; i < l->n; i++)
		l->by_tid[i] = (uint32_t)((const struct ppa_trace_life *)order[i] - l->list);
	last = l->n ? &l->list[l->by_tid[0]] : NULL;
	for (size_t i = 1; i < l->n; i++) {
		struct ppa_trace_life *b = &l->list[l->by_tid[i]];

		if (last->thread->tid != b->thread->tid || last->death < b->birth)
			last = b;
		else if (b->birth > last->birth + 3 * GAP_NS) {
			last->death = b->birth - GAP_NS;
			last = b;
		} else
			b->tid = ALIAS + (uint64_t)l->by_tid[i];
	}
	return 0;
}

static void find_creators(struct ppa_trace_lives *l)
{
	for (size_t i = 0; i < l->n; i++) {
		struct ppa_trace_life *life = &l->list[i];
		uint32_t by;

		if (!life->is_newborn || !life->thread->creator_tid)
			continue;
		by = ppa_trace_lives_at(l, life->thread->creator_tid, life->create_at);
		if (by != PPA_TRACE_NOBODY && by != i && l->list[by].death >= life->create_at)
			life->creator = by;
	}
}

int ppa_trace_lives_init(struct ppa_trace_lives *l, const struct ppa_trace_input *in)
{
	const void **order = ppa_vheap_malloc((in->nthreads + 1) * sizeof(*order));
	int err = -ENOMEM;

	*l = (struct ppa_trace_lives){.in = in};
	l->list = ppa_vheap_malloc((in->nthreads + 1) * sizeof(*l->list));
	l->by_tid = ppa_vheap_malloc((in->nthreads + 1) * sizeof(*l->by_tid));
	if (!order || !l->list || !l->by_tid)
		goto done;
	for (size_t i = 0; i < in->nthreads; i++)
		l->n += draw(in, &in->threads[i], &l->list[l->n]);
	err = by_birth(l, order);
	if (!err)
		err = by_tid(l, order);
	if (!err)
		find_creators(l);
done:
	ppa_vheap_free(order);
	if (err)
		ppa_trace_lives_free(l);
	return err;
}

void ppa_trace_lives_free(struct ppa_trace_lives *l)
{
	ppa_vheap_free(l->list);
	ppa_vheap_free(l->by_tid);
	*l = (struct ppa_trace_lives){.in = l->in};
}

uint32_t ppa_trace_lives_at(const struct ppa_trace_lives *l, uint32_t tid, uint64_t at_ns)
{
	size_t low = 0, high = l->n; /* by_tid[0..low) is before or at, by_tid[high..n) after */

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct ppa_trace_life *life = &l->list[l->by_tid[mid]];

		if (life->thread->tid < tid || (life->thread->tid == tid && life->birth <= at_ns))
			low = mid + 1;
		else
			high = mid;
	}
	if (!low || l->list[l->by_tid[low - 1]].thread->tid != tid)
		return PPA_TRACE_NOBODY;
	return l->by_tid[low - 1];
}
