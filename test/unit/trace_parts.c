/* SPDX-License-Identifier: Apache-2.0 */
// link: @trace proto/sink.c proto/strtab.c proto/utf8.c proto/sound.c test/fakes/vheap.c
/* Promise: two lives of one thread id never overlap, and a time tells which is meant.
 * Promise: a thread's steps follow each other strictly; a wait within a wait, and one that is over before it can begin,
 * are dropped; one without an end ends with the next sign of life, else never.
 * Promise: a waker's time lies strictly within the wait and within the waker's life; who is not there wakes nobody.
 * Promise: all stacks of a thread end in its start routine; what is too long keeps both ends.
 * Promise: a region's end closes what is open within it, or nothing. A task begins once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "proto/trace/frames.h"
#include "proto/trace/goregions.h"
#include "proto/trace/lives.h"
#include "proto/trace/sort.h"
#include "proto/trace/steps.h"
#include "test/fakes/vheap.h"

enum { T0 = 1000000, T1 = 2000000 };

static struct ppa_trace_input input_of(const struct ppa_trace_thread *threads, size_t n)
{
	return (struct ppa_trace_input){
		.start_ns = T0, .stop_ns = T1, .program = "", .threads = threads, .nthreads = n};
}

/* -- lives --------------------------------------------------------------------------------------------------------- */

static void reused_ids_are_told_apart(void **state)
{
	const struct ppa_trace_thread threads[] = {
		{.tid = 7, .start_ns = T0 + 5000, .exit_ns = T0 + 6000},
		{.tid = 7, .exit_ns = T0 + 4000},
		{.tid = 8},
		{.tid = 7, .start_ns = T0 + 7000, .creator_tid = 8},
	};
	struct ppa_trace_input in = input_of(threads, 4);
	struct ppa_trace_lives l;

	(void)state;
	assert_int_equal(ppa_trace_lives_init(&l, &in), 0);
	assert_int_equal(l.n, 4);
	assert_ptr_equal(l.list[ppa_trace_lives_at(&l, 7, T0 + 100)].thread, &threads[1]);
	assert_ptr_equal(l.list[ppa_trace_lives_at(&l, 7, T0 + 5500)].thread, &threads[0]);
	assert_ptr_equal(l.list[ppa_trace_lives_at(&l, 7, T0 + 6500)].thread, &threads[0]);
	assert_ptr_equal(l.list[ppa_trace_lives_at(&l, 7, T1)].thread, &threads[3]);
	assert_int_equal(ppa_trace_lives_at(&l, 9, T1), PPA_TRACE_NOBODY);
	assert_ptr_equal(l.list[l.list[3].creator].thread, &threads[2]);
	for (size_t i = 1; i < l.n; i++)
		assert_true(l.list[i - 1].birth <= l.list[i].birth);
	ppa_trace_lives_free(&l);
	assert_int_equal(fake_vheap_live, 0);
}

static void lives_that_contradict_are_parted(void **state)
{
	const struct ppa_trace_thread threads[] = {
		{.tid = 7},			   /* its end was lost */
		{.tid = 7, .start_ns = T0 + 5000}, /* this one's as well */
		{.tid = 7, .start_ns = T0 + 5001}, /* there is no room */
		{.tid = 9, .start_ns = T0 + 5000, .exit_ns = T0 + 10},
		{.tid = 10, .exit_ns = T0},  /* before the window */
		{.tid = 11, .start_ns = T1}, /* after it */
		{.tid = 0},		     /* nobody */
	};
	struct ppa_trace_input in = input_of(threads, 7);
	struct ppa_trace_lives l;

	(void)state;
	assert_int_equal(ppa_trace_lives_init(&l, &in), 0);
	assert_int_equal(l.n, 4);
	for (size_t i = 0; i < l.n; i++) {
		assert_true(l.list[i].death > l.list[i].birth);
		for (size_t k = 0; k < i; k++)
			assert_true(l.list[i].tid != l.list[k].tid || l.list[k].death < l.list[i].birth);
	}
	ppa_trace_lives_free(&l);
}

