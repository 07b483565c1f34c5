/* SPDX-License-Identifier: Apache-2.0
 *
 * Each thread is a goroutine on a processor of its own, which it keeps while it waits: so a thread's stream says nothing of
 * others but whom it created and woke. Thread by thread, its steps and those meetings are written by time.
 *
 * Go's reader refuses a file in which anything contradicts anything. What could has been put right before: threads by
 * proto/trace/lives.h, times and waits by steps.h, numbers by goplan.h, regions and tasks by goregions.h. It can
 * replay the result because all that one stream has to wait for in another one has an earlier time, and each stream's times never
 * fall: no ring of waiting is possible.
 *
 * Goroutine 1 is the agent's: it stands for nobody, but shows counters, creates who has no known creator, says what was lost,
 * and marks the window's end, which otherwise would be that of the last event. */
#include "proto/gotrace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "agent/base/vheap.h"
#include "agent/snapshot/trace_input.h"
#include "proto/sink.h"
#include "proto/trace/goplan.h"
#include "proto/trace/goregions.h"
#include "proto/trace/gowire.h"
#include "proto/trace/sort.h"
#include "proto/trace/waits.h"

enum { AGENT_G = 1, FIRST_G = 2, AGENT_P = 0, AGENT_M = 20000000 /* no thread's: Linux' ids end at 2^22 */ };

#define AGENT_NAME "runtime.pprofagent" /* "runtime." makes it one of the system's goroutines */

struct writer {
	const struct ppa_trace_input *in;
	struct ppa_trace_lives lives;
	struct ppa_goplan plan;
	struct ppa_gowire wire;
	struct ppa_go_said said;
	uint64_t *pseq; /* the last sequence number of each processor + 1; 0: it was not mentioned yet */
	size_t next_meeting;
	uint64_t last; /* time of the last event of all */
	size_t max_events;
	uint64_t unsaid; /* annotations left out */
	char lost[240];	 /* longer than what it holds ever is */

	/* the thread in hand */
	uint32_t self; /* index of its life; lives.n: our own */
	uint32_t root; /* its start routine's stack */
	uint64_t m, g, p, gseq, now;
};

/* Rows of the viewer's own have these thread ids. */
static uint64_t m_of(uint64_t tid)
{
	return tid >= 1000000 && tid <= 1000005 ? tid + 10000000 : tid;
}

static uint64_t stack_of(struct writer *w, uint32_t stack)
{
	uint64_t id = ppa_gowire_stack(&w->wire, stack, w->root);

	/* Tools up to Go 1.25 overlook events without a stack. */
	return id ? id
		  : ppa_gowire_root(&w->wire, w->self < w->lives.n ? w->plan.roles[w->self].some_stack : 0, w->root);
}

/* The stack of a thread's start routine alone. */
static uint64_t start_routine_of(struct writer *w, uint32_t life)
{
	uint64_t id = ppa_gowire_root(&w->wire, w->plan.roles[life].some_stack, w->lives.list[life].thread->root_stack);

	return id ? id : ppa_gowire_stack(&w->wire, PPA_TRACE_STACK_UNKNOWN, 0);
}

static void emit(struct writer *w, uint64_t at, enum ppa_go_event id, const uint64_t *args, size_t nargs)
{
	w->now = at > w->now ? at : w->now;
	ppa_gowire_event(&w->wire, at, id, args, nargs);
}

