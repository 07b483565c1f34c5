/* SPDX-License-Identifier: Apache-2.0 */
// link: proto/gotrace.c proto/perfetto.c @trace proto/sink.c proto/strtab.c proto/utf8.c proto/sound.c test/fakes/vheap.c
/* Promise: whatever the recorder hands over, both writers end, read only what is theirs, and give a file whose outer
 * form holds: a Go trace of batches that fit, in which no thread's time falls and no number of a wake-up or start is
 * missing or twice; a Perfetto trace of packets that fit. Memory that runs out is an error and no leak.
 *
 * The input is threads and records as they lie in memory, with times brought near the window. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/snapshot/trace_input.h"
#include "proto/gotrace.h"
#include "proto/perfetto.h"
#include "proto/sink.h"
#include "test/fakes/vheap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { THREADS = 6, MOST = 400, GS = THREADS + 2, T0 = 1 << 20, LENGTH = 1 << 14 };

#define REQUIRE(claim)                                                                                                 \
	do {                                                                                                           \
		if (!(claim))                                                                                          \
			__builtin_trap();                                                                              \
	} while (0)

static const struct ppa_mapping mappings[] = {{.filename = "/bin/a", .build_id = "00ff"},
					      {.filename = "/lib/libc.so.6"}};
static const struct ppa_function functions[] = {{.name = "f"}, {.name = "g", .filename = "g.c"}, {.name = "_start"}};
static const struct ppa_line lines[] = {{0, 1}, {1, 2}, {2, 3}};
static const struct ppa_location locations[] = {
	{0x10, 0, 0, 2, 0}, {0x20, 1, 1, 1, 0}, {0x30, PPA_SNAPSHOT_NO_MAPPING, 2, 1, 0}};
static const uint32_t stack_locs[] = {0, 1, 2, 0, 0, 1};
static const struct ppa_snap_sample samples[] = {{.nlocs = 3}, {.first_loc = 3, .nlocs = 3}, {.nlocs = 0}};
static const struct ppa_snapshot stacks = {.mappings = mappings,
					   .nmappings = 2,
					   .functions = functions,
					   .nfunctions = 3,
					   .lines = lines,
					   .nlines = 3,
					   .locations = locations,
					   .nlocations = 3,
					   .stack_locs = stack_locs,
					   .nstack_locs = 6,
					   .samples = samples,
					   .nsamples = 3};
static const char *const texts[] = {"", "a", "b\xff"};

static uint64_t near(uint64_t t)
{
	return t % 5 ? T0 - LENGTH / 8 + t % (LENGTH + LENGTH / 4) : t;
}

/* -- the form of what comes out ------------------------------------------------------------------------------------ */

static const uint8_t *at, *limit;

static uint64_t number(void)
{
	uint64_t v = 0;

	for (unsigned shift = 0;; shift += 7) {
		REQUIRE(at < limit && shift < 70);
		v |= (uint64_t)(*at & 0x7f) << shift;
		if (!(*at++ & 0x80))
			return v;
	}
}

static void read_events(uint64_t now, uint64_t *last, uint32_t *seqs, const uint8_t *end)
{
	static const int nargs[] = {
		[9] = 2,  [10] = 2, [11] = 0, [13] = 2, [14] = 3, [16] = 2, [17] = 0, [20] = 2, [21] = 3, [22] = 2,
		[23] = 0, [25] = 3, [37] = 1, [38] = 1, [39] = 1, [40] = 4, [41] = 2, [42] = 3, [43] = 3, [44] = 4};

	while (at < end) {
		uint64_t args[4];
		unsigned id = *at++;

		REQUIRE(id < PPA_ARRAY_LEN(nargs) && (nargs[id] || id == 11 || id == 17 || id == 23));
		now += number();
		REQUIRE(now >= *last);
		*last = now;
		for (int i = 0; i < nargs[id]; i++)
			args[i] = number();
		if (id == 16 || id == 21) {
			REQUIRE(args[0] > 0 && args[0] < GS && args[1] > 0 && args[1] < 3 * MOST);
			REQUIRE(!seqs[args[0] * 3 * MOST + args[1]]++);
		}
	}
	REQUIRE(at == end);
}

