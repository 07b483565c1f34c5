/* SPDX-License-Identifier: Apache-2.0
 *
 * Each thread is drawn by itself: a time to run, a wait, and so on to its end. A waker is any other thread that lives at
 * that time; that is enough for a trace that could have happened. Damage comes last, so that one seed gives the same world
 * with and without. */
#include "test/fakes/traceworld.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FUNCTIONS = 60, LOCATIONS = 90, STACKS = 120, TEXTS = 24, MAX_DEPTH = 200, COUNTERS = 40 };

struct traceworld {
	struct ppa_trace_input in;
	struct ppa_snapshot stacks;
	uint64_t random;
	struct ppa_mapping mappings[3];
	struct ppa_function functions[FUNCTIONS];
	struct ppa_line lines[2 * LOCATIONS];
	struct ppa_location locations[LOCATIONS];
	uint32_t stack_locs[STACKS * MAX_DEPTH];
	struct ppa_snap_sample samples[STACKS];
	char names[FUNCTIONS][1400];
	char text[TEXTS][32];
	const char *texts[TEXTS];
	struct ppa_trace_counter counters[COUNTERS];
	struct ppa_trace_thread *threads;
	struct ppa_trace_piece *pieces; /* two a thread */
};

/* xorshift64* */
static uint64_t any(struct traceworld *w)
{
	w->random ^= w->random >> 12;
	w->random ^= w->random << 25;
	w->random ^= w->random >> 27;
	return w->random * UINT64_C(0x2545f4914f6cdd1d);
}

static uint64_t below(struct traceworld *w, uint64_t n)
{
	return n ? (any(w) >> 11) % n : 0;
}

static bool chance(struct traceworld *w, unsigned percent)
{
	return below(w, 100) < percent;
}

static void make_code(struct traceworld *w)
{
	static const char *const special[] = {"main", "_start", "start_thread", "worker", "caf\xe9", ""};

	w->mappings[0] = (struct ppa_mapping){0x400000, 0x500000, 0, "/usr/bin/prog", "", true, false, false, false};
	w->mappings[1] = (struct ppa_mapping){0x7f0000000000, 0x7f0000100000, 0,    "/lib/libc.so.6", "", true,
					      false,	      false,	      false};
	w->mappings[2] = (struct ppa_mapping){0x7f1000000000, 0x7f1000100000, 0,    "/lib/libfoo.so", "", true,
					      false,	      false,	      false};
	for (unsigned i = 0; i < FUNCTIONS; i++) {
		if (i < PPA_ARRAY_LEN(special))
			snprintf(w->names[i], sizeof(w->names[i]), "%s", special[i]);
		else if (i == PPA_ARRAY_LEN(special))
			for (unsigned k = 0; k < 1200; k++) /* a template's name, two bytes a character */
				w->names[i][k] = k % 2 ? '\xa9' : '\xc3';
		else
			snprintf(w->names[i], sizeof(w->names[i]), "function_%u", i);
		w->functions[i] = (struct ppa_function){w->names[i], "", i % 3 ? "/src/file.c" : "", 0};
	}
	for (unsigned i = 0; i < LOCATIONS; i++) {
		uint32_t mapping = i % 5 == 4 ? PPA_SNAPSHOT_NO_MAPPING : i % 3;

		w->lines[2 * i] = (struct ppa_line){i % FUNCTIONS, i % 7};
		w->lines[2 * i + 1] = (struct ppa_line){(i + 7) % FUNCTIONS, 3};
		w->locations[i] = (struct ppa_location){0x400000 + 0x10000 * (uint64_t)(i % 3) + 16 * i, mapping, 2 * i,
							1 + i % 2, 0};
	}
}

static void make_stacks(struct traceworld *w)
{
	uint32_t at = 0;

	for (unsigned i = 0; i < STACKS; i++) {
		uint32_t n = i == 7 ? 0 : i % 20 == 0 ? MAX_DEPTH : 1 + (uint32_t)below(w, 12);

		w->samples[i] = (struct ppa_snap_sample){.first_loc = at, .nlocs = n};
		for (uint32_t k = 0; k < n; k++)
			w->stack_locs[at++] = (uint32_t)below(w, LOCATIONS);
	}
	w->stacks = (struct ppa_snapshot){.name = "trace",
					  .mappings = w->mappings,
					  .nmappings = 3,
					  .functions = w->functions,
					  .nfunctions = FUNCTIONS,
					  .lines = w->lines,
					  .nlines = 2 * LOCATIONS,
					  .locations = w->locations,
					  .nlocations = LOCATIONS,
					  .stack_locs = w->stack_locs,
					  .nstack_locs = at,
					  .samples = w->samples,
					  .nsamples = STACKS};
	w->in.stacks = &w->stacks;
}

static uint32_t some_stack(struct traceworld *w)
{
	return (uint32_t)below(w, STACKS + 1);
}

