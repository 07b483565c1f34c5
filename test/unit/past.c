// link: agent/snapshot/past.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: an address is named by what was loaded when it was seen; in doubt it has no name rather than a wrong one; and
 * two libraries that had the same addresses are never one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "agent/profile/unloads.h"
#include "agent/snapshot/past.h"
#include "agent/snapshot/rows.h"

enum { PROGRAM = 0x1000, PLACE = 0x5000 };

static struct ppa_module modules[] = {{.serial = 1, .at_startup = true}, {.serial = 2}, {.serial = 3}, {.serial = 4}};

static int released;

size_t ppa_modules_hold_all(struct ppa_module_era out[static 1 + PPA_MODULES_PAST_MAX])
{
	(void)out;
	return 0;
}

void ppa_modules_release(const struct ppa_module_table *t)
{
	(void)t;
	released++;
}

const struct ppa_text_segment *ppa_modules_lookup(const struct ppa_module_table *t, uintptr_t pc)
{
	for (size_t i = 0; i < t->nsegs; i++)
		if (pc >= t->segs[i].start && pc < t->segs[i].end)
			return &t->segs[i];
	return NULL;
}

/* The program and, at PLACE, one library after the other, or none. */
static struct ppa_text_segment segs[4][2] = {
	{{PROGRAM, PROGRAM + 0x1000, 0, &modules[0]}, {PLACE, PLACE + 0x1000, 0, &modules[1]}},
	{{PROGRAM, PROGRAM + 0x1000, 0, &modules[0]}, {PLACE, PLACE + 0x1000, 0, &modules[2]}},
	{{PROGRAM, PROGRAM + 0x1000, 0, &modules[0]}, {PLACE, PLACE + 0x1000, 0, &modules[3]}},
	{{PROGRAM, PROGRAM + 0x1000, 0, &modules[0]}},
};
static const struct ppa_module_table tables[] = {
	{10, 2, segs[0]}, {11, 2, segs[1]}, {12, 2, segs[2]}, {13, 1, segs[3]}};

static const uintptr_t pcs[] = {PLACE + 5, PROGRAM + 5};

static struct ppa_row row(uint64_t origin, uint32_t born)
{
	return (struct ppa_row){.pcs = pcs, .npcs = 2, .origin = origin, .born = born};
}

/* Eras with gaps: 1..3, 7..9, 13..15; now, from 17 on, nothing is there. */
static const struct ppa_past past = {
	.eras = {{&tables[3], 17, 21}, {&tables[2], 13, 15}, {&tables[1], 7, 9}, {&tables[0], 1, 3}},
	.n = 4,
};

static void expect(struct ppa_row r, const struct ppa_module_table *t, bool gone)
{
	bool is_gone;

	assert_ptr_equal(ppa_past_choose(&past, &r, &is_gone), t);
	assert_int_equal(is_gone, gone);
}

static void a_table_of_its_time_names_a_stack(void **state)
{
	(void)state;
	expect(row(99, 2), &tables[0], false);
	expect(row(99, 7), &tables[1], false);
	expect(row(99, 15), &tables[2], false);
	expect(row(99, 17), &tables[3], false);
	/* What stays loaded has the same name at any time. */
	expect(row(0, 2), &tables[3], false);
}

static void in_a_gap_the_origin_decides_or_the_neighbours(void **state)
{
	(void)state;
	expect(row(ppa_origin_add(0, 2), 5), &tables[0], false);
	expect(row(ppa_origin_add(0, 3), 11), &tables[1], false);
	/* Unknown libraries: the table after, which was made when they had come... */
	expect(row(99, 5), &tables[1], false);
	expect(row(99, 11), &tables[2], false);
	/* ... but the one before while they went. */
	expect(row(99, 4), &tables[0], false);
	expect(row(99, 10), &tables[1], false);
	expect(row(99, 16), &tables[2], false);
}

static void what_no_table_knows_is_gone(void **state)
{
	struct ppa_past full = {.n = PPA_ARRAY_LEN(full.eras)};
	struct ppa_row unknown = row(99, 20), known = row(ppa_origin_add(0, 3), 20);
	bool is_gone;

	(void)state;
	expect(row(99, 23), &tables[3], true);
	/* As many tables as are kept: older ones may have been dropped, and the oldest is no neighbour. */
	for (size_t i = 0; i < full.n; i++)
		full.eras[i] = (struct ppa_module_era){&tables[1], 1000 - 10 * i, 1004 - 10 * i};
	assert_ptr_equal(ppa_past_choose(&full, &unknown, &is_gone), &tables[1]);
	assert_true(is_gone);
	assert_ptr_equal(ppa_past_choose(&full, &known, &is_gone), &tables[1]);
	assert_false(is_gone);
}

static void addresses_of_former_libraries_are_told_apart(void **state)
{
	uint64_t two = ppa_past_shift(&past, PLACE + 5, 2), three = ppa_past_shift(&past, PLACE + 5, 3);

	(void)state;
	assert_true(two && three && two != three);
	assert_int_equal(two % ((uint64_t)1 << 47), 0);
	assert_int_equal(ppa_past_shift(&past, PLACE + 5, 4), 0);
	assert_int_equal(ppa_past_shift(&past, PROGRAM + 5, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table_of_its_time_names_a_stack),
		cmocka_unit_test(in_a_gap_the_origin_decides_or_the_neighbours),
		cmocka_unit_test(what_no_table_knows_is_gone),
		cmocka_unit_test(addresses_of_former_libraries_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
