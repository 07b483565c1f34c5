/* SPDX-License-Identifier: Apache-2.0
 *
 * Perfetto sorts what it reads and has no rules of what may follow what, so this is one pass: who there is, then thread by
 * thread its steps (proto/trace/steps.h, where overlapping waits are parted) as slices on the thread's track. What one
 * thread does to another is an arrow from a moment on its track to a moment on the other's. Regions nest with the waits; tasks have
 * tracks of their own. */
#include "proto/perfetto.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "agent/base/vheap.h"
#include "agent/snapshot/trace_input.h"
#include "proto/sink.h"
#include "proto/trace/goregions.h"
#include "proto/trace/lives.h"
#include "proto/trace/pfwire.h"
#include "proto/trace/steps.h"
#include "proto/trace/waits.h"

enum {
	PACKET_CLOCK_SNAPSHOT = 6,
	CLOCK_SNAPSHOT_CLOCKS = 1,
	CLOCK_ID = 1,
	CLOCK_TIMESTAMP = 2,
	CLOCK_REALTIME_ID = 1,
	CLOCK_MONOTONIC_ID = 3,
	CLOCK_BOOTTIME_ID = 6,

	PACKET_TRACK_DESCRIPTOR = 60,
	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_THREAD = 4,
	TRACK_PARENT_UUID = 5,
	TRACK_COUNTER = 8,
	PROCESS_PID = 1,
	PROCESS_NAME = 6,
	THREAD_PID = 1,
	THREAD_TID = 2,
	THREAD_NAME = 5,
	COUNTER_UNIT = 3,
	COUNTER_UNIT_SIZE_BYTES = 3,

	PACKET_TRACK_EVENT = 11,
	EVENT_DEBUG_ANNOTATIONS = 4,
	EVENT_TYPE = 9,
	EVENT_TRACK_UUID = 11,
	EVENT_CATEGORY_IIDS = 3,
	EVENT_NAME_IID = 10,
	EVENT_COUNTER_VALUE = 30,
	EVENT_FLOW_IDS = 47,
	EVENT_TERMINATING_FLOW_IDS = 48,
	EVENT_CALLSTACK_IID = 56,
	ANNOTATION_NAME_IID = 1,
	ANNOTATION_STRING_VALUE_IID = 17,
	SLICE_BEGIN = 1,
	SLICE_END = 2,
	INSTANT = 3,
	COUNTER = 4,

	PACKET_PERF_SAMPLE = 66,
	SAMPLE_CPU = 1,
	SAMPLE_PID = 2,
	SAMPLE_TID = 3,
	SAMPLE_CALLSTACK_IID = 4,
	SAMPLE_CPU_MODE = 5,
	CPU_MODE_USER = 2,
};

/* Tracks. */
enum { PROCESS_UUID = 1, HEAP_UUID = 2, RSS_UUID = 3 };
#define THREAD_UUID UINT64_C(0x100000000)
#define TASK_UUID UINT64_C(0x200000000)

struct writer {
	const struct ppa_trace_input *in;
	struct ppa_trace_lives lives;
	struct ppa_pfwire wire;
	struct ppa_go_said said;
	struct ppa_trace_table tasks; /* task -> number of its track */
	uint64_t flows;		      /* arrows so far */
	char text[160];
};

struct event {
	uint64_t at, track;
	unsigned type;
	const char *category, *name; /* NULL: none */
	const char *key, *value;     /* an annotation; NULL: none */
	uint32_t stack;		     /* of ppa_pfwire_stack; 0: none */
	uint64_t flow, flow_end;     /* 0: none */
};