#define EMIT(w, at, id, ...)                                                                                           \
	emit(w, at, id, (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8)
#define EMIT0(w, at, id) emit(w, at, id, NULL, 0)

/* What this thread does to others, up to a time. */
static void meet(struct writer *w, uint64_t until)
{
	for (; w->next_meeting < w->plan.nmeetings; w->next_meeting++) {
		const struct ppa_go_meeting *m = w->plan.meetings[w->next_meeting];
		const struct ppa_trace_thread *guest = w->lives.list[m->guest].thread;
		uint64_t stack;

		if (m->host != w->self || m->at > until)
			return;
		stack = ppa_gowire_stack(&w->wire, m->stack, w->root);
		if (m->seq) {
			if (!stack)
				stack = ppa_gowire_stack(&w->wire, m->guest_stack, guest->root_stack);
			EMIT(w, m->at, PPA_GO_UNBLOCK, FIRST_G + (uint64_t)m->guest, m->seq, stack);
		} else {
			EMIT(w, m->at, PPA_GO_CREATE, FIRST_G + (uint64_t)m->guest, start_routine_of(w, m->guest),
			     stack);
		}
	}
}

static void take_proc(struct writer *w, uint64_t at)
{
	if (!w->pseq[w->p]) {
		EMIT(w, at, PPA_GO_PROC_STATUS, w->p, PPA_GO_PROC_IDLE);
		w->pseq[w->p] = 1;
	}
	EMIT(w, at, PPA_GO_PROC_START, w->p, w->pseq[w->p]);
	w->pseq[w->p]++;
}

static void block(struct writer *w, uint64_t at, const char *reason, uint64_t stack)
{
	EMIT(w, at, PPA_GO_BLOCK, ppa_gowire_string(&w->wire, reason), stack);
}

static void unblock_self(struct writer *w, uint64_t at, uint64_t stack)
{
	EMIT(w, at, PPA_GO_UNBLOCK, w->g, w->gseq + 1, stack);
}

static void resume(struct writer *w, uint64_t at)
{
	w->gseq += 2;
	EMIT(w, at, PPA_GO_START, w->g, w->gseq);
}

/* -- one thread ---------------------------------------------------------------------------------------------------- */

static void begin_life(struct writer *w, const struct ppa_trace_life *life)
{
	uint64_t at = ppa_goplan_begin(&w->lives, life), stack;

	w->root = life->thread->root_stack;
	w->m = m_of(life->tid);
	w->g = FIRST_G + (uint64_t)w->self;
	w->p = w->plan.roles[w->self].p;
	w->gseq = life->is_newborn;
	w->now = 0;
	ppa_gowire_thread(&w->wire, w->m);
	meet(w, at - 1);
	take_proc(w, at);
	if (life->is_newborn)
		EMIT(w, at, PPA_GO_START, w->g, w->gseq);
	else
		EMIT(w, at, PPA_GO_STATUS, w->g, PPA_GO_NONE, PPA_GO_RUNNING);
	if (life->thread->name && *life->thread->name)
		EMIT(w, at, PPA_GO_LABEL, ppa_gowire_string(&w->wire, life->thread->name));
	if (!life->is_newborn && !w->plan.roles[w->self].is_named) {
		stack = start_routine_of(w, w->self);
		/* A thread that did nothing and was in no sample hardly ran, whatever kept it from being looked at. */
		if (w->plan.roles[w->self].is_silent) {
			block(w, at, "not seen running", stack);
			return;
		}
		block(w, at, "trace start", stack);
		unblock_self(w, at, stack);
		resume(w, at);
	}
}

static void write_wait(struct writer *w, const struct ppa_trace_step *s)
{
	uint64_t stack = stack_of(w, s->record->stack);

	if (s->record->kind == PPA_TRACE_FILE) {
		EMIT(w, s->at, PPA_GO_SYSCALL_BEGIN, w->pseq[w->p], stack);
		w->pseq[w->p]++;
		meet(w, s->end == UINT64_MAX ? s->at : s->end);
		if (s->end != UINT64_MAX)
			EMIT0(w, s->end, PPA_GO_SYSCALL_END);
		return;
	}
	block(w, s->at, ppa_trace_wait_reason(s->record->kind), stack);
	if (s->end == UINT64_MAX)
		return;
	if (s->waker == PPA_TRACE_NOBODY) {
		meet(w, s->end - 1);
		unblock_self(w, s->end - 1, stack);
	}
	meet(w, s->end);
	resume(w, s->end);
}

static void write_region(struct writer *w, const struct ppa_trace_step *s, uint64_t stack)
{
	const struct ppa_trace_record *r = s->record;
	struct ppa_go_region region = {r->user.task, ppa_gowire_string(&w->wire, ppa_trace_text(w->in, r->user.text))};

	if (r->kind == PPA_TRACE_REGION_BEGIN) {
		if (ppa_go_region_begin(&w->said, region))
			EMIT(w, s->at, PPA_GO_USER_REGION_BEGIN, region.task, region.name, stack);
		return;
	}
	for (size_t n = ppa_go_region_end(&w->said, region); n; n--) {
		struct ppa_go_region inner = ppa_go_region_pop(&w->said);

		EMIT(w, s->at, PPA_GO_USER_REGION_END, inner.task, inner.name, stack);
	}
}

static void write_moment(struct writer *w, const struct ppa_trace_step *s)
{
	const struct ppa_trace_record *r = s->record;
	uint64_t text, value, stack;

	if (r->kind == PPA_TRACE_SAMPLE) {
		ppa_gowire_sample(&w->wire, s->at, w->m, w->p, w->g, ppa_gowire_stack(&w->wire, r->stack, w->root));
		return;
	}
	if (w->wire.nevents > w->max_events) {
		w->unsaid++;
		return;
	}
	text = ppa_gowire_string(&w->wire, ppa_trace_text(w->in, r->user.text));
	value = ppa_gowire_string(&w->wire, ppa_trace_text(w->in, r->user.value));
	stack = ppa_gowire_stack(&w->wire, r->stack, w->root);
	if (r->kind == PPA_TRACE_NAME)
		EMIT(w, s->at, PPA_GO_LABEL, text);
	else if (r->kind == PPA_TRACE_TASK_BEGIN && ppa_go_task_begin(&w->said, r->user.task))
		EMIT(w, s->at, PPA_GO_USER_TASK_BEGIN, r->user.task, r->user.parent, text, stack);
	else if (r->kind == PPA_TRACE_TASK_END && r->user.task && r->user.task != UINT64_MAX)
		EMIT(w, s->at, PPA_GO_USER_TASK_END, r->user.task, stack);
	else if (r->kind == PPA_TRACE_REGION_BEGIN || r->kind == PPA_TRACE_REGION_END)
		write_region(w, s, stack);
	else if (r->kind == PPA_TRACE_LOG || r->kind == PPA_TRACE_LABEL)
		EMIT(w, s->at, PPA_GO_USER_LOG, r->kind == PPA_TRACE_LOG ? r->user.task : 0, text, value, stack);
}

/* open: the wait that the thread is in, NULL: it runs. */
static void end_life(struct writer *w, const struct ppa_trace_life *life, const struct ppa_trace_step *open)
{
	if (life->death == UINT64_MAX) {
		meet(w, UINT64_MAX);
		return;
	}
	meet(w, life->death);
	if (open && open->record->kind == PPA_TRACE_FILE) {
		EMIT0(w, life->death, PPA_GO_SYSCALL_END);
	} else if (open) {
		unblock_self(w, life->death, stack_of(w, open->record->stack));
		resume(w, life->death);
	}
	meet(w, UINT64_MAX);
	EMIT0(w, life->death, PPA_GO_DESTROY);
	EMIT0(w, life->death, PPA_GO_PROC_STOP);
}

static int write_life(struct writer *w, uint32_t i)
{
	const struct ppa_trace_life *life = &w->lives.list[i];
	struct ppa_trace_walk walk;
	struct ppa_trace_step s, open = {0};
	int err;

	w->self = i;
	w->said.nregions = 0;
	begin_life(w, life);
	err = ppa_trace_walk_begin(&walk, &w->lives, life, w->now, w->plan.shortest_ns);
	if (err)
		return err;
	while (ppa_trace_walk_next(&walk, &s)) {
		if (s.record->kind == PPA_TRACE_SAMPLE) {
			write_moment(w, &s);
			continue;
		}
		meet(w, s.at);
		if (s.is_wait)
			write_wait(w, &s);
		else
			write_moment(w, &s);
		if (s.is_wait && s.end == UINT64_MAX)
			open = s;
	}
	ppa_trace_walk_end(&walk);
	end_life(w, life, open.record ? &open : NULL);
	w->last = w->now > w->last ? w->now : w->last;
	return 0;
}

/* Samples of threads that nobody knows. */
static void write_strays(struct writer *w)
{
	for (size_t i = 0; i < w->in->nthreads; i++) {
		const struct ppa_trace_thread *t = &w->in->threads[i];

		for (size_t k = 0; !t->tid && k < t->npieces; k++)
			for (size_t j = 0; j < t->pieces[k].n; j++) {
				const struct ppa_trace_record *r = &t->pieces[k].records[j];

				if (r->kind == PPA_TRACE_SAMPLE && r->at_ns >= w->in->start_ns &&
				    r->at_ns < w->in->stop_ns)
					ppa_gowire_sample(&w->wire, r->at_ns, PPA_GO_NONE, PPA_GO_NONE, 0,
							  ppa_gowire_stack(&w->wire, r->stack, 0));
			}
	}
}

/* -- our own thread ------------------------------------------------------------------------------------------------ */

static struct ppa_trace_key key_of_counter(const void *item)
{
	return (struct ppa_trace_key){((const struct ppa_trace_counter *)item)->at_ns, 0};
}

static void write_counter(struct writer *w, const struct ppa_trace_counter *c)
{
	meet(w, c->at_ns);
	if (c->heap_bytes != UINT64_MAX)
		EMIT(w, c->at_ns, PPA_GO_HEAP_ALLOC, c->heap_bytes);
	if (c->rss_bytes != UINT64_MAX)
		EMIT(w, c->at_ns, PPA_GO_HEAP_GOAL, c->rss_bytes);
}

static int write_counters(struct writer *w)
{
	const void **order = ppa_vheap_malloc((w->in->ncounters + 1) * sizeof(*order));
	size_t n = 0;
	int err;

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < w->in->ncounters; i++)
		if (w->in->counters[i].at_ns > w->in->start_ns && w->in->counters[i].at_ns < w->in->stop_ns)
			order[n++] = &w->in->counters[i];
	err = ppa_trace_sort(order, n, key_of_counter);
	for (size_t i = 0; !err && i < n; i++)
		write_counter(w, order[i]);
	ppa_vheap_free(order);
	return err;
}

