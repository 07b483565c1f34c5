// link: agent/snapshot/picture.c agent/snapshot/picture_names.c agent/snapshot/picture_lines.c agent/snapshot/picture_gaps.c agent/base/sys.c agent/snapshot/picture_store.c agent/snapshot/allocators.c agent/profile/marker.c test/fakes/vheap.c agent/profile/tags.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: a stack is shown from whoever asked for memory; never as nothing; stacks that look the same are one sample; an
 * address that meant two things is two locations; and memory that runs out at any moment is an error and no harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/profile/marker.h"
#include "agent/snapshot/collect.h"
#include "agent/snapshot/past.h"
#include "agent/snapshot/picture.h"
#include "test/fakes/vheap.h"
#include "unwind/jit/jit.h"
#include "unwind/module/modules.h"
#include "unwind/walk/starts.h"
#include "unwind/name/lines.h"
#include "unwind/name/symbols.h"
#include "unwind/name/symload.h"
#include "unwind/walk/unwind.h"

/* ---- a process of four modules, in which every 16 bytes are a function ---- */

enum { PROGRAM = 0x10000, AGENT = 0x20000, JEMALLOC = 0x30000, PLUGIN = 0x40000, BYTES = 0x1000 };

static const struct ppa_module modules[] = {
	{.serial = 1, .path = "/prog", .is_main = true, .at_startup = true},
	{.serial = 2, .path = "/agent.so", .is_agent = true, .at_startup = true},
	{.serial = 3, .path = "/jemalloc.so", .at_startup = true},
	{.serial = 4, .path = "/old.so"},
	{.serial = 5, .path = "/new.so"},
};
#define SEGMENT(at, i)                                                                                                 \
	{                                                                                                              \
		at, (at) + BYTES, 0, &modules[i]                                                                       \
	}
static const struct ppa_text_segment segs_now[] = {SEGMENT(AGENT, 1), SEGMENT(PROGRAM, 0), SEGMENT(JEMALLOC, 2),
						   SEGMENT(PLUGIN, 4)};
static const struct ppa_text_segment segs_then[] = {SEGMENT(PROGRAM, 0), SEGMENT(PLUGIN, 3)};
static const struct ppa_module_table now = {2, 4, segs_now}, then = {1, 2, segs_then};

const struct ppa_text_segment *ppa_modules_lookup(const struct ppa_module_table *t, uintptr_t pc)
{
	for (size_t i = 0; i < t->nsegs; i++)
		if (pc >= t->segs[i].start && pc < t->segs[i].end)
			return &t->segs[i];
	return NULL;
}

int ppa_symbols_lookup(const struct ppa_module *m, uintptr_t pc, struct ppa_symbol *out)
{
	static char names[256][32];
	static const char *const known[] = {"main", "malloc", "strdup", "_Znwm", "caller", "other"};
	unsigned i = (unsigned)(pc >> 4) & 255;

	if (i < sizeof(known) / sizeof(*known))
		snprintf(names[i], sizeof(names[i]), "%s%s", known[i], m->serial >= 4 ? m->path : "");
	else
		snprintf(names[i], sizeof(names[i]), "f%u", i);
	*out = (struct ppa_symbol){names[i], pc & ~(uintptr_t)15, 16};
	return 0;
}

size_t ppa_symbols_demangle(const char *linker_name, char *buf, size_t cap)
{
	return (size_t)snprintf(buf, cap, "%s", linker_name);
}

size_t ppa_symbols_fallback(const struct ppa_module *m, uintptr_t pc, char *buf, size_t cap)
{
	return (size_t)snprintf(buf, cap, "%s+%lx", m->path, (unsigned long)pc);
}

const char *ppa_symload_gap(const struct ppa_module *m)
{
	(void)m;
	return "it is a test's";
}

void ppa_jit_gaps(struct ppa_jit_gaps *out)
{
	*out = (struct ppa_jit_gaps){7, 3 << 20, true};
}

void ppa_jit_refresh(uint64_t max_age_ns)
{
	assert_int_equal(max_age_ns, 0);
}

/* One function of generated code, compiled twice. */
bool ppa_jit_find(uintptr_t pc, char *buf, size_t cap, struct ppa_jit_words *out, uintptr_t *start)
{
	(void)buf;
	(void)cap;
	*start = pc & ~15UL;
	*out = (struct ppa_jit_words){pc < 0x920 ? "JS:~gen" : "JS:*gen", "gen", "/gen.js", 7};
	return pc >= 0x910 && pc < 0x930;
}