static void write_event(struct writer *w, const struct event *e)
{
	struct ppa_pfwire *p = &w->wire;
	uint32_t category = ppa_pfwire_word(p, PPA_PF_CATEGORIES, e->category);
	uint32_t name = ppa_pfwire_word(p, PPA_PF_EVENT_NAMES, e->name);
	uint32_t key = ppa_pfwire_word(p, PPA_PF_ANNOTATION_NAMES, e->key);
	uint32_t value = ppa_pfwire_word(p, PPA_PF_ANNOTATION_VALUES, e->value);
	size_t event, note;

	ppa_pfwire_packet(p, e->at);
	event = ppa_pfwire_begin(p, PACKET_TRACK_EVENT);
	ppa_pfwire_uint(p, EVENT_TYPE, e->type);
	ppa_pfwire_uint(p, EVENT_TRACK_UUID, e->track);
	if (category)
		ppa_pfwire_uint(p, EVENT_CATEGORY_IIDS, category);
	if (name)
		ppa_pfwire_uint(p, EVENT_NAME_IID, name);
	if (key && value) {
		note = ppa_pfwire_begin(p, EVENT_DEBUG_ANNOTATIONS);
		ppa_pfwire_uint(p, ANNOTATION_NAME_IID, key);
		ppa_pfwire_uint(p, ANNOTATION_STRING_VALUE_IID, value);
		ppa_pfwire_end(p, note);
	}
	if (e->stack)
		ppa_pfwire_uint(p, EVENT_CALLSTACK_IID, e->stack);
	if (e->flow)
		ppa_pfwire_fixed64(p, EVENT_FLOW_IDS, e->flow);
	if (e->flow_end)
		ppa_pfwire_fixed64(p, EVENT_TERMINATING_FLOW_IDS, e->flow_end);
	ppa_pfwire_end(p, event);
	ppa_pfwire_packet_end(p);
}

/* -- who and what there is ----------------------------------------------------------------------------------------- */

static void write_clocks(struct writer *w)
{
	const uint64_t clocks[][2] = {{CLOCK_BOOTTIME_ID, w->in->start_ns},
				      {CLOCK_MONOTONIC_ID, w->in->start_ns},
				      {CLOCK_REALTIME_ID, w->in->start_utc_ns > 0 ? (uint64_t)w->in->start_utc_ns : 0}};
	struct ppa_pfwire *p = &w->wire;
	size_t snapshot, clock;

	/* Packets' times are taken for CLOCK_BOOTTIME, which runs like ours but over a sleep of the machine. */
	ppa_pfwire_packet(p, w->in->start_ns);
	snapshot = ppa_pfwire_begin(p, PACKET_CLOCK_SNAPSHOT);
	for (size_t i = 0; i < PPA_ARRAY_LEN(clocks); i++) {
		clock = ppa_pfwire_begin(p, CLOCK_SNAPSHOT_CLOCKS);
		ppa_pfwire_uint(p, CLOCK_ID, clocks[i][0]);
		ppa_pfwire_uint(p, CLOCK_TIMESTAMP, clocks[i][1]);
		ppa_pfwire_end(p, clock);
	}
	ppa_pfwire_end(p, snapshot);
	ppa_pfwire_packet_end(p);
}

static void write_process(struct writer *w)
{
	struct ppa_pfwire *p = &w->wire;
	size_t track, process;

	ppa_pfwire_packet(p, w->in->start_ns);
	track = ppa_pfwire_begin(p, PACKET_TRACK_DESCRIPTOR);
	ppa_pfwire_uint(p, TRACK_UUID, PROCESS_UUID);
	process = ppa_pfwire_begin(p, TRACK_PROCESS);
	ppa_pfwire_uint(p, PROCESS_PID, w->in->pid);
	ppa_pfwire_text(p, PROCESS_NAME, w->in->program);
	ppa_pfwire_end(p, process);
	ppa_pfwire_end(p, track);
	ppa_pfwire_packet_end(p);
}

static void write_thread(struct writer *w, uint32_t i)
{
	const struct ppa_trace_life *life = &w->lives.list[i];
	struct ppa_pfwire *p = &w->wire;
	size_t track, thread;

	ppa_pfwire_packet(p, life->birth);
	track = ppa_pfwire_begin(p, PACKET_TRACK_DESCRIPTOR);
	ppa_pfwire_uint(p, TRACK_UUID, THREAD_UUID + i);
	ppa_pfwire_uint(p, TRACK_PARENT_UUID, PROCESS_UUID);
	thread = ppa_pfwire_begin(p, TRACK_THREAD);
	ppa_pfwire_uint(p, THREAD_PID, w->in->pid);
	ppa_pfwire_uint(p, THREAD_TID, life->tid);
	if (life->thread->name && *life->thread->name)
		ppa_pfwire_text(p, THREAD_NAME, life->thread->name);
	ppa_pfwire_end(p, thread);
	ppa_pfwire_end(p, track);
	ppa_pfwire_packet_end(p);
}