/* -- steps --------------------------------------------------------------------------------------------------------- */

#define WAIT(from, to, ...)                                                                                            \
	{                                                                                                              \
		.at_ns = T0 + (from), .wait = {.end_ns = (to) ? T0 + (to) : 0, __VA_ARGS__}, .stack = 1,               \
		.kind = PPA_TRACE_MUTEX                                                                                \
	}
#define SAY(at)                                                                                                        \
	{                                                                                                              \
		.at_ns = T0 + (at), .kind = PPA_TRACE_LOG                                                              \
	}

/* The steps of thread 7, which lives with 8, that is born at 300 and ends at 800. */
static size_t steps_of(const struct ppa_trace_record *records, size_t n, uint64_t exit, uint64_t shortest,
		       struct ppa_trace_step *steps, size_t cap)
{
	struct ppa_trace_piece piece = {records, n};
	const struct ppa_trace_thread threads[] = {
		{.tid = 7, .exit_ns = exit ? T0 + exit : 0, .pieces = &piece, .npieces = 1},
		{.tid = 8, .start_ns = T0 + 300, .exit_ns = T0 + 800},
	};
	struct ppa_trace_input in = input_of(threads, 2);
	struct ppa_trace_lives l;
	struct ppa_trace_walk w;
	size_t k = 0;

	assert_int_equal(ppa_trace_lives_init(&l, &in), 0);
	assert_int_equal(ppa_trace_walk_begin(&w, &l, &l.list[0], T0 + 1, shortest), 0);
	while (k < cap && ppa_trace_walk_next(&w, &steps[k]))
		k++;
	ppa_trace_walk_end(&w);
	ppa_trace_lives_free(&l);
	assert_int_equal(fake_vheap_live, 0);
	return k;
}

static void waits_are_parted(void **state)
{
	const struct ppa_trace_record records[] = {
		WAIT(150, 160),			/* within the next one: written before it */
		WAIT(100, 200), WAIT(180, 250), /* reaches out of it */
		SAY(220),			/* said while it waits: afterwards */
		WAIT(400, 0),	SAY(500),	/* left by a jump */
		WAIT(-50, -10), WAIT(600, 600), WAIT(900, 0),
	};
	struct ppa_trace_step s[9];

	(void)state;
	assert_int_equal(steps_of(records, 9, 0, 0, s, 9), 7);
	assert_true(s[0].is_wait && s[0].at == T0 + 100 && s[0].end == T0 + 200);
	assert_true(s[1].is_wait && s[1].at == T0 + 201 && s[1].end == T0 + 250);
	assert_true(!s[2].is_wait && s[2].at == T0 + 251);
	assert_true(s[3].is_wait && s[3].at == T0 + 400 && s[3].end == T0 + 500);
	assert_true(!s[4].is_wait && s[4].at == T0 + 501);
	assert_true(s[5].is_wait && s[5].at == T0 + 600 && s[5].end == T0 + 602);
	assert_true(s[6].is_wait && s[6].at == T0 + 900 && s[6].end == UINT64_MAX);
}

static void waits_that_began_before_the_window_are_there(void **state)
{
	const struct ppa_trace_record records[] = {WAIT(-500000, 700)};
	struct ppa_trace_step s[2];

	(void)state;
	assert_int_equal(steps_of(records, 1, 0, 0, s, 2), 1);
	assert_true(s[0].at == T0 + 2 && s[0].end == T0 + 700);
}

static void nothing_follows_the_end(void **state)
{
	const struct ppa_trace_record records[] = {
		WAIT(100, 600), SAY(700), WAIT(800, 900), {.at_ns = T0 + 950, .kind = PPA_TRACE_SAMPLE}};
	struct ppa_trace_step s[4];

	(void)state;
	assert_int_equal(steps_of(records, 4, 500, 0, s, 4), 2);
	assert_true(s[0].end == UINT64_MAX);
	assert_true(s[1].record->kind == PPA_TRACE_SAMPLE && s[1].at == T0 + 500);
}