bool ppa_symbols_are_on(void)
{
	return true;
}

/* Debug information of the program alone. Function 0x50 has an inlined call, 0x60 one whose name is not known; of 0x70 only the
 * first bytes are known already. */
void ppa_lines_resolve(const struct ppa_module *m, const uintptr_t *pcs, size_t n, uint64_t deadline_ns,
		       void (*found)(void *arg, size_t i, const struct ppa_line_frame *frames, uint32_t nframes),
		       void *arg, struct ppa_lines_report *report)
{
	static const struct ppa_line_frame inlined[] = {{"_ZtwiceDWARF", "/h.h", 3, 1}, {"_ZotherDWARF", "/p.c", 9, 5}};
	static const struct ppa_line_frame nameless[] = {{NULL, "/h.h", 3, 0}, {"f6", "/p.c", 20, 18}};

	(void)deadline_ns;
	for (size_t i = 0; i < n && m->is_main; i++) {
		uintptr_t at = pcs[i] - PROGRAM;

		if (at >= 0x50 && at < 0x60)
			found(arg, i, inlined, 2);
		else if (at >= 0x60 && at < 0x70)
			found(arg, i, nameless, 2);
		else if (at > 0x74 && at < 0x80)
			report->nlate++;
		else if (at >= 0x70 && at < 0x80)
			found(arg, i, inlined + 1, 1);
	}
}

uintptr_t ppa_starts_find(uintptr_t pc)
{
	(void)pc;
	return 0;
}

uintptr_t ppa_unwind_function_start(uintptr_t pc)
{
	(void)pc;
	return 0;
}

uint64_t ppa_past_shift(const struct ppa_past *past, uintptr_t address, uint64_t serial)
{
	(void)past;
	return address >= PLUGIN && serial == 4 ? (uint64_t)5 << 47 : 0;
}

/* Return addresses in the functions of names[] of ppa_symbols_lookup. */
enum {
	MAIN = PROGRAM + 1,
	MALLOC = PROGRAM + 0x11,
	STRDUP = PROGRAM + 0x21,
	NEW = PROGRAM + 0x31,
	CALLER = PROGRAM + 0x41
};

/* ---- drawing ---- */

static struct ppa_picture *begin(void)
{
	struct ppa_picture *p = ppa_picture_new(&now);

	if (p)
		ppa_picture_head(p)->nsample_types = 2;
	return p;
}

static void draw(struct ppa_picture *p, const struct ppa_module_table *t, unsigned flags, int64_t number, size_t n,
		 const uintptr_t *pcs)
{
	int64_t values[2] = {1, number};
	struct ppa_label l = {.key = "bytes", .num = number};

	ppa_picture_sample(p, values);
	ppa_picture_frames(p, t, pcs, n, flags);
	ppa_picture_label(p, &l);
	ppa_picture_merge(p);
}
#define DRAW(p, t, flags, number, ...)                                                                                 \
	draw(p, t, flags, number, sizeof((const uintptr_t[]){__VA_ARGS__}) / sizeof(uintptr_t),                        \
	     (const uintptr_t[]){__VA_ARGS__})

static struct ppa_snapshot *finish(struct ppa_picture *p)
{
	struct ppa_snapshot *s = NULL;

	assert_int_equal(ppa_picture_finish(p, &s), 0);
	return s;
}

/* "strdup<main" for a sample's stack. */
static const char *shown(const struct ppa_snapshot *s, size_t i)
{
	static char text[256];
	size_t at = 0;

	text[0] = '\0';
	for (uint32_t k = 0; k < s->samples[i].nlocs; k++) {
		const struct ppa_location *l = &s->locations[s->stack_locs[s->samples[i].first_loc + k]];
		const char *name = s->functions[s->lines[l->first_line].function].name;

		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", k ? "<" : "", name);
	}
	return text;
}