static void write_counter_track(struct writer *w, uint64_t uuid, const char *name)
{
	struct ppa_pfwire *p = &w->wire;
	size_t track, counter;

	ppa_pfwire_packet(p, w->in->start_ns);
	track = ppa_pfwire_begin(p, PACKET_TRACK_DESCRIPTOR);
	ppa_pfwire_uint(p, TRACK_UUID, uuid);
	ppa_pfwire_uint(p, TRACK_PARENT_UUID, PROCESS_UUID);
	ppa_pfwire_text(p, TRACK_NAME, name);
	counter = ppa_pfwire_begin(p, TRACK_COUNTER);
	ppa_pfwire_uint(p, COUNTER_UNIT, COUNTER_UNIT_SIZE_BYTES);
	ppa_pfwire_end(p, counter);
	ppa_pfwire_end(p, track);
	ppa_pfwire_packet_end(p);
}

static void write_count(struct writer *w, uint64_t at, uint64_t track, uint64_t bytes)
{
	struct ppa_pfwire *p = &w->wire;
	size_t event;

	if (bytes > INT64_MAX || at < w->in->start_ns || at > w->in->stop_ns)
		return;
	ppa_pfwire_packet(p, at);
	event = ppa_pfwire_begin(p, PACKET_TRACK_EVENT);
	ppa_pfwire_uint(p, EVENT_TYPE, COUNTER);
	ppa_pfwire_uint(p, EVENT_TRACK_UUID, track);
	ppa_pfwire_uint(p, EVENT_COUNTER_VALUE, bytes);
	ppa_pfwire_end(p, event);
	ppa_pfwire_packet_end(p);
}

static void write_counters(struct writer *w)
{
	if (!w->in->ncounters)
		return;
	write_counter_track(w, HEAP_UUID, "heap in use");
	write_counter_track(w, RSS_UUID, "resident memory");
	for (size_t i = 0; i < w->in->ncounters; i++) {
		write_count(w, w->in->counters[i].at_ns, HEAP_UUID, w->in->counters[i].heap_bytes);
		write_count(w, w->in->counters[i].at_ns, RSS_UUID, w->in->counters[i].rss_bytes);
	}
}

/* -- what threads do ----------------------------------------------------------------------------------------------- */

static const char *category_of(uint32_t kind)
{
	switch (kind) {
	case PPA_TRACE_NETWORK:
		return "network";
	case PPA_TRACE_FILE:
		return "syscall";
	case PPA_TRACE_SLEEP:
	case PPA_TRACE_PAUSE:
	case PPA_TRACE_CHILD:
		return "sleep";
	default:
		return "sync";
	}
}

static const char *name_of(const struct writer *w, uint32_t life)
{
	const char *name = w->lives.list[life].thread->name;

	return name ? name : "";
}

static void write_birth(struct writer *w, uint32_t i)
{
	const struct ppa_trace_life *life = &w->lives.list[i];
	uint64_t flow = 0;

	if (!life->is_newborn)
		return;
	if (life->creator != PPA_TRACE_NOBODY) {
		flow = ++w->flows;
		write_event(w,
			    &(struct event){.at = life->create_at,
					    .track = THREAD_UUID + life->creator,
					    .type = INSTANT,
					    .category = "thread",
					    .name = "pthread_create",
					    .key = "thread",
					    .value = name_of(w, i),
					    .stack = ppa_pfwire_stack(&w->wire, life->thread->create_stack,
								      w->lives.list[life->creator].thread->root_stack),
					    .flow = flow});
	}
	write_event(w, &(struct event){.at = life->birth,
				       .track = THREAD_UUID + i,
				       .type = INSTANT,
				       .category = "thread",
				       .name = "thread start",
				       .flow_end = flow});
}

