/* SPDX-License-Identifier: Apache-2.0
 *
 * A creation needs its creator running; where the records say that it waits at that moment, or is not there, our own
 * thread creates. A wake-up needs nothing of the waker but the place in its stream. */
#include "proto/trace/goplan.h"

#include <errno.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "proto/trace/sort.h"

/* Ends of processors' users and beginnings of the next ones are so far apart that no events of theirs can meet. */
enum { PROC_GAP_NS = 16, DURATIONS = 256, FIRST_WAKINGS = 1024, WAIT_EVENTS = 3, SYSCALL_EVENTS = 2 };

uint64_t ppa_goplan_begin(const struct ppa_trace_lives *lives, const struct ppa_trace_life *life)
{
	return life->is_newborn ? life->birth : lives->in->start_ns + 1;
}

/* -- how many events there may be ---------------------------------------------------------------------------------- */

/* Durations in steps of a quarter of a power of two: 256 of them are all. */
static unsigned step_of(uint64_t ns)
{
	unsigned log = ns ? 63 - (unsigned)__builtin_clzll(ns) : 0;

	return log < 2 ? (unsigned)ns : log * 4 + ((ns >> (log - 2)) & 3);
}

static uint64_t shortest_of(unsigned step)
{
	return step < 8 ? (step < 4 ? step : 4) : (uint64_t)(4 + step % 4) << (step / 4 - 2);
}

/* Waits shorter than this are too many. */
static uint64_t choose_shortest(const struct ppa_trace_lives *lives, size_t max_events)
{
	uint64_t total = 0;
	uint32_t counts[DURATIONS];
	unsigned step = 0;

	memset(counts, 0, sizeof(counts));
	for (size_t i = 0; i < lives->n; i++) {
		const struct ppa_trace_thread *t = lives->list[i].thread;

		total += 8;
		for (size_t k = 0; k < t->npieces; k++)
			for (size_t j = 0; j < t->pieces[k].n; j++) {
				const struct ppa_trace_record *r = &t->pieces[k].records[j];
				unsigned n = r->kind == PPA_TRACE_FILE ? SYSCALL_EVENTS : WAIT_EVENTS;

				total += ppa_trace_is_wait(r->kind) ? n : 1;
				if (ppa_trace_is_wait(r->kind) && r->wait.end_ns > r->at_ns)
					counts[step_of(r->wait.end_ns - r->at_ns)] += n;
			}
	}
	for (; total > max_events && step < DURATIONS - 1; step++)
		total -= counts[step];
	return shortest_of(step);
}

/* -- processors ---------------------------------------------------------------------------------------------------- */

static int assign_procs(struct ppa_goplan *plan)
{
	const struct ppa_trace_lives *lives = plan->lives;
	uint64_t *free_at = ppa_vheap_calloc(lives->n + 1, sizeof(*free_at));

	if (!free_at)
		return -ENOMEM;
	plan->nprocs = 1;
	for (size_t i = 0; i < lives->n; i++) {
		const struct ppa_trace_life *life = &lives->list[i];
		uint32_t p = life->is_newborn ? 1 : plan->nprocs;

		while (p < plan->nprocs && (free_at[p] == UINT64_MAX || free_at[p] + PROC_GAP_NS >= life->birth))
			p++;
		plan->nprocs += p == plan->nprocs;
		free_at[p] = life->death;
		plan->roles[i].p = p;
	}
	ppa_vheap_free(free_at);
	return 0;
}

/* -- meetings ------------------------------------------------------------------------------------------------------ */

static struct ppa_trace_key key_of(const void *item)
{
	const struct ppa_go_meeting *m = item;

	return (struct ppa_trace_key){m->host, m->at};
}

static int plan_creations(struct ppa_goplan *plan)
{
	const struct ppa_trace_lives *lives = plan->lives;

	for (size_t i = 0; i < lives->n; i++) {
		const struct ppa_trace_life *life = &lives->list[i];
		struct ppa_go_meeting *m = &plan->creations[plan->ncreations];

		if (!life->is_newborn)
			continue;
		plan->meetings[plan->ncreations++] = m;
		*m = (struct ppa_go_meeting){.at = life->create_at,
					     .host = life->creator,
					     .guest = (uint32_t)i,
					     .stack = life->thread->create_stack};
		if (m->host == PPA_TRACE_NOBODY || m->at <= ppa_goplan_begin(lives, &lives->list[m->host]))
			m->host = (uint32_t)lives->n;
	}
	return ppa_trace_sort((const void **)plan->meetings, plan->ncreations, key_of);
}