/* A tid that lives at this time, or 0. */
static uint32_t alive_at(struct traceworld *w, uint64_t at)
{
	for (unsigned i = 0; i < 4; i++) {
		const struct ppa_trace_thread *t = &w->threads[below(w, w->in.nthreads)];

		if (t->start_ns <= at && (!t->exit_ns || t->exit_ns > at))
			return t->tid;
	}
	return 0;
}

static void say(struct traceworld *w, struct ppa_trace_record *r, unsigned *depth)
{
	r->kind = PPA_TRACE_NAME + (uint32_t)below(w, PPA_TRACE_KINDS - PPA_TRACE_NAME);
	r->user.text = 1 + (uint32_t)below(w, TEXTS - 1);
	r->user.value = 1 + (uint32_t)below(w, TEXTS - 1);
	r->user.task = below(w, 40);
	r->user.parent = below(w, 40);
	if (r->kind == PPA_TRACE_REGION_BEGIN || r->kind == PPA_TRACE_REGION_END) {
		/* Mostly nested, by names that tell the depth. */
		*depth -= r->kind == PPA_TRACE_REGION_END && *depth;
		r->user.text = 1 + *depth % (TEXTS - 1);
		r->user.task = chance(w, 95) ? 0 : 3;
		*depth += r->kind == PPA_TRACE_REGION_BEGIN;
	}
}

/* The records of one thread, in the order in which they are written: at their ends. */
static size_t live(struct traceworld *w, const struct ppa_trace_thread *t, struct ppa_trace_record *r, size_t cap)
{
	uint64_t stop = t->exit_ns ? t->exit_ns : w->in.stop_ns + 1000;
	uint64_t now = t->start_ns ? t->start_ns + 1 : w->in.start_ns - below(w, 100000);
	uint64_t step = (w->in.stop_ns - w->in.start_ns) / (cap + 1);
	unsigned depth = 0;
	size_t n = 0;

	while (n < cap && now < stop) {
		struct ppa_trace_record *at = &r[n++];

		*at = (struct ppa_trace_record){.at_ns = now, .stack = some_stack(w)};
		if (chance(w, 60)) {
			at->kind = PPA_TRACE_MUTEX + (uint32_t)below(w, PPA_TRACE_FILE - PPA_TRACE_MUTEX + 1);
			now += chance(w, 10) ? below(w, 3) : below(w, 1 + step);
			at->wait.end_ns = now;
			if (chance(w, 3))
				at->wait.end_ns = 0;
			if (now > at->at_ns && chance(w, 70)) {
				at->wait.waker_ns = at->at_ns + below(w, now - at->at_ns + 1);
				at->wait.waker_tid = alive_at(w, at->wait.waker_ns);
				at->wait.waker_stack = some_stack(w);
			}
		} else if (chance(w, 50)) {
			at->kind = PPA_TRACE_SAMPLE;
		} else {
			say(w, at, &depth);
		}
		now += chance(w, 5) ? 0 : below(w, 1 + step);
	}
	return n;
}

static void make_threads(struct traceworld *w, unsigned n)
{
	uint64_t length = w->in.stop_ns - w->in.start_ns;

	w->in.nthreads = 2 * (size_t)n;
	w->threads = calloc(w->in.nthreads, sizeof(*w->threads));
	w->pieces = calloc(2 * w->in.nthreads, sizeof(*w->pieces));
	if (!w->threads || !w->pieces)
		abort();
	for (unsigned i = 0; i < w->in.nthreads; i++) {
		struct ppa_trace_thread *t = &w->threads[i];

		*t = (struct ppa_trace_thread){.tid = 1000 + i, .name = w->text[1 + i % (TEXTS - 1)]};
		t->root_stack = chance(w, 80) ? some_stack(w) : 0;
		if (i >= n) {
			/* The second half is born in the window, some with the id of one that has ended. */
			const struct ppa_trace_thread *of = &w->threads[below(w, i)];

			t->start_ns = w->in.start_ns + 200 + below(w, length - 400);
			t->creator_tid = of->tid;
			t->create_ns = t->start_ns - below(w, 100);
			t->create_stack = some_stack(w);
			if (of->exit_ns && of->exit_ns < t->start_ns && chance(w, 50))
				t->tid = of->tid;
		}
		if (chance(w, 50)) {
			t->exit_ns = w->in.start_ns + 100 + below(w, length);
			if (t->exit_ns <= t->start_ns)
				t->exit_ns = t->start_ns + 1;
		}
	}
	w->in.threads = w->threads;
}

static void make_records(struct traceworld *w, unsigned average)
{
	for (size_t i = 0; i < w->in.nthreads; i++) {
		struct ppa_trace_thread *t = &w->threads[i];
		size_t cap = below(w, 2 * (uint64_t)average + 1), n, first;
		struct ppa_trace_record *r = calloc(cap + 1, sizeof(*r));

		if (!r)
			abort();
		n = live(w, t, r, cap);
		first = below(w, n + 1);
		t->pieces = &w->pieces[2 * i];
		t->npieces = 2;
		w->pieces[2 * i] = (struct ppa_trace_piece){r, first};
		w->pieces[2 * i + 1] = (struct ppa_trace_piece){r + first, n - first};
	}
}

