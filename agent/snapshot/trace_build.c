/* SPDX-License-Identifier: Apache-2.0
 *
 * Tracks become threads, their records waits and moments, in the order in which they were written. What no record
 * tells is taken from the looks at both ends of the window: who waited before its calls were recorded at all, and who
 * waits still. A thread that was asleep at the beginning is taken to have been so until it gave its first sign of life,
 * less the CPU time it had used by then; one that is asleep at the end, since its last one, unless it says itself since
 * when. */
#include "agent/snapshot/trace_build.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "agent/dump/dump.h"
#include "agent/snapshot/past.h"
#include "agent/snapshot/trace_parts.h"
#include "agent/trace/buffer.h"
#include "agent/trace/samples.h"
#include "agent/trace/trace.h"

/* The one that is made: callbacks of the matcher have no argument to spare. Under the lock of whoever records. */
static struct ppa_trace_build *build;

/* ---- kinds ---- */

static const uint8_t kinds[PPA_PARKED_KINDS] = {
	[PPA_PARKED_MUTEX] = PPA_TRACE_MUTEX,	      [PPA_PARKED_RWLOCK_READ] = PPA_TRACE_RDLOCK,
	[PPA_PARKED_RWLOCK_WRITE] = PPA_TRACE_WRLOCK, [PPA_PARKED_CONDITION] = PPA_TRACE_COND,
	[PPA_PARKED_SEMAPHORE] = PPA_TRACE_SEM,	      [PPA_PARKED_BARRIER] = PPA_TRACE_BARRIER,
	[PPA_PARKED_SPIN] = PPA_TRACE_SPIN,	      [PPA_PARKED_JOIN] = PPA_TRACE_JOIN,
	[PPA_PARKED_FUTEX] = PPA_TRACE_FUTEX,	      [PPA_PARKED_IO] = PPA_TRACE_NETWORK,
	[PPA_PARKED_SLEEP] = PPA_TRACE_SLEEP,	      [PPA_PARKED_CHILD] = PPA_TRACE_CHILD,
};

static uint32_t kind_of_wait(const struct ppa_trace_head *head)
{
	uint32_t kind = head->sub < PPA_PARKED_KINDS ? kinds[head->sub] : PPA_TRACE_NOTHING;

	return kind == PPA_TRACE_NETWORK && head->extra == PPA_TRACE_FD_FILE ? PPA_TRACE_FILE : kind;
}

static const struct {
	int nr;
	uint32_t kind;
} calls[] = {
	{SYS_futex, PPA_TRACE_FUTEX},		{SYS_clock_nanosleep, PPA_TRACE_SLEEP},
	{SYS_nanosleep, PPA_TRACE_SLEEP},	{SYS_restart_syscall, PPA_TRACE_SLEEP},
#ifdef SYS_poll
	{SYS_poll, PPA_TRACE_NETWORK},		{SYS_select, PPA_TRACE_NETWORK},
	{SYS_epoll_wait, PPA_TRACE_NETWORK},	{SYS_pause, PPA_TRACE_PAUSE},
#endif
	{SYS_ppoll, PPA_TRACE_NETWORK},		{SYS_pselect6, PPA_TRACE_NETWORK},
	{SYS_epoll_pwait, PPA_TRACE_NETWORK},	{441 /* epoll_pwait2 */, PPA_TRACE_NETWORK},
	{SYS_read, PPA_TRACE_NETWORK},		{SYS_readv, PPA_TRACE_NETWORK},
	{SYS_write, PPA_TRACE_NETWORK},		{SYS_writev, PPA_TRACE_NETWORK},
	{SYS_recvfrom, PPA_TRACE_NETWORK},	{SYS_recvmsg, PPA_TRACE_NETWORK},
	{SYS_recvmmsg, PPA_TRACE_NETWORK},	{SYS_sendto, PPA_TRACE_NETWORK},
	{SYS_sendmsg, PPA_TRACE_NETWORK},	{SYS_accept, PPA_TRACE_NETWORK},
	{SYS_accept4, PPA_TRACE_NETWORK},	{SYS_connect, PPA_TRACE_NETWORK},
	{SYS_wait4, PPA_TRACE_CHILD},		{SYS_waitid, PPA_TRACE_CHILD},
	{SYS_rt_sigtimedwait, PPA_TRACE_PAUSE}, {SYS_rt_sigsuspend, PPA_TRACE_PAUSE},
};

