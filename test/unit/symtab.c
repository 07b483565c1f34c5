/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/name/symtab.c unwind/name/symtab_collect.c unwind/name/elf_file.c agent/base/sys.c test/fakes/vheap.c
/* Promise: an address is named by the innermost function around it, or by nobody.
 * Promise: of several names at one address the same one wins whatever the order of the file.
 * Promise: a table that lies about its strings or sizes gives fewer names, and a refused allocation
 * loses no block. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "test/fakes/vheap.h"
#include "unwind/name/elf_file.h"
#include "unwind/name/symtab.h"

enum { TEXT_END = 0x10000, STRINGS = 8192 };

/* A builder being fed by hand: symbols with names of their own string table. */
static struct ppa_symtab_builder builder;
static char strings[STRINGS];
static size_t strings_len;
static struct {
	Elf64_Sym sym;
	bool is_code;
} fed[512];
static size_t nfed;

static void feed(const char *name, uint64_t value, uint64_t size, int bind, int type)
{
	Elf64_Sym s = {.st_name = (uint32_t)strings_len,
		       .st_info = (unsigned char)ELF64_ST_INFO(bind, type),
		       .st_shndx = 1,
		       .st_value = value,
		       .st_size = size};

	strcpy(strings + strings_len, name);
	strings_len += strlen(name) + 1;
	fed[nfed].sym = s;
	fed[nfed++].is_code = true;
}

static void start(void)
{
	memset(strings, 0, sizeof(strings));
	strings_len = 1;
	nfed = 0;
}

/* Everything fed so far, in either order. */
static int build(struct ppa_symtab *t, bool backwards)
{
	struct ppa_elf_file f = {0};
	uint32_t base;
	int err;

	ppa_elf_source_bytes(&f.src, strings, strings_len);
	ppa_symtab_begin(&builder);
	err = ppa_symtab_add_names(&builder, &f, 0, strings_len, &base);
	for (size_t i = 0; i < nfed && !err; i++) {
		size_t at = backwards ? nfed - 1 - i : i;

		err = ppa_symtab_add_symbol(&builder, &fed[at].sym, base, strings_len, TEXT_END, fed[at].is_code);
	}
	if (err) {
		ppa_symtab_discard(&builder);
		return err;
	}
	return ppa_symtab_finish(&builder, t);
}

static const char *name_at(const struct ppa_symtab *t, uint64_t value)
{
	struct ppa_symtab_hit hit;

	return ppa_symtab_lookup(t, value, &hit) ? hit.name : "-";
}

static void sizes_bound_functions(void **state)
{
	struct ppa_symtab_hit hit;
	struct ppa_symtab t;

	(void)state;
	start();
	feed("b", 0x200, 0x10, STB_GLOBAL, STT_FUNC);
	feed("a", 0x100, 0x20, STB_LOCAL, STT_FUNC);
	assert_int_equal(build(&t, false), 0);
	assert_string_equal(name_at(&t, 0xff), "-");
	assert_string_equal(name_at(&t, 0x100), "a");
	assert_string_equal(name_at(&t, 0x11f), "a");
	assert_string_equal(name_at(&t, 0x120), "-");
	assert_string_equal(name_at(&t, 0x20f), "b");
	assert_string_equal(name_at(&t, 0x210), "-");
	assert_string_equal(name_at(&t, UINT64_MAX), "-");
	assert_true(ppa_symtab_lookup(&t, 0x105, &hit));
	assert_int_equal(hit.value, 0x100);
	assert_int_equal(hit.size, 0x20);
	ppa_symtab_free(&t);
}

static void unsized_reach_to_the_next_or_the_end(void **state)
{
	struct ppa_symtab_hit hit;
	struct ppa_symtab t;

	(void)state;
	start();
	feed("asm_a", 0x100, 0, STB_GLOBAL, STT_NOTYPE);
	feed("c", 0x180, 0x10, STB_GLOBAL, STT_FUNC);
	feed("asm_z", 0x190, 0, STB_GLOBAL, STT_FUNC);
	feed("etext", TEXT_END, 0, STB_GLOBAL, STT_NOTYPE);
	assert_int_equal(build(&t, false), 0);
	assert_string_equal(name_at(&t, 0x17f), "asm_a");
	assert_string_equal(name_at(&t, 0x180), "c");
	assert_string_equal(name_at(&t, TEXT_END - 1), "asm_z");
	assert_string_equal(name_at(&t, TEXT_END), "-");
	assert_true(ppa_symtab_lookup(&t, 0x195, &hit));
	assert_int_equal(hit.size, 0);
	ppa_symtab_free(&t);
}