static void short_waits_can_be_left_out(void **state)
{
	const struct ppa_trace_record records[] = {WAIT(100, 110), WAIT(200, 260), WAIT(300, 0)};
	struct ppa_trace_step s[3];

	(void)state;
	assert_int_equal(steps_of(records, 3, 0, 50, s, 3), 2);
	assert_true(s[0].at == T0 + 200);
}

static void wakers_were_there(void **state)
{
	const struct ppa_trace_record records[] = {
		WAIT(100, 200, .waker_tid = 8, .waker_ns = T0 + 150), /* not born */
		WAIT(310, 400, .waker_tid = 8, .waker_ns = T0 + 350),
		WAIT(410, 500, .waker_tid = 8, .waker_ns = T0 + 100),	  /* before it was waited */
		WAIT(510, 600, .waker_tid = 8),				  /* when, is not known */
		WAIT(610, 700, .waker_tid = 7, .waker_ns = T0 + 650),	  /* itself */
		WAIT(710, 900, .waker_tid = 8, .waker_ns = T0 + 850),	  /* by its end */
		WAIT(910, 1000, .waker_tid = 8, .waker_ns = T0 + 950),	  /* it has ended */
		WAIT(1010, 1100, .waker_tid = 99, .waker_ns = T0 + 1050), /* nobody */
	};
	struct ppa_trace_step s[8];

	(void)state;
	assert_int_equal(steps_of(records, 8, 0, 0, s, 8), 8);
	assert_int_equal(s[0].waker, PPA_TRACE_NOBODY);
	assert_true(s[1].waker == 1 && s[1].waker_at == T0 + 350);
	assert_true(s[2].waker == 1 && s[2].waker_at == T0 + 411);
	assert_true(s[3].waker == 1 && s[3].waker_at == T0 + 599);
	assert_int_equal(s[4].waker, PPA_TRACE_NOBODY);
	assert_true(s[5].waker == 1 && s[5].waker_at == T0 + 800);
	assert_int_equal(s[6].waker, PPA_TRACE_NOBODY);
	assert_int_equal(s[7].waker, PPA_TRACE_NOBODY);
}

/* -- stacks -------------------------------------------------------------------------------------------------------- */

static const struct ppa_mapping mappings[] = {{.filename = "/usr/bin/prog"}, {.filename = "/usr/lib/libc.so.6"}};
static const struct ppa_function functions[] = {{.name = "leaf"},
						{.name = "routine", .filename = "/src/r.c"},
						{.name = "libc.so.6+0x1000"},
						{.name = "_start"}};
static const struct ppa_line lines[] = {{0, 5}, {1, 0}, {1, 9}, {2, 0}, {3, 0}};
static const struct ppa_location locations[] = {
	{0x1000, 0, 0, 2, 0}, /* leaf inlined into routine */
	{0x1100, 0, 2, 1, 0}, /* routine */
	{0x9000, 1, 3, 1, 0}, /* libc */
	{0x1200, 0, 4, 1, 0}, /* _start */
	{0x1300, 0, 0, 1, 0}, /* leaf */
};
static uint32_t stack_locs[300] = {4, 1, 2, 3, /* a whole stack */ 4 /* a broken one */};
static const struct ppa_snap_sample samples[] = {{.first_loc = 0, .nlocs = 4},	  {.first_loc = 4, .nlocs = 1},
						 {.first_loc = 1, .nlocs = 1},	  {.first_loc = 2, .nlocs = 2},
						 {.first_loc = 0, .nlocs = 0},	  {.first_loc = 10, .nlocs = 200},
						 {.first_loc = 10, .nlocs = 128}, {.first_loc = 250, .nlocs = 1}};