/* Says what is missing; "" if nothing is. */
static const char *loss_of(struct writer *w)
{
	uint64_t lost = w->in->lost;
	size_t n;

	for (size_t i = 0; i < w->in->nthreads; i++)
		lost += w->in->threads[i].lost;
	if (!lost && !w->plan.left_out && !w->unsaid)
		return "";
	n = (size_t)snprintf(w->lost, sizeof(w->lost), AGENT_NAME ": %" PRIu64 " records lost", lost);
	if (w->plan.left_out)
		n += (size_t)snprintf(w->lost + n, sizeof(w->lost) - n,
				      ", %" PRIu64 " waits shorter than %" PRIu64 " ns left out", w->plan.left_out,
				      w->plan.shortest_ns);
	if (w->unsaid)
		snprintf(w->lost + n, sizeof(w->lost) - n, ", %" PRIu64 " annotations left out", w->unsaid);
	return w->lost;
}

static uint64_t agent_m(const struct writer *w)
{
	for (size_t i = 0; i < w->lives.n; i++)
		if (w->lives.list[i].tid == w->in->agent_tid)
			return AGENT_M;
	return w->in->agent_tid ? m_of(w->in->agent_tid) : AGENT_M;
}

static int write_agent(struct writer *w)
{
	uint64_t at = w->in->start_ns + 1, end, stack;
	const char *loss = loss_of(w);
	int err;

	/* As a function's name it stands in the table of goroutines. */
	w->wire.agent = *loss ? loss : NULL;
	stack = ppa_gowire_stack(&w->wire, PPA_TRACE_STACK_AGENT, 0);
	w->self = (uint32_t)w->lives.n;
	w->root = 0;
	w->g = AGENT_G;
	w->p = AGENT_P;
	w->m = agent_m(w);
	w->gseq = 0;
	w->now = 0;
	ppa_gowire_thread(&w->wire, w->m);
	take_proc(w, at);
	EMIT(w, at, PPA_GO_STATUS, w->g, PPA_GO_NONE, PPA_GO_RUNNING);
	EMIT(w, at, PPA_GO_LABEL, ppa_gowire_string(&w->wire, "pprofagent"));
	EMIT(w, at, PPA_GO_PROCS_CHANGE, w->plan.nprocs, stack);
	block(w, at, "sleep", stack);
	err = write_counters(w);
	meet(w, UINT64_MAX);
	end = w->in->stop_ns > w->last ? w->in->stop_ns : w->last;
	end = end > w->now ? end : w->now;
	unblock_self(w, end, stack);
	resume(w, end);
	if (*loss)
		EMIT(w, end, PPA_GO_USER_LOG, 0, ppa_gowire_string(&w->wire, "pprofagent"),
		     ppa_gowire_string(&w->wire, loss), stack);
	block(w, end, "sleep", stack);
	return err;
}