static void enclosing_function_takes_what_inner_ones_leave(void **state)
{
	struct ppa_symtab t;

	(void)state;
	start();
	feed("outer", 0x100, 0x100, STB_GLOBAL, STT_FUNC);
	feed("inner", 0x120, 0x10, STB_LOCAL, STT_FUNC);
	feed("innermost", 0x124, 4, STB_LOCAL, STT_FUNC);
	feed("overlap", 0x180, 0x100, STB_LOCAL, STT_FUNC);
	feed("a_jump_target", 0x140, 0, STB_LOCAL, STT_NOTYPE);
	assert_int_equal(build(&t, false), 0);
	assert_string_equal(name_at(&t, 0x120), "inner");
	assert_string_equal(name_at(&t, 0x125), "innermost");
	assert_string_equal(name_at(&t, 0x128), "inner");
	assert_string_equal(name_at(&t, 0x130), "outer");
	assert_string_equal(name_at(&t, 0x145), "outer");
	assert_string_equal(name_at(&t, 0x1ff), "overlap");
	assert_string_equal(name_at(&t, 0x27f), "overlap");
	assert_string_equal(name_at(&t, 0x280), "-");
	ppa_symtab_free(&t);
}

static void the_publics_name_wins_in_any_order(void **state)
{
	static const struct {
		const char *want, *other;
		int want_bind, want_type, other_bind, other_type;
		uint64_t want_size, other_size;
	} cases[] = {
		{"sized", "any", STB_LOCAL, STT_FUNC, STB_GLOBAL, STT_FUNC, 8, 0},
		{"seen", "a", STB_GLOBAL, STT_FUNC, STB_LOCAL, STT_FUNC, 8, 8},
		{"puts", "_IO_puts", STB_WEAK, STT_FUNC, STB_GLOBAL, STT_FUNC, 8, 8},
		{"malloc", "__libc_malloc", STB_GLOBAL, STT_FUNC, STB_GLOBAL, STT_FUNC, 8, 8},
		{"typed_one", "label", STB_GLOBAL, STT_FUNC, STB_GLOBAL, STT_NOTYPE, 8, 8},
		{"strong_one", "weak", STB_GLOBAL, STT_FUNC, STB_WEAK, STT_FUNC, 8, 8},
		{"_ZN1AC1Ev", "_internal", STB_GLOBAL, STT_FUNC, STB_GLOBAL, STT_FUNC, 8, 8},
		{"_ZN1AC1Ev", "_ZN1AC2Ev", STB_GLOBAL, STT_FUNC, STB_GLOBAL, STT_FUNC, 8, 8},
		{"ab", "abc", STB_GLOBAL, STT_FUNC, STB_GLOBAL, STT_FUNC, 8, 8},
	};
	struct ppa_symtab t;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int backwards = 0; backwards < 2; backwards++) {
			start();
			feed(cases[i].want, 0x40, cases[i].want_size, cases[i].want_bind, cases[i].want_type);
			feed(cases[i].other, 0x40, cases[i].other_size, cases[i].other_bind, cases[i].other_type);
			assert_int_equal(build(&t, backwards), 0);
			assert_int_equal(t.nentries, 1);
			assert_string_equal(name_at(&t, 0x40), cases[i].want);
			ppa_symtab_free(&t);
		}
	}
}

static void what_is_no_function_is_left_out(void **state)
{
	struct ppa_symtab t;

	(void)state;
	start();
	feed("object", 0x10, 8, STB_GLOBAL, STT_OBJECT);
	feed("file.c", 0x20, 8, STB_LOCAL, STT_FILE);
	feed("$x", 0x30, 0, STB_LOCAL, STT_NOTYPE);
	feed(".L42", 0x40, 0, STB_LOCAL, STT_NOTYPE);
	feed("", 0x50, 8, STB_GLOBAL, STT_FUNC);
	feed("imported", 0x60, 8, STB_GLOBAL, STT_FUNC);
	fed[nfed - 1].sym.st_shndx = SHN_UNDEF;
	feed("constant", 0x70, 8, STB_GLOBAL, STT_FUNC);
	fed[nfed - 1].sym.st_shndx = SHN_ABS;
	feed("data_label", 0x80, 0, STB_GLOBAL, STT_NOTYPE);
	fed[nfed - 1].is_code = false;
	feed("endless", UINT64_MAX - 4, 8, STB_GLOBAL, STT_FUNC);
	feed("no_string", 0x90, 8, STB_GLOBAL, STT_FUNC);
	fed[nfed - 1].sym.st_name = UINT32_MAX;
	assert_int_equal(build(&t, false), 0);
	assert_int_equal(t.nentries, 0);
	assert_string_equal(name_at(&t, 0x50), "-");
	ppa_symtab_free(&t);
}