/* What a sleeper waits for: its own word first, then the system call. All others are about files and the like. */
static uint32_t kind_of_sleeper(const struct ppa_dump_thread *d)
{
	if (d->is_parked && d->parked.kind < PPA_PARKED_KINDS && d->parked.kind != PPA_PARKED_IO)
		return kinds[d->parked.kind];
	for (size_t i = 0; i < PPA_ARRAY_LEN(calls); i++)
		if (calls[i].nr == d->syscall_nr)
			return calls[i].kind;
	return PPA_TRACE_FILE;
}

/* ---- records ---- */

static void note_life(struct ppa_trace_entry *e, uint64_t from_ns, uint64_t to_ns)
{
	if (from_ns < e->first_ns)
		e->first_ns = from_ns;
	if (to_ns > e->last_ns)
		e->last_ns = to_ns;
}

static bool needs_waker(uint32_t kind, enum ppa_trace_match *how)
{
	switch (kind) {
	case PPA_TRACE_MUTEX:
	case PPA_TRACE_RDLOCK:
	case PPA_TRACE_WRLOCK:
	case PPA_TRACE_SPIN:
		*how = PPA_MATCH_LAST;
		return true;
	case PPA_TRACE_COND:
	case PPA_TRACE_SEM:
	case PPA_TRACE_FUTEX:
		*how = PPA_MATCH_QUEUE;
		return true;
	case PPA_TRACE_BARRIER:
		*how = PPA_MATCH_BARRIER;
		return true;
	case PPA_TRACE_JOIN:
		*how = PPA_MATCH_JOIN;
		return true;
	default:
		return false;
	}
}

static void add_wait(struct ppa_trace_entry *e, const struct ppa_trace_head *head, const uint64_t *words)
{
	struct ppa_trace_record r = {.at_ns = words[0], .kind = kind_of_wait(head)};
	enum ppa_trace_match how;
	bool is_woken = needs_waker(r.kind, &how) && !(head->flags & PPA_ENTRY_FLAG_VAIN);

	if (words[1] < build->input.start_ns || words[0] > build->input.stop_ns)
		return;
	r.wait.end_ns = words[1];
	r.stack = ppa_trace_stack_of_site(build, (const struct ppa_site *)(uintptr_t)words[2]);
	note_life(e, words[0], words[1]);
	if (is_woken)
		ppa_trace_add_want(build,
				   &(struct ppa_trace_want){.object = words[3],
							    .begin_ns = words[0],
							    .end_ns = words[1],
							    .tid = e->out.tid,
							    .stack = r.stack,
							    .how = how},
				   e, e->n);
	ppa_trace_add_record(build, e, &r);
}

static void add_wake(const struct ppa_trace_entry *e, uint64_t at_ns, uint32_t stack, uintptr_t object, bool is_all)
{
	ppa_trace_add_wake(
		build, &(struct ppa_trace_wake){
			       .object = object, .at_ns = at_ns, .tid = e->out.tid, .stack = stack, .is_all = is_all});
}

static void add_note(struct ppa_trace_entry *e, const struct ppa_trace_head *head, const uint64_t *words)
{
	static const uint8_t note_kinds[PPA_NOTE_KINDS] = {
		[PPA_NOTE_TASK_BEGIN] = PPA_TRACE_TASK_BEGIN,
		[PPA_NOTE_TASK_END] = PPA_TRACE_TASK_END,
		[PPA_NOTE_REGION_BEGIN] = PPA_TRACE_REGION_BEGIN,
		[PPA_NOTE_REGION_END] = PPA_TRACE_REGION_END,
		[PPA_NOTE_LOG] = PPA_TRACE_LOG,
		[PPA_NOTE_LABEL] = PPA_TRACE_LABEL,
		[PPA_NOTE_NAME] = PPA_TRACE_NAME,
	};
	enum { FIXED = 4 };
	const char *text = (const char *)(words + FIXED), *value;
	size_t room = (size_t)(head->nwords - 1 - FIXED) * sizeof(*words), len;
	struct ppa_trace_record r = {.at_ns = words[0]};

	if (head->sub >= PPA_NOTE_KINDS || words[0] < build->input.start_ns || words[0] > build->input.stop_ns)
		return;
	len = strnlen(text, room);
	value = len < room ? text + len + 1 : "";
	if (len == room || strnlen(value, room - len - 1) == room - len - 1)
		return; /* never: both end in NUL */
	r.kind = note_kinds[head->sub];
	r.stack = ppa_trace_stack_of_site(build, (const struct ppa_site *)(uintptr_t)words[1]);
	r.user.task = words[2];
	r.user.parent = words[3];
	r.user.text = ppa_trace_parts_text(build, text);
	r.user.value = ppa_trace_parts_text(build, value);
	note_life(e, words[0], words[0]);
	ppa_trace_add_record(build, e, &r);
}