static void write_wait(struct writer *w, uint32_t i, const struct ppa_trace_step *s, uint32_t root)
{
	uint64_t track = THREAD_UUID + i, flow;

	write_event(w, &(struct event){.at = s->at,
				       .track = track,
				       .type = SLICE_BEGIN,
				       .category = category_of(s->record->kind),
				       .name = ppa_trace_wait_reason(s->record->kind),
				       .stack = ppa_pfwire_stack(&w->wire, s->record->stack, root)});
	if (s->end == UINT64_MAX)
		return;
	write_event(w, &(struct event){.at = s->end, .track = track, .type = SLICE_END});
	if (s->waker == PPA_TRACE_NOBODY)
		return;
	flow = ++w->flows;
	write_event(w, &(struct event){.at = s->waker_at,
				       .track = THREAD_UUID + s->waker,
				       .type = INSTANT,
				       .category = "wake",
				       .name = "wakes",
				       .key = "thread",
				       .value = name_of(w, i),
				       .stack = ppa_pfwire_stack(&w->wire, s->record->wait.waker_stack,
								 w->lives.list[s->waker].thread->root_stack),
				       .flow = flow});
	write_event(w, &(struct event){.at = s->end,
				       .track = track,
				       .type = INSTANT,
				       .category = "wake",
				       .name = "woken",
				       .key = "by",
				       .value = name_of(w, s->waker),
				       .flow_end = flow});
}

static void write_sample(struct writer *w, const struct ppa_trace_step *s, uint64_t tid, uint32_t root)
{
	struct ppa_pfwire *p = &w->wire;
	uint32_t stack = ppa_pfwire_stack(p, s->record->stack, root);
	size_t sample;

	if (!stack)
		return;
	ppa_pfwire_packet(p, s->at);
	sample = ppa_pfwire_begin(p, PACKET_PERF_SAMPLE);
	ppa_pfwire_uint(p, SAMPLE_CPU, 0);
	ppa_pfwire_uint(p, SAMPLE_PID, w->in->pid);
	ppa_pfwire_uint(p, SAMPLE_TID, tid);
	ppa_pfwire_uint(p, SAMPLE_CALLSTACK_IID, stack);
	ppa_pfwire_uint(p, SAMPLE_CPU_MODE, CPU_MODE_USER);
	ppa_pfwire_end(p, sample);
	ppa_pfwire_packet_end(p);
}

/* A track of its own for a task; 0: it has one already, or there is no memory. */
static uint64_t begin_task(struct writer *w, uint64_t at, uint64_t task)
{
	uint32_t *number = ppa_trace_table_at(&w->tasks, task);
	struct ppa_pfwire *p = &w->wire;
	size_t track;

	if (!number)
		p->err = -ENOMEM;
	if (!number || *number)
		return 0;
	*number = (uint32_t)w->tasks.n;
	ppa_pfwire_packet(p, at);
	track = ppa_pfwire_begin(p, PACKET_TRACK_DESCRIPTOR);
	ppa_pfwire_uint(p, TRACK_UUID, TASK_UUID + *number);
	ppa_pfwire_uint(p, TRACK_PARENT_UUID, PROCESS_UUID);
	ppa_pfwire_text(p, TRACK_NAME, "tasks");
	ppa_pfwire_end(p, track);
	ppa_pfwire_packet_end(p);
	return TASK_UUID + *number;
}

static void write_task(struct writer *w, const struct ppa_trace_step *s, uint32_t stack)
{
	const struct ppa_trace_record *r = s->record;
	uint64_t track;

	if (r->kind == PPA_TRACE_TASK_END) {
		/* One that began before the window has no track to end on. */
		track = ppa_trace_table_find(&w->tasks, r->user.task);
		if (track)
			write_event(w, &(struct event){.at = s->at, .track = TASK_UUID + track, .type = SLICE_END});
		return;
	}
	track = begin_task(w, s->at, r->user.task);
	if (track)
		write_event(w, &(struct event){.at = s->at,
					       .track = track,
					       .type = SLICE_BEGIN,
					       .category = "task",
					       .name = ppa_trace_text(w->in, r->user.text),
					       .stack = stack});
}

static void write_region(struct writer *w, const struct ppa_trace_step *s, uint64_t track, uint32_t stack)
{
	const struct ppa_trace_record *r = s->record;
	struct ppa_go_region region = {r->user.task, r->user.text};

	if (r->kind == PPA_TRACE_REGION_BEGIN && ppa_go_region_begin(&w->said, region))
		write_event(w, &(struct event){.at = s->at,
					       .track = track,
					       .type = SLICE_BEGIN,
					       .category = "region",
					       .name = ppa_trace_text(w->in, r->user.text),
					       .stack = stack});
	for (size_t n = r->kind == PPA_TRACE_REGION_END ? ppa_go_region_end(&w->said, region) : 0; n; n--) {
		ppa_go_region_pop(&w->said);
		write_event(w, &(struct event){.at = s->at, .track = track, .type = SLICE_END});
	}
}