static void allocators_are_cut_from_the_leaf(void **state)
{
	struct ppa_picture *p = begin();
	struct ppa_snapshot *s;

	(void)state;
	ppa_picture_set_allocator(p, JEMALLOC + 8);
	DRAW(p, &now, PPA_FRAMES_CUT, 1, MALLOC, STRDUP, CALLER, MAIN);
	DRAW(p, &now, PPA_FRAMES_CUT, 2, NEW, CALLER, MALLOC, MAIN);
	DRAW(p, &now, PPA_FRAMES_CUT, 3, JEMALLOC + 0x501, NEW, CALLER, JEMALLOC + 0x501, MAIN);
	DRAW(p, &now, PPA_FRAMES_CUT, 4, MALLOC, NEW);
	DRAW(p, &now, 0, 5, MALLOC, CALLER);
	DRAW(p, &now, PPA_FRAMES_CUT, 6, AGENT + 5, MALLOC, AGENT + 5, CALLER);
	DRAW(p, &now, PPA_FRAMES_CUT, 7, AGENT + 5, AGENT + 9);
	DRAW(p, &now, PPA_FRAMES_CUT, 8, 0x777);
	DRAW(p, &now, PPA_FRAMES_CUT, 9, 0x911, 0x922, 0x777, CALLER);
	s = finish(p);
	assert_int_equal(s->nsamples, 9);
	assert_string_equal(shown(s, 0), "caller<main");
	assert_string_equal(shown(s, 1), "caller<malloc<main");
	assert_string_equal(shown(s, 2), "caller<f80<main");
	assert_string_equal(shown(s, 3), "_Znwm");
	assert_string_equal(shown(s, 4), "malloc<caller");
	assert_string_equal(shown(s, 5), "caller");
	assert_string_equal(shown(s, 6), "[pprofagent]");
	assert_string_equal(shown(s, 7), "[unknown code]");
	assert_string_equal(shown(s, 8), "gen<gen<[unknown code]<caller");
	assert_int_equal(s->ncomments, 3); /* what the names of generated code lack */
	assert_non_null(strstr(s->comments[0], "perf map"));
	assert_non_null(strstr(s->comments[1], " 7 names"));
	assert_non_null(strstr(s->comments[2], " 3 MiB"));
	ppa_snapshot_free(s);
	assert_int_equal(fake_vheap_live, 0);
}

static void what_looks_the_same_is_one_sample(void **state)
{
	struct ppa_picture *p = begin();
	struct ppa_snapshot *s;

	(void)state;
	for (int round = 0; round < 3; round++)
		for (unsigned i = 0; i < 1000; i++) {
			DRAW(p, &now, PPA_FRAMES_CUT, 64, MALLOC, PROGRAM + 0x601 + (i & 63) * 16,
			     PROGRAM + 0x201 + i / 64 * 16);
			DRAW(p, &now, PPA_FRAMES_CUT, 64, PROGRAM + 0x601 + (i & 63) * 16,
			     PROGRAM + 0x201 + i / 64 * 16);
			DRAW(p, &now, PPA_FRAMES_CUT, 65, PROGRAM + 0x601 + (i & 63) * 16,
			     PROGRAM + 0x201 + i / 64 * 16);
		}
	s = finish(p);
	assert_int_equal(s->nsamples, 2000);
	assert_int_equal(s->nstack_locs, 4000);
	assert_int_equal(s->nlabels, 2000);
	for (size_t i = 0; i < s->nsamples; i++) {
		int64_t bytes = s->labels[s->samples[i].first_label].num;

		assert_int_equal(s->samples[i].nlabels, 1);
		assert_int_equal(s->samples[i].values[0], bytes == 64 ? 6 : 3);
		assert_int_equal(s->samples[i].values[1], bytes == 64 ? 6 * 64 : 3 * 65);
	}
	ppa_snapshot_free(s);
	assert_int_equal(fake_vheap_live, 0);
}

static void one_address_of_two_libraries_is_two_locations(void **state)
{
	static const struct ppa_past past = {.n = 0};
	struct ppa_picture *p = begin();
	struct ppa_snapshot *s;

	(void)state;
	ppa_picture_set_past(p, &past);
	DRAW(p, &now, 0, 1, PLUGIN + 0x41, MAIN);
	DRAW(p, &then, 0, 1, PLUGIN + 0x41, MAIN);
	DRAW(p, &now, PPA_FRAMES_GONE, 1, PLUGIN + 0x41, MAIN);
	s = finish(p);
	assert_int_equal(s->nsamples, 3);
	assert_string_equal(shown(s, 0), "caller/new.so<main");
	assert_string_equal(shown(s, 1), "caller/old.so<main");
	assert_string_equal(shown(s, 2), "[unloaded code]<main");
	assert_int_equal(s->nlocations, 4);
	for (size_t i = 0; i < s->nlocations; i++) {
		const struct ppa_location *l = &s->locations[i];

		for (size_t k = 0; k < i; k++)
			assert_true(l->address != s->locations[k].address);
		if (l->mapping == PPA_SNAPSHOT_NO_MAPPING)
			continue;
		assert_in_range(l->address, s->mappings[l->mapping].start, s->mappings[l->mapping].limit - 1);
		assert_int_equal(l->address - l->entry, 1);
		assert_true(s->mappings[l->mapping].has_functions);
	}
	assert_string_equal(s->mappings[0].filename, "/prog");
	ppa_snapshot_free(s);
	assert_int_equal(fake_vheap_live, 0);
}