static void add_exit(struct ppa_trace_entry *e, const uint64_t *words)
{
	e->out.exit_ns = words[0];
	memcpy(e->name, words + 2, sizeof(e->name));
	e->name[sizeof(e->name) - 1] = '\0';
	note_life(e, words[0], words[0]);
	add_wake(e, words[0], ppa_trace_stack_of_site(build, (const struct ppa_site *)(uintptr_t)words[1]),
		 e->track->self, true);
}

static void add_entry(const struct ppa_trace_head *head, const uint64_t *words, void *arg)
{
	struct ppa_trace_entry *e = arg;
	uint32_t nwords = head->nwords - 1U;

	if (head->kind == PPA_ENTRY_WAIT && nwords == 4)
		add_wait(e, head, words);
	else if (head->kind == PPA_ENTRY_WAKE && nwords == 3)
		add_wake(e, words[0], ppa_trace_stack_of_site(build, (const struct ppa_site *)(uintptr_t)words[1]),
			 words[2], head->flags & PPA_ENTRY_FLAG_ALL);
	else if (head->kind == PPA_ENTRY_CREATED && nwords == 3)
		ppa_trace_add_birth(
			build, &(struct ppa_trace_birth){
				       words[2], words[0], e->out.tid,
				       ppa_trace_stack_of_site(build, (const struct ppa_site *)(uintptr_t)words[1])});
	else if (head->kind == PPA_ENTRY_EXIT && nwords == 4)
		add_exit(e, words);
	else if (head->kind == PPA_ENTRY_NOTE && nwords > 4)
		add_note(e, head, words);
}

static void add_track(struct ppa_trace_track *t, void *arg)
{
	uint64_t ended = atomic_load_explicit(&t->ended_ns, memory_order_relaxed);
	struct ppa_trace_entry *e;

	(void)arg;
	if (t->begin_ns > build->input.stop_ns || (ended && ended < build->input.start_ns))
		return;
	e = ppa_trace_entry_new(build, (uint32_t)t->tid, t->key);
	if (!e)
		return;
	e->track = t;
	e->out.start_ns = atomic_load_explicit(&t->born_ns, memory_order_relaxed);
	if (e->out.start_ns < build->input.start_ns)
		e->out.start_ns = 0;
	e->out.lost = atomic_load_explicit(&t->lost, memory_order_relaxed) +
		      atomic_load_explicit(&t->short_left_out, memory_order_relaxed);
	if (t->start_routine && !t->is_main)
		e->out.root_stack = ppa_trace_stack_of_pcs(build, &t->start_routine, 1);
	ppa_trace_each_record(t, add_entry, e);
}

static void add_sample(const struct ppa_trace_sample *s, void *arg)
{
	struct ppa_trace_record r = {.at_ns = s->at_ns, .kind = PPA_TRACE_SAMPLE};
	struct ppa_trace_entry *e;

	(void)arg;
	if (s->at_ns < build->input.start_ns || s->at_ns > build->input.stop_ns)
		return;
	e = ppa_trace_entry_of(build, s->tid, s->key, s->at_ns);
	if (!e)
		return;
	if (!e->name[0])
		memcpy(e->name, s->name, sizeof(e->name));
	r.stack = ppa_trace_stack_of_site(build, s->site);
	note_life(e, s->at_ns, s->at_ns);
	ppa_trace_add_record(build, e, &r);
}

static void add_births(void)
{
	for (size_t i = 0; i < build->nbirths; i++) {
		const struct ppa_trace_birth *b = &build->births[i];
		struct ppa_trace_entry *e = ppa_trace_entry_of_key(build, b->key);

		if (!e)
			continue;
		e->out.creator_tid = b->creator_tid;
		e->out.create_stack = b->stack;
		e->out.create_ns = b->at_ns;
	}
}

/* ---- looks ---- */