static void garble(struct traceworld *w, struct ppa_trace_record *r)
{
	uint64_t length = w->in.stop_ns - w->in.start_ns, around = w->in.start_ns - length / 4 + below(w, 2 * length);

	switch (below(w, 6)) {
	case 0:
		r->at_ns = around;
		break;
	case 1:
		r->wait.end_ns = around;
		break;
	case 2:
		r->kind = (uint32_t)below(w, PPA_TRACE_KINDS + 3);
		break;
	case 3:
		r->wait.waker_ns = around;
		r->wait.waker_tid = 1000 + (uint32_t)below(w, w->in.nthreads + 2);
		break;
	case 4:
		r->stack = (uint32_t)any(w);
		break;
	default:
		r->wait.end_ns = any(w);
		r->wait.waker_ns = any(w);
	}
}

static void damage_thread(struct traceworld *w, struct ppa_trace_thread *t, const struct traceworld_options *opt)
{
	uint64_t length = w->in.stop_ns - w->in.start_ns;

	if (chance(w, opt->lost_percent))
		t->exit_ns = 0;
	if (chance(w, opt->lost_percent))
		t->start_ns = 0;
	if (chance(w, opt->lost_percent))
		t->creator_tid = t->create_stack = 0;
	if (chance(w, opt->lost_percent))
		t->root_stack = 0;
	if (!chance(w, opt->nonsense_percent))
		return;
	t->start_ns = chance(w, 50) ? w->in.start_ns + below(w, length) : any(w);
	t->exit_ns = chance(w, 50) ? w->in.start_ns + below(w, length) : any(w);
	t->create_ns = chance(w, 50) ? w->in.start_ns + below(w, length) : any(w);
	t->tid = chance(w, 20) ? 0 : 1000 + (uint32_t)below(w, w->in.nthreads);
	t->creator_tid = 1000 + (uint32_t)below(w, w->in.nthreads);
}

static void damage(struct traceworld *w, const struct traceworld_options *opt)
{
	for (size_t i = 0; i < w->in.nthreads; i++) {
		damage_thread(w, &w->threads[i], opt);
		for (unsigned k = 0; k < 2; k++) {
			struct ppa_trace_piece *p = &w->pieces[2 * i + k];
			struct ppa_trace_record *r = (struct ppa_trace_record *)p->records;
			size_t kept = 0;

			for (size_t j = 0; j < p->n; j++) {
				if (chance(w, opt->lost_percent)) {
					w->threads[i].lost++;
					continue;
				}
				r[kept] = r[j];
				if (chance(w, opt->nonsense_percent))
					garble(w, &r[kept]);
				kept++;
			}
			p->n = kept;
		}
	}
}

struct traceworld *traceworld_new(const struct traceworld_options *opt)
{
	struct traceworld *w = calloc(1, sizeof(*w));

	if (!w)
		abort();
	w->random = opt->seed * 2 + 1;
	for (unsigned i = 0; i < 8; i++)
		any(w);
	w->in.start_ns = UINT64_C(1000000000000) + below(w, 1000000000);
	w->in.stop_ns = w->in.start_ns + (chance(w, 10) ? 1000 + below(w, 100000) : 1000000 + below(w, 1000000000));
	w->in.start_utc_ns = INT64_C(1700000000000000000);
	w->in.pid = 1000;
	w->in.agent_tid = 999;
	w->in.program = "prog";
	for (unsigned i = 1; i < TEXTS; i++)
		snprintf(w->text[i], sizeof(w->text[i]), "text %u", i);
	for (unsigned i = 0; i < TEXTS; i++)
		w->texts[i] = w->text[i];
	w->in.texts = w->texts;
	w->in.ntexts = TEXTS;
	make_code(w);
	make_stacks(w);
	make_threads(w, opt->threads ? opt->threads : 1);
	make_records(w, opt->records_a_thread);
	for (unsigned i = 0; i < COUNTERS; i++)
		w->counters[i] =
			(struct ppa_trace_counter){w->in.start_ns + below(w, w->in.stop_ns - w->in.start_ns),
						   below(w, 1 << 30), chance(w, 90) ? below(w, 1 << 30) : UINT64_MAX};
	w->in.counters = w->counters;
	w->in.ncounters = COUNTERS;
	if (opt->lost_percent || opt->nonsense_percent)
		damage(w, opt);
	return w;
}

const struct ppa_trace_input *traceworld_input(const struct traceworld *w)
{
	return &w->in;
}

void traceworld_free(struct traceworld *w)
{
	for (size_t i = 0; i < w->in.nthreads; i++)
		free((void *)w->pieces[2 * i].records);
	free(w->threads);
	free(w->pieces);
	free(w);
}