static void write_moment(struct writer *w, uint32_t i, const struct ppa_trace_step *s, uint32_t root)
{
	const struct ppa_trace_record *r = s->record;
	const char *text = ppa_trace_text(w->in, r->user.text);
	uint64_t track = THREAD_UUID + i;
	uint32_t stack = ppa_pfwire_stack(&w->wire, r->stack, root);

	if (r->kind == PPA_TRACE_TASK_BEGIN || r->kind == PPA_TRACE_TASK_END)
		write_task(w, s, stack);
	else if (r->kind == PPA_TRACE_REGION_BEGIN || r->kind == PPA_TRACE_REGION_END)
		write_region(w, s, track, stack);
	else if (r->kind == PPA_TRACE_NAME)
		write_event(w, &(struct event){.at = s->at,
					       .track = track,
					       .type = INSTANT,
					       .category = "thread",
					       .name = "thread renamed",
					       .key = "name",
					       .value = text});
	else
		write_event(w, &(struct event){.at = s->at,
					       .track = track,
					       .type = INSTANT,
					       .category = r->kind == PPA_TRACE_LOG ? "log" : "label",
					       .name = *text ? text : "log",
					       .key = r->kind == PPA_TRACE_LOG ? "message" : "value",
					       .value = ppa_trace_text(w->in, r->user.value),
					       .stack = stack});
}

static int write_life(struct writer *w, uint32_t i)
{
	const struct ppa_trace_life *life = &w->lives.list[i];
	uint32_t root = life->thread->root_stack;
	struct ppa_trace_walk walk;
	struct ppa_trace_step s;
	int err = ppa_trace_walk_begin(&walk, &w->lives, life, life->is_newborn ? life->birth : w->in->start_ns, 0);

	if (err)
		return err;
	w->said.nregions = 0;
	write_birth(w, i);
	while (ppa_trace_walk_next(&walk, &s)) {
		if (s.is_wait)
			write_wait(w, i, &s, root);
		else if (s.record->kind == PPA_TRACE_SAMPLE)
			write_sample(w, &s, life->tid, root);
		else
			write_moment(w, i, &s, root);
	}
	ppa_trace_walk_end(&walk);
	if (life->death != UINT64_MAX)
		write_event(w, &(struct event){.at = life->death,
					       .track = THREAD_UUID + i,
					       .type = INSTANT,
					       .category = "thread",
					       .name = "thread end"});
	return 0;
}

static void write_lost(struct writer *w)
{
	uint64_t lost = w->in->lost;

	for (size_t i = 0; i < w->in->nthreads; i++)
		lost += w->in->threads[i].lost;
	if (!lost)
		return;
	snprintf(w->text, sizeof(w->text), "pprofagent: %" PRIu64 " records lost", lost);
	write_event(w, &(struct event){.at = w->in->stop_ns, .track = PROCESS_UUID, .type = INSTANT, .name = w->text});
}

static int write_all(struct writer *w)
{
	int err = ppa_pfwire_init(&w->wire, w->in, w->wire.out);

	if (!err)
		err = ppa_trace_lives_init(&w->lives, w->in);
	if (err)
		return err;
	write_clocks(w);
	write_process(w);
	for (size_t i = 0; i < w->lives.n; i++)
		write_thread(w, (uint32_t)i);
	write_counters(w);
	for (size_t i = 0; !err && i < w->lives.n; i++)
		err = write_life(w, (uint32_t)i);
	write_lost(w);
	return err ? err : ppa_pfwire_finish(&w->wire);
}

int ppa_perfetto_encode(const struct ppa_trace_input *in, struct ppa_sink *out)
{
	struct writer *w;
	int err;

	if (!ppa_trace_is_sound(in))
		return -EINVAL;
	w = ppa_vheap_calloc(1, sizeof(*w));
	if (!w)
		return out->err = -ENOMEM;
	w->in = in;
	w->wire.out = out;
	err = write_all(w);
	if (err && !out->err)
		out->err = err;
	ppa_pfwire_free(&w->wire);
	ppa_trace_lives_free(&w->lives);
	ppa_go_said_free(&w->said);
	ppa_trace_table_free(&w->tasks);
	ppa_vheap_free(w);
	return err;
}
