/* SPDX-License-Identifier: Apache-2.0
 *
 * What the profiles of encoders' tests are made of: a program, in which one function is inlined into another, and a
 * library. A test lays tables out under the names that snapshots give them, with what matters to it beside this, and
 * FAKE_TABLES puts them into one. */
#ifndef PPA_TEST_FAKES_PROFILE_H
#define PPA_TEST_FAKES_PROFILE_H

#include "agent/base/attr.h"
#include "agent/snapshot/snapshot.h"

/* Braces in macros are taken for blocks. */
/* clang-format off */
#define FAKE_PROGRAM {0x400000, 0x401000, 0x1000, "/usr/bin/prog", "ab12", true, false, false, false}
#define FAKE_LIBRARY {0x7f0000000000, 0x7f0000004000, 0, "/usr/lib/libshr.so", "", true, false, false, false}

/* Functions 0 to 2; the second has the name and the file given. */
#define FAKE_FUNCTIONS(outer, file) \
	{"inner", "inner", "/src/prog.c", 3}, {outer, "_ZN2ns5outerIiEEvv", file, 9}, {"main", "main", "", 0}

/* Lines 0 to 2: inner, outer and main. */
#define FAKE_LINES {0, 5}, {1, 12}, {2, 0}

/* Locations: inner in outer, in the program; main, in the library; one of no file, which is line 3. */
#define FAKE_IN_PROGRAM {0x400123, 0, 0, 2, 0x400100}
#define FAKE_IN_LIBRARY {0x7f0000002000, 1, 2, 1, 0x7f0000001ff0}
#define FAKE_IN_NO_FILE {0x10, PPA_SNAPSHOT_NO_MAPPING, 3, 1, 0}

/* Part of a snapshot's initialiser. */
#define FAKE_TABLES \
	.mappings = mappings, .nmappings = PPA_ARRAY_LEN(mappings), \
	.functions = functions, .nfunctions = PPA_ARRAY_LEN(functions), \
	.lines = lines, .nlines = PPA_ARRAY_LEN(lines), \
	.locations = locations, .nlocations = PPA_ARRAY_LEN(locations), \
	.stack_locs = stack_locs, .nstack_locs = PPA_ARRAY_LEN(stack_locs)
/* clang-format on */

#endif