static void versions_are_cut_off(void **state)
{
	struct ppa_symtab t;

	(void)state;
	start();
	feed("open@@GLIBC_2.2.5", 0x10, 8, STB_GLOBAL, STT_FUNC);
	feed("close@GLIBC_2.0", 0x20, 8, STB_GLOBAL, STT_FUNC);
	feed("@", 0x30, 8, STB_GLOBAL, STT_FUNC);
	feed("part.0.constprop.1.cold", 0x40, 8, STB_LOCAL, STT_FUNC);
	assert_int_equal(build(&t, false), 0);
	assert_string_equal(name_at(&t, 0x10), "open");
	assert_string_equal(name_at(&t, 0x20), "close");
	assert_string_equal(name_at(&t, 0x30), "@");
	assert_string_equal(name_at(&t, 0x40), "part.0.constprop.1.cold");
	ppa_symtab_free(&t);
}

static void agrees_with_a_linear_search(void **state)
{
	struct ppa_symtab t;
	char name[16];

	(void)state;
	srand(7);
	for (int round = 0; round < 50; round++) {
		start();
		for (int i = 0; i < 300; i++) {
			snprintf(name, sizeof(name), "f%d", i);
			feed(name, (uint64_t)(rand() % 4000), 1 + (uint64_t)(rand() % 40), STB_GLOBAL, STT_FUNC);
		}
		assert_int_equal(build(&t, false), 0);
		for (uint64_t pc = 0; pc < 4100; pc++) {
			const char *got = name_at(&t, pc);
			uint64_t start_of_best = 0;
			bool contained = false;

			for (uint32_t i = 0; i < t.nentries; i++) {
				if (t.entries[i].value <= pc && pc - t.entries[i].value < t.entries[i].size) {
					contained = true;
					start_of_best = t.entries[i].value;
				}
			}
			assert_int_equal(contained, got[0] != '-');
			if (contained)
				assert_int_equal(fed[atoi(got + 1)].sym.st_value, start_of_best);
		}
		ppa_symtab_free(&t);
	}
}

static void synthetic_names_lose_to_listed_ones(void **state)
{
	struct ppa_symtab t;

	(void)state;
	start();
	feed("listed", 0x10, 8, STB_LOCAL, STT_FUNC);
	assert_int_equal(build(&t, false), 0);
	ppa_symtab_free(&t);
	ppa_symtab_begin(&builder);
	assert_int_equal(ppa_symtab_add_synthetic(&builder, 0x20, 16, "puts@plt"), 0);
	assert_int_equal(ppa_symtab_finish(&builder, &t), 0);
	assert_string_equal(name_at(&t, 0x2f), "puts@plt");
	assert_string_equal(name_at(&t, 0x30), "-");
	ppa_symtab_free(&t);
}

static void refused_memory_loses_nothing(void **state)
{
	struct ppa_symtab t;
	int err = -1;

	(void)state;
	start();
	for (int i = 0; i < 100; i++)
		feed("some_function", (uint64_t)(100 - i) * 16, 16, STB_GLOBAL, STT_FUNC);
	for (long budget = 0; err; budget++) {
		fake_vheap_budget = budget;
		err = build(&t, false);
		assert_true(err == 0 || err == -12);
		if (!err)
			ppa_symtab_free(&t);
		fake_vheap_budget = -1;
		assert_int_equal(fake_vheap_live, 0);
		assert_true(budget < 100);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_bound_functions),
		cmocka_unit_test(unsized_reach_to_the_next_or_the_end),
		cmocka_unit_test(enclosing_function_takes_what_inner_ones_leave),
		cmocka_unit_test(the_publics_name_wins_in_any_order),
		cmocka_unit_test(what_is_no_function_is_left_out),
		cmocka_unit_test(versions_are_cut_off),
		cmocka_unit_test(agrees_with_a_linear_search),
		cmocka_unit_test(synthetic_names_lose_to_listed_ones),
		cmocka_unit_test(refused_memory_loses_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
