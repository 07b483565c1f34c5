/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/dump/reader.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "agent/dump/state.h"
#include "agent/thread/ask.h"
#include "agent/thread/parked.h"
#include "agent/thread/timer.h"

enum { FIRST_PCS = 1024, FILE_BYTES = 512 };

struct ppa_dump_reader *ppa_dump_reader_new(const struct ppa_dump_setup *setup, uint8_t number, size_t npcs)
{
	struct ppa_dump_reader *r = ppa_vheap_malloc(sizeof(*r));

	if (!r)
		return NULL;
	/* All but the walk's memory. */
	memset(r, 0, offsetof(struct ppa_dump_reader, walk));
	memset(r->lines.at, 0, sizeof(r->lines.at));
	r->setup = *setup;
	r->setup.files.lines = &r->lines;
	r->number = number;
	r->cap = npcs < FIRST_PCS ? FIRST_PCS : npcs;
	r->pcs = ppa_vheap_malloc(r->cap * sizeof(*r->pcs));
	if (!r->pcs) {
		ppa_vheap_free(r);
		return NULL;
	}
	return r;
}

void ppa_dump_reader_free(struct ppa_dump_reader *r)
{
	if (r)
		ppa_vheap_free(r->pcs);
	ppa_vheap_free(r);
}

static void put_stack(struct ppa_dump_reader *r, struct ppa_dump_thread *t, const uintptr_t *pcs, uint32_t npcs)
{
	if (r->cap - r->npcs < npcs) {
		size_t cap = 2 * r->cap;
		uintptr_t *room;

		while (cap - r->npcs < npcs)
			cap *= 2;
		room = ppa_vheap_realloc(r->pcs, cap * sizeof(*room));
		if (!room) {
			r->err = -ENOMEM;
			return;
		}
		r->pcs = room;
		r->cap = cap;
	}
	memcpy(r->pcs + r->npcs, pcs, npcs * sizeof(*pcs));
	t->reader = r->number;
	t->is_gathered = false;
	t->first_pc = r->npcs;
	t->npcs = npcs;
	r->npcs += npcs;
}

void ppa_dump_put_walk(struct ppa_dump_reader *r, struct ppa_dump_thread *t, const struct ppa_unwind_buf *w)
{
	t->is_whole = w->end == PPA_UNWIND_COMPLETE;
	r->nincomplete += !t->is_whole;
	put_stack(r, t, w->pcs, w->npcs);
}

void ppa_dump_put_marker(struct ppa_dump_reader *r, struct ppa_dump_thread *t, enum ppa_marker m)
{
	uintptr_t pc = ppa_marker_address(m);

	put_stack(r, t, &pc, 1);
}

static void set_name(struct ppa_dump_thread *t, const char *name, size_t len)
{
	len = len < sizeof(t->name) - 1 ? len : sizeof(t->name) - 1;
	memset(t->name, 0, sizeof(t->name));
	memcpy(t->name, name, len);
}

/* The name alone. */
static void read_name(const struct ppa_look_files *f, struct ppa_dump_thread *t)
{
	char comm[FILE_BYTES];
	long n = ppa_look_file(f, t->tid, "comm", comm, sizeof(comm));

	if (n > 0)
		set_name(t, comm, (size_t)n - (comm[n - 1] == '\n'));
}

/* What was left standing by a jump out of a wait is not believed: the walk knows. */
static void note_look(const struct ppa_dump_reader *r, struct ppa_dump_thread *t, const struct ppa_look *look)
{
	t->is_asleep = look->is_asleep;
	t->is_parked = look->kind == PPA_LOOK_ASLEEP && r->walk.anchored && ppa_parked_read(t->slot, &t->parked);
	t->syscall_nr = t->is_asleep ? look->syscall_nr : -1;
	t->seen_ns = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	t->cpu_ns = look->cpu_ns;
}

/* Does it sleep in its system call, as far as the kernel's function tells, and is not held in it by a debugger or a stop? */
static bool is_plain_sleep(const struct ppa_look *look, const char *channel)
{
	return look->syscall_nr >= 0 && *channel && !strstr(channel, "stop") && !strstr(channel, "signal") &&
	       !strstr(channel, "trap");
}