static const struct ppa_snapshot stacks = {.mappings = mappings,
					   .nmappings = 2,
					   .functions = functions,
					   .nfunctions = 4,
					   .lines = lines,
					   .nlines = 5,
					   .locations = locations,
					   .nlocations = 5,
					   .stack_locs = stack_locs,
					   .nstack_locs = 300,
					   .samples = samples,
					   .nsamples = 8};
enum { WHOLE = 1, BROKEN, ROUTINE, ONLY_LIBC, EMPTY, LONG, FULL, INLINED };

static const struct ppa_trace_input with_stacks = {.start_ns = T0, .stop_ns = T1, .stacks = &stacks};
static struct ppa_trace_frame f[PPA_TRACE_MAX_FRAMES];

static void stacks_end_in_the_start_routine(void **state)
{
	(void)state;
	for (uint32_t root = 0; root <= ROUTINE; root += ROUTINE) {
		assert_int_equal(ppa_trace_frames(&with_stacks, WHOLE, root, f), 2);
		assert_string_equal(f[0].function, "leaf");
		assert_string_equal(f[1].function, "routine");
	}
	assert_int_equal(ppa_trace_frames(&with_stacks, BROKEN, 0, f), 1);
	assert_int_equal(ppa_trace_frames(&with_stacks, BROKEN, ROUTINE, f), 2);
	assert_string_equal(f[1].function, "routine");
	assert_int_equal(ppa_trace_frames(&with_stacks, ONLY_LIBC, 0, f), 2);
	assert_int_equal(ppa_trace_frames(&with_stacks, EMPTY, ROUTINE, f), 0);
	assert_int_equal(ppa_trace_frames(&with_stacks, 0, ROUTINE, f), 0);
	assert_int_equal(ppa_trace_frames(&with_stacks, 999, ROUTINE, f), 0);
	assert_int_equal(ppa_trace_frames_root(&with_stacks, WHOLE, 0, f), 1);
	assert_string_equal(f[0].function, "routine");
	assert_int_equal(ppa_trace_frames_root(&with_stacks, 0, ROUTINE, f), 1);
	assert_string_equal(f[0].function, "routine");
	assert_int_equal(ppa_trace_frames_root(&with_stacks, 0, 0, f), 0);
}

static void inlined_functions_are_frames_of_their_own(void **state)
{
	(void)state;
	stack_locs[250] = 0;
	assert_int_equal(ppa_trace_frames(&with_stacks, INLINED, 0, f), 2);
	assert_string_equal(f[0].function, "leaf");
	assert_string_equal(f[0].file, "/usr/bin/prog");
	assert_int_equal(f[0].line, 5);
	assert_string_equal(f[1].file, "/src/r.c");
	assert_int_equal(f[1].line, 1);
	assert_true(f[0].pc != f[1].pc && f[1].pc == 0x1000);
}

static void long_stacks_keep_both_ends(void **state)
{
	(void)state;
	for (unsigned i = 10; i < 210; i++)
		stack_locs[i] = 4;
	stack_locs[209] = 1;
	assert_int_equal(ppa_trace_frames(&with_stacks, LONG, ROUTINE, f), PPA_TRACE_MAX_FRAMES);
	assert_string_equal(f[125].function, "leaf");
	assert_string_equal(f[126].function, "[truncated]");
	assert_string_equal(f[127].function, "routine");
	assert_int_equal(ppa_trace_frames(&with_stacks, FULL, 0, f), PPA_TRACE_MAX_FRAMES);
	assert_string_equal(f[126].function, "leaf");
	assert_int_equal(ppa_trace_frames(&with_stacks, FULL, ROUTINE, f), PPA_TRACE_MAX_FRAMES);
	assert_string_equal(f[126].function, "[truncated]");
	assert_string_equal(f[127].function, "routine");
}