static void check_go(const struct ppa_sink *out)
{
	static uint32_t seqs[GS * 3 * MOST];
	uint64_t m = UINT64_MAX, last = 0, batch_m, now, size;

	memset(seqs, 0, sizeof(seqs));
	REQUIRE(out->len > 16 && memcmp(out->bytes, "go 1.22 trace\0\0", 16) == 0);
	at = out->bytes + 16;
	limit = out->bytes + out->len;
	while (at < limit) {
		REQUIRE(*at++ == 1 && number() == 1);
		batch_m = number();
		now = number();
		size = number();
		REQUIRE(now > 0 && size > 0 && size <= 65536 && size <= (size_t)(limit - at));
		if (batch_m == UINT64_MAX) {
			REQUIRE(*at == 2 || *at == 4 || *at == 6 || *at == 8);
			at += size;
			continue;
		}
		if (batch_m != m)
			last = 0;
		m = batch_m;
		read_events(now, &last, seqs, at + size);
	}
	for (unsigned g = 1; g < GS; g++)
		for (unsigned i = 2; i < 3 * MOST; i++)
			REQUIRE(!seqs[g * 3 * MOST + i] || seqs[g * 3 * MOST + i - 1]);
}

static void check_perfetto(const struct ppa_sink *out)
{
	at = out->bytes;
	limit = out->bytes + out->len;
	while (at < limit) {
		uint64_t size;

		REQUIRE(number() == (1 << 3 | 2));
		size = number();
		REQUIRE(size > 0 && size <= (size_t)(limit - at));
		at += size;
	}
}

/* -- what goes in -------------------------------------------------------------------------------------------------- */

static void draw(const uint8_t **data, size_t *size, void *to, size_t bytes)
{
	size_t n = bytes < *size ? bytes : *size;

	memset(to, 0, bytes);
	memcpy(to, *data, n);
	*data += n;
	*size -= n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ppa_trace_thread threads[THREADS];
	struct ppa_trace_piece pieces[THREADS];
	struct ppa_trace_record *records;
	struct ppa_trace_counter counter;
	uint8_t head[4];
	size_t n, per;
	struct ppa_sink out;

	draw(&data, &size, head, sizeof(head));
	draw(&data, &size, &counter, sizeof(counter));
	for (unsigned i = 0; i < THREADS; i++) {
		draw(&data, &size, &threads[i], offsetof(struct ppa_trace_thread, lost));
		threads[i].name = i % 2 ? "name" : NULL;
		threads[i].tid %= THREADS;
		threads[i].creator_tid %= THREADS;
		threads[i].start_ns = threads[i].start_ns ? near(threads[i].start_ns) : 0;
		threads[i].exit_ns = threads[i].exit_ns ? near(threads[i].exit_ns) : 0;
		threads[i].create_ns = near(threads[i].create_ns);
		threads[i].lost = 0;
	}
	n = size / sizeof(*records) < MOST ? size / sizeof(*records) : MOST;
	records = malloc(n * sizeof(*records) + 1); /* exactly that size, so that the sanitizer sees one too many */
	REQUIRE(records);
	memcpy(records, data, n * sizeof(*records));
	per = n / THREADS;
	for (size_t i = 0; i < n; i++) {
		records[i].kind %= PPA_TRACE_KINDS + 1;
		records[i].at_ns = near(records[i].at_ns);
		records[i].stack %= 5;
		if (records[i].kind < PPA_TRACE_SAMPLE) {
			records[i].wait.end_ns = records[i].wait.end_ns % 8 ? near(records[i].wait.end_ns) : 0;
			records[i].wait.waker_ns = near(records[i].wait.waker_ns);
			records[i].wait.waker_tid %= THREADS + 1;
		} else {
			records[i].user.task %= 4;
			records[i].user.text %= 4;
		}
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pieces[i] = (struct ppa_trace_piece){records + i * per, per};
		threads[i].pieces = &pieces[i];
		threads[i].npieces = 1;
	}
	ppa_sink_init(&out);
	fake_vheap_budget = head[0] % 4 ? -1 : head[1];
	for (unsigned format = 0; format < 2; format++) {
		const struct ppa_trace_input in = {.start_ns = T0,
						   .stop_ns = T0 + LENGTH,
						   .pid = 1,
						   .agent_tid = head[2] % THREADS,
						   .program = "p",
						   .texts = texts,
						   .ntexts = 3,
						   .stacks = head[3] % 8 ? &stacks : NULL,
						   .threads = threads,
						   .nthreads = THREADS,
						   .counters = &counter,
						   .ncounters = 1};
		int err = format ? ppa_perfetto_encode(&in, &out) : ppa_gotrace_encode(&in, NULL, &out);

		REQUIRE(err == out.err);
		if (!err && format)
			check_perfetto(&out);
		else if (!err)
			check_go(&out);
		ppa_sink_free(&out);
		REQUIRE(fake_vheap_live == 0);
	}
	free(records);
	return 0;
}