/* The name, and what it is that the thread does. stat costs the kernel three times what the name alone does. */
static void read_state(const struct ppa_look_files *f, struct ppa_dump_thread *t, const struct ppa_look *look)
{
	char channel[PPA_LOOK_CHANNEL_MAX] = "", letter = 'S';

	if (look->is_asleep)
		ppa_look_channel(f, t->tid, channel);
	if (look->kind == PPA_LOOK_ASLEEP && is_plain_sleep(look, channel))
		read_name(f, t);
	else
		letter = ppa_look_letter(f, t->tid, t->name, sizeof(t->name));
	ppa_state_describe(look, letter, t->is_parked ? &t->parked : NULL, channel, t->state, sizeof(t->state));
}

/* Its clock stands where an earlier dump found it: it has slept since then at least. Some know better themselves. */
static void note_sleep(struct ppa_dump_thread *t)
{
	t->asleep_ns = 0;
	if (t->slot && !t->is_asleep) {
		t->slot->asleep_since_ns = 0;
	} else if (t->slot && (!t->slot->asleep_since_ns || t->slot->asleep_cpu_ns != t->cpu_ns)) {
		t->slot->asleep_since_ns = t->seen_ns;
		t->slot->asleep_cpu_ns = t->cpu_ns;
	} else if (t->slot) {
		t->asleep_ns = t->seen_ns - t->slot->asleep_since_ns;
	}
	if (t->is_parked && t->parked.since_ns && t->parked.since_ns < t->seen_ns)
		t->asleep_ns = t->seen_ns - t->parked.since_ns;
}

/* Its clock stands where the last dump left it: everything is as it was, but for what others can change. */
static bool read_from_last(struct ppa_dump_reader *r, pid_t tid, size_t place, struct ppa_thread *slot,
			   struct ppa_dump_thread *t)
{
	const struct ppa_dump *last = r->setup.last;
	const struct ppa_dump_thread *was = last ? ppa_dump_find(last, tid, place) : NULL;

	if (!was || !was->is_asleep || !was->is_whole || was->slot != slot ||
	    (r->setup.with_states && !was->state[0]) || ppa_look_clock(tid) != was->cpu_ns)
		return false;
	*t = *was;
	put_stack(r, t, last->pcs + was->first_pc, was->npcs);
	t->seen_ns = ppa_sys_clock_ns(CLOCK_MONOTONIC);
	t->tags = slot ? atomic_load_explicit(&slot->tags, memory_order_relaxed) : 0;
	note_sleep(t);
	if (!r->setup.keeps_names)
		read_name(&r->setup.files, t);
	return true;
}

static void ask_runner(const struct ppa_dump_reader *r, struct ppa_dump_thread *t)
{
	if (!r->setup.may_ask || (t->slot && ppa_timer_is_stack_too_small(t->slot)))
		return;
	t->question = ppa_ask_start(t->tid, t->slot ? &t->slot->bounds : NULL);
}

void ppa_dump_read(struct ppa_dump_reader *r, pid_t tid, size_t place, struct ppa_thread *slot,
		   struct ppa_dump_thread *t)
{
	struct ppa_look look;

	if (read_from_last(r, tid, place, slot, t))
		return;
	ppa_look(&r->setup.files, tid, slot, &look, &r->walk);
	if (look.kind == PPA_LOOK_GONE)
		return;
	t->tid = tid;
	t->slot = slot;
	t->question = -1;
	t->is_main = tid == r->setup.pid;
	t->creator = slot ? slot->creator : NULL;
	t->creator_tid = slot ? slot->creator_tid : 0;
	t->tags = slot ? atomic_load_explicit(&slot->tags, memory_order_relaxed) : 0;
	if (look.kind == PPA_LOOK_ASLEEP)
		ppa_dump_put_walk(r, t, &r->walk);
	else if (!look.is_asleep)
		ask_runner(r, t); /* also one that the kernel says nothing of */
	note_look(r, t, &look);
	note_sleep(t);
	if (r->setup.with_states)
		read_state(&r->setup.files, t, &look);
	else
		read_name(&r->setup.files, t);
}

enum ppa_look_kind ppa_dump_read_again(struct ppa_dump_reader *r, struct ppa_dump_thread *t)
{
	struct ppa_look look;

	ppa_look(&r->setup.files, t->tid, t->slot, &look, &r->walk);
	note_look(r, t, &look);
	if (look.kind == PPA_LOOK_ASLEEP) {
		ppa_dump_put_walk(r, t, &r->walk);
		if (r->setup.with_states)
			read_state(&r->setup.files, t, &look);
	} else {
		ppa_dump_put_marker(r, t, look.kind == PPA_LOOK_UNREADABLE ? PPA_MARKER_NO_STACK : PPA_MARKER_RUNNING);
	}
	return look.kind;
}