/* -- all of it ----------------------------------------------------------------------------------------------------- */

static int write_all(struct writer *w)
{
	int err = 0;

	w->pseq = ppa_vheap_calloc(w->plan.nprocs, sizeof(*w->pseq));
	if (!w->pseq)
		return -ENOMEM;
	for (size_t i = 0; !err && i < w->lives.n; i++)
		err = write_life(w, (uint32_t)i);
	if (err)
		return err;
	write_strays(w);
	err = write_agent(w);
	return err ? err : ppa_gowire_finish(&w->wire);
}

int ppa_gotrace_encode(const struct ppa_trace_input *in, const struct ppa_gotrace_options *opt, struct ppa_sink *out)
{
	struct writer *w;
	int err;

	if (!ppa_trace_is_sound(in))
		return -EINVAL;
	w = ppa_vheap_calloc(1, sizeof(*w));
	if (!w)
		return out->err = -ENOMEM;
	w->in = in;
	w->max_events = opt && opt->max_events ? opt->max_events : PPA_GOTRACE_MAX_EVENTS;
	err = ppa_gowire_init(&w->wire, in, opt && opt->version ? opt->version : PPA_GOTRACE_22, out);
	if (!err)
		err = ppa_trace_lives_init(&w->lives, in);
	if (!err)
		err = ppa_goplan_init(&w->plan, &w->lives, w->max_events);
	if (!err)
		err = write_all(w);
	if (err && !out->err)
		out->err = err;
	ppa_gowire_free(&w->wire);
	ppa_goplan_free(&w->plan);
	ppa_trace_lives_free(&w->lives);
	ppa_go_said_free(&w->said);
	ppa_vheap_free(w->pseq);
	ppa_vheap_free(w);
	return err;
}