static void input_that_leads_nowhere_is_refused(void **state)
{
	struct ppa_trace_input in = with_stacks;
	struct ppa_snapshot s = stacks;
	struct ppa_location bad = {0x1000, 0, 0, 0, 0};

	(void)state;
	assert_true(ppa_trace_is_sound(&in));
	in.stop_ns = in.start_ns;
	assert_false(ppa_trace_is_sound(&in));
	in = with_stacks;
	in.stacks = &s;
	s.nfunctions = 1;
	assert_false(ppa_trace_is_sound(&in));
	s = stacks;
	s.locations = &bad;
	assert_false(ppa_trace_is_sound(&in));
}

/* -- regions, order ------------------------------------------------------------------------------------------------ */

static void regions_end_from_the_inside(void **state)
{
	struct ppa_go_said s = {0};

	(void)state;
	for (uint64_t name = 1; name <= 3; name++)
		assert_true(ppa_go_region_begin(&s, (struct ppa_go_region){0, name}));
	assert_int_equal(ppa_go_region_end(&s, (struct ppa_go_region){0, 3}), 1);
	assert_int_equal(ppa_go_region_end(&s, (struct ppa_go_region){0, 1}), 3);
	assert_int_equal(ppa_go_region_end(&s, (struct ppa_go_region){1, 1}), 0);
	assert_int_equal(ppa_go_region_pop(&s).name, 3);
	assert_int_equal(ppa_go_region_end(&s, (struct ppa_go_region){0, 3}), 0);
	while (ppa_go_region_begin(&s, (struct ppa_go_region){0, 1}))
		;
	assert_int_equal(s.nregions, PPA_GO_MAX_REGIONS);
	ppa_go_said_free(&s);
}

static void a_task_begins_once(void **state)
{
	struct ppa_go_said s = {0};

	(void)state;
	for (uint64_t task = 1; task < 1000; task++)
		assert_true(ppa_go_task_begin(&s, task));
	for (uint64_t task = 0; task < 1000; task++)
		assert_false(ppa_go_task_begin(&s, task));
	assert_false(ppa_go_task_begin(&s, UINT64_MAX));
	ppa_go_said_free(&s);
	assert_int_equal(fake_vheap_live, 0);
}

static struct ppa_trace_key key_of(const void *item)
{
	return (struct ppa_trace_key){*(const unsigned *)item / 10, 0};
}

static void sorting_keeps_equals_in_order(void **state)
{
	unsigned numbers[257];
	const void *p[257];

	(void)state;
	for (size_t n = 0; n <= 257; n++) {
		for (size_t i = 0; i < n; i++) {
			numbers[i] = (unsigned)(((i * 7919) % 31) * 10 + (i * 10 / 258));
			p[i] = &numbers[i];
		}
		assert_int_equal(ppa_trace_sort(p, n, key_of), 0);
		for (size_t i = 1; i < n; i++) {
			assert_true(key_of(p[i - 1]).first <= key_of(p[i]).first);
			if (key_of(p[i - 1]).first == key_of(p[i]).first)
				assert_true(p[i - 1] < p[i]);
		}
	}
	assert_int_equal(fake_vheap_live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reused_ids_are_told_apart),
		cmocka_unit_test(lives_that_contradict_are_parted),
		cmocka_unit_test(waits_are_parted),
		cmocka_unit_test(waits_that_began_before_the_window_are_there),
		cmocka_unit_test(nothing_follows_the_end),
		cmocka_unit_test(short_waits_can_be_left_out),
		cmocka_unit_test(wakers_were_there),
		cmocka_unit_test(stacks_end_in_the_start_routine),
		cmocka_unit_test(inlined_functions_are_frames_of_their_own),
		cmocka_unit_test(long_stacks_keep_both_ends),
		cmocka_unit_test(input_that_leads_nowhere_is_refused),
		cmocka_unit_test(regions_end_from_the_inside),
		cmocka_unit_test(a_task_begins_once),
		cmocka_unit_test(sorting_keeps_equals_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