static const struct ppa_function *function_at(const struct ppa_snapshot *s, uint32_t loc, uint32_t line)
{
	return &s->functions[s->lines[s->locations[s->stack_locs[loc]].first_line + line].function];
}

static void inlined_calls_stand_before_their_callers(void **state)
{
	struct ppa_picture *p = begin();
	const struct ppa_location *l;
	struct ppa_snapshot *s;

	(void)state;
	DRAW(p, &now, 0, 1, PROGRAM + 0x52, PROGRAM + 0x55, PROGRAM + 0x62, PROGRAM + 0x72, PROGRAM + 0x78, MAIN);
	s = finish(p);
	for (uint32_t k = 0; k < 2; k++) {
		l = &s->locations[s->stack_locs[k]];
		assert_int_equal(l->nlines, 2);
		assert_string_equal(function_at(s, k, 0)->name, "_ZtwiceDWARF");
		assert_string_equal(function_at(s, k, 0)->filename, "/h.h");
		assert_int_equal(s->lines[l->first_line].line, 3);
		/* The owner is called what the symbol table calls it. */
		assert_string_equal(function_at(s, k, 1)->name, "other");
		assert_string_equal(function_at(s, k, 1)->system_name, "other");
		assert_string_equal(function_at(s, k, 1)->filename, "/p.c");
		assert_int_equal(function_at(s, k, 1)->start_line, 5);
		assert_int_equal(s->lines[l->first_line + 1].line, 9);
	}
	l = &s->locations[s->stack_locs[2]];
	assert_int_equal(l->nlines, 1);
	assert_int_equal(s->lines[l->first_line].line, 20);
	/* One function, but only where it is known in which file: "f7" twice, and nothing that nobody names. */
	assert_string_equal(function_at(s, 3, 0)->filename, "/p.c");
	assert_string_equal(function_at(s, 4, 0)->filename, "");
	assert_int_equal(s->nfunctions, 6);
	assert_int_equal(s->nlines, 8);
	assert_true(s->mappings[0].has_inline_frames && s->mappings[0].has_filenames &&
		    s->mappings[0].has_line_numbers);
	assert_false(s->mappings[1].has_inline_frames || s->mappings[1].has_filenames);
	assert_int_equal(s->ncomments, 1);
	assert_non_null(strstr(s->comments[0], " 1 addresses"));
	ppa_snapshot_free(s);
	assert_int_equal(fake_vheap_live, 0);
}

static void memory_may_run_out_at_any_moment(void **state)
{
	(void)state;
	for (int budget = 0;; budget++) {
		struct ppa_snapshot *s = NULL;
		struct ppa_picture *p;
		int err = -1;

		fake_vheap_budget = budget;
		p = begin();
		if (p) {
			ppa_picture_expect(p, 10, 10);
			for (unsigned i = 0; i < 800; i++)
				DRAW(p, &now, PPA_FRAMES_CUT, i, MALLOC, PROGRAM + 0x601 + (i & 63) * 16, PROGRAM + i);
			ppa_picture_comment(p, ppa_picture_text(p, "%d", budget));
			err = ppa_picture_finish(p, &s);
		}
		fake_vheap_budget = -1;
		ppa_snapshot_free(s);
		assert_int_equal(fake_vheap_live, 0);
		if (!err)
			return;
		assert_true(budget < 500);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allocators_are_cut_from_the_leaf),
		cmocka_unit_test(what_looks_the_same_is_one_sample),
		cmocka_unit_test(one_address_of_two_libraries_is_two_locations),
		cmocka_unit_test(inlined_calls_stand_before_their_callers),
		cmocka_unit_test(memory_may_run_out_at_any_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