static int add_waking(struct ppa_goplan *plan, const struct ppa_go_meeting *m)
{
	if (plan->nwakings == plan->wakings_cap) {
		size_t cap = plan->wakings_cap ? 2 * plan->wakings_cap : FIRST_WAKINGS;
		struct ppa_go_meeting *list = ppa_vheap_realloc(plan->wakings, cap * sizeof(*list));

		if (!list)
			return -ENOMEM;
		plan->wakings = list;
		plan->wakings_cap = cap;
	}
	plan->wakings[plan->nwakings++] = *m;
	return 0;
}

/* Creations by thread i, of which *next is the first that is not decided yet, from before a wait of its, which they
 * must not happen in. */
static void part_creations(struct ppa_goplan *plan, uint32_t i, const struct ppa_trace_step *s, size_t *next)
{
	for (; *next < plan->ncreations; ++*next) {
		struct ppa_go_meeting *m = (struct ppa_go_meeting *)plan->meetings[*next];

		if (m->host != i || m->at > s->end)
			return;
		if (m->at > s->at)
			m->host = (uint32_t)plan->lives->n;
	}
}

/* Walk through a life; *next as above. */
static int plan_life(struct ppa_goplan *plan, uint32_t i, size_t *next)
{
	const struct ppa_trace_life *life = &plan->lives->list[i];
	struct ppa_go_role *role = &plan->roles[i];
	struct ppa_trace_walk walk;
	struct ppa_trace_step s;
	uint64_t seq = life->is_newborn, first = plan->nwakings;
	int err =
		ppa_trace_walk_begin(&walk, plan->lives, life, ppa_goplan_begin(plan->lives, life), plan->shortest_ns);

	role->is_silent = !life->is_newborn && life->death == UINT64_MAX;
	while (!err && ppa_trace_walk_next(&walk, &s)) {
		role->is_silent = false;
		if (!role->some_stack)
			role->some_stack = s.record->stack;
		if (!s.is_wait)
			continue;
		part_creations(plan, i, &s, next);
		role->is_named |= s.record->stack || life->thread->root_stack;
		if (s.record->kind == PPA_TRACE_FILE)
			continue;
		if (s.waker != PPA_TRACE_NOBODY)
			err = add_waking(plan, &(struct ppa_go_meeting){.at = s.waker_at,
									.seq = seq + 1,
									.host = s.waker,
									.guest = i,
									.stack = s.record->wait.waker_stack,
									.guest_stack = s.record->stack});
		seq += 2;
	}
	/* A thread that never waits is given a wait to learn its name from, before all others. */
	for (size_t k = first; !life->is_newborn && !role->is_named && k < plan->nwakings; k++)
		plan->wakings[k].seq += 2;
	while (*next < plan->ncreations && plan->meetings[*next]->host <= i)
		++*next;
	plan->left_out += walk.left_out;
	ppa_trace_walk_end(&walk);
	return err;
}

/* Creations and wakings into one order. */
static int merge_meetings(struct ppa_goplan *plan)
{
	plan->nmeetings = plan->ncreations + plan->nwakings;
	ppa_vheap_free(plan->meetings);
	plan->meetings = ppa_vheap_malloc((plan->nmeetings + 1) * sizeof(const void *));
	if (!plan->meetings)
		return -ENOMEM;
	for (size_t i = 0; i < plan->ncreations; i++)
		plan->meetings[i] = &plan->creations[i];
	for (size_t i = 0; i < plan->nwakings; i++)
		plan->meetings[plan->ncreations + i] = &plan->wakings[i];
	for (size_t i = 0; i < plan->nmeetings; i++) /* who wakes others does something */
		if (plan->meetings[i]->host < plan->lives->n)
			plan->roles[plan->meetings[i]->host].is_silent = false;
	return ppa_trace_sort((const void **)plan->meetings, plan->nmeetings, key_of);
}

int ppa_goplan_init(struct ppa_goplan *plan, const struct ppa_trace_lives *lives, size_t max_events)
{
	size_t next = 0;
	int err;

	*plan = (struct ppa_goplan){.lives = lives};
	plan->roles = ppa_vheap_calloc(lives->n + 1, sizeof(*plan->roles));
	plan->creations = ppa_vheap_malloc((lives->n + 1) * sizeof(*plan->creations));
	plan->meetings = ppa_vheap_malloc((lives->n + 1) * sizeof(const void *));
	if (!plan->roles || !plan->creations || !plan->meetings)
		return -ENOMEM;
	plan->shortest_ns = choose_shortest(lives, max_events);
	err = assign_procs(plan);
	if (!err)
		err = plan_creations(plan);
	for (size_t i = 0; !err && i < lives->n; i++)
		err = plan_life(plan, (uint32_t)i, &next);
	return err ? err : merge_meetings(plan);
}

void ppa_goplan_free(struct ppa_goplan *plan)
{
	ppa_vheap_free(plan->roles);
	ppa_vheap_free(plan->creations);
	ppa_vheap_free(plan->wakings);
	ppa_vheap_free(plan->meetings);
}