/* When a thread that slept at the beginning stopped; 0: not at all. */
static uint64_t woke_at(const struct ppa_trace_entry *e, const struct ppa_dump_thread *before,
			const struct ppa_dump_thread *after)
{
	uint64_t start = build->input.start_ns, cpu_ns = 0, until = e->first_ns;
	bool sleeps_again = after && after->is_asleep && after->is_parked && after->parked.since_ns > start;

	if (until != UINT64_MAX) {
		if (e->track && e->track->cpu_ns > before->cpu_ns && e->track->begin_ns >= until)
			cpu_ns = e->track->cpu_ns - before->cpu_ns;
	} else if (after && after->is_asleep && !sleeps_again) {
		return 0;
	} else {
		until = sleeps_again ? after->parked.since_ns : build->input.stop_ns;
		cpu_ns = after && after->cpu_ns > before->cpu_ns ? after->cpu_ns - before->cpu_ns : 0;
	}
	return cpu_ns < until - start ? until - cpu_ns : start + 1;
}

static void put_wait(struct ppa_trace_entry *e, const struct ppa_dump *d, const struct ppa_dump_thread *t,
		     uint64_t begin_ns, uint64_t end_ns)
{
	struct ppa_trace_record r = {.at_ns = begin_ns, .kind = kind_of_sleeper(t)};

	r.wait.end_ns = end_ns;
	r.stack = ppa_trace_stack_of_pcs(build, d->pcs + t->first_pc, t->npcs);
	ppa_trace_add_record(build, e, &r);
}

static void add_looks(struct ppa_trace_entry *e)
{
	const struct ppa_dump_thread *b = e->before, *a = e->after;
	uint64_t start = build->input.start_ns, stop = build->input.stop_ns, begin;

	/* A record that reaches over the beginning says more. */
	if (b && b->is_asleep && e->first_ns > start && woke_at(e, b, a))
		put_wait(e, build->window->before, b, start, woke_at(e, b, a));
	if (!a || !a->is_asleep)
		return;
	begin = a->is_parked ? a->parked.since_ns : 0;
	if (begin < e->last_ns)
		begin = e->last_ns + 1;
	if (begin < start && !(a->is_parked && a->parked.since_ns))
		begin = start;
	if (begin < stop)
		put_wait(e, build->window->after, a, begin, 0);
}

static void meet(const struct ppa_dump *d, bool is_end)
{
	for (size_t i = 0; d && i < d->nthreads; i++) {
		const struct ppa_dump_thread *t = &d->threads[i];
		struct ppa_trace_entry *e = is_end ? ppa_trace_entry_last(build, (uint32_t)t->tid)
						   : ppa_trace_entry_first(build, (uint32_t)t->tid);

		if (!e)
			e = ppa_trace_entry_new(build, (uint32_t)t->tid, UINT64_MAX);
		if (!e)
			return;
		if (is_end) {
			e->after = t;
			/* Who has left its start routine is there until the destructors of its keys have run. */
			e->out.exit_ns = 0;
		} else
			e->before = t;
		memcpy(e->name, t->name, sizeof(e->name));
	}
}

/* Without a word: cancelled, or ended by the system call. */
static void end_missing(struct ppa_trace_entry *e)
{
	if (build->window->after && !e->after && !e->out.exit_ns && e->out.tid)
		e->out.exit_ns = (e->last_ns > build->input.start_ns ? e->last_ns : build->input.start_ns) + 1;
}

static void set_waker(void *record, uint64_t at_ns, uint32_t tid, uint32_t stack)
{
	const struct ppa_trace_place *p = record;
	struct ppa_trace_record *r = &build->entries[p->entry]->records[p->record];

	r->wait.waker_ns = at_ns > r->at_ns ? at_ns : r->at_ns;
	r->wait.waker_tid = tid;
	r->wait.waker_stack = stack;
}

/* ---- the whole ---- */

static void fill(const struct ppa_trace_window *w)
{
	ppa_trace_each_track(add_track, NULL);
	meet(w->before, false);
	meet(w->after, true);
	ppa_trace_samples_each(add_sample, NULL);
	add_births();
	for (size_t i = 0; i < build->nentries; i++) {
		add_looks(build->entries[i]);
		end_missing(build->entries[i]);
	}
	ppa_trace_match_all(build, set_waker);
}

int ppa_trace_build(const struct ppa_trace_window *w, const struct ppa_trace_input **out)
{
	struct ppa_trace_build *b = ppa_trace_parts_new(w);
	int err;

	if (!b)
		return -ENOMEM;
	build = b;
	fill(w);
	build = NULL;
	err = ppa_trace_parts_finish(b);
	if (err)
		ppa_trace_parts_free(b);
	else
		*out = &b->input;
	return err;
}

void ppa_trace_build_free(const struct ppa_trace_input *in)
{
	ppa_trace_parts_free((struct ppa_trace_build *)(uintptr_t)in);
}
