/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/name/dwarf.c unwind/name/dwarf_aranges.c unwind/name/dwarf_data.c unwind/name/dwarf_form.c unwind/name/dwarf_functions.c unwind/name/dwarf_index.c unwind/name/dwarf_lines.c unwind/name/dwarf_unit.c unwind/name/inflate.c unwind/name/inflated.c unwind/name/pool.c unwind/name/elf_file.c agent/base/sys.c test/fakes/vheap.c @zlib
/* Promise: what a question learns of a file is there for the next one, also when it had to look beyond .debug_aranges, as
 * it must for every address of start-up code, of which no unit knows.
 * Promise: bytes are counted as they come and go, and nothing is left at the end. */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/base/vheap.h"
#include "test/fakes/vheap.h"
#include "unwind/name/dwarf.h"
#include "unwind/name/dwarf_index.h"
#include "unwind/name/dwarf_unit.h"
#include "unwind/name/elf_file.h"
#include "unwind/name/pool.h"

static __attribute__((noinline)) int marked(int x)
{
	return x * 3 + 1;
}

static int open_self(struct ppa_elf_file *f)
{
	struct ppa_elf_source src;
	struct stat st;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	ppa_elf_source_file(&src, fd, (uint64_t)st.st_size);
	assert_int_equal(ppa_elf_open(f, &src), 0);
	return fd;
}

static int take_bias(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(uintptr_t *)arg = info->dlpi_addr;
	return 1; /* the first one is the program */
}

/* Ask for marked and, unless is_known_only, for the program's first instruction. */
static void ask(const struct ppa_elf_file *f, bool is_known_only, struct ppa_pool *pool, struct ppa_dwarf_kept *kept)
{
	struct ppa_dwarf_want w[2] = {{.pc = 0}};
	uintptr_t bias = 0;
	size_t n = 0;
	unsigned flags;

	dl_iterate_phdr(take_bias, &bias);
	if (!is_known_only)
		w[n++].pc = f->header.e_entry;
	w[n++].pc = (uintptr_t)&marked - bias;
	if (n == 2 && w[0].pc > w[1].pc) {
		w[0].pc = w[1].pc;
		w[1].pc = f->header.e_entry;
	}
	assert_int_equal(ppa_dwarf_resolve_again(f, NULL, w, n, pool, kept, &flags), 0);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(w[i].nframes, w[i].pc == f->header.e_entry ? 0 : 1);
		if (w[i].nframes)
			assert_string_equal(w[i].frames[0].function, "marked");
	}
}

static size_t whole_outlines(const struct ppa_dwarf_index *x)
{
	size_t n = 0;

	for (size_t i = 0; x->outlines && i < x->nplaces; i++)
		n += x->outlines[i] && x->outlines[i]->has_functions && x->outlines[i]->has_stretches;
	return n;
}

/* What the index says it holds, counted from what hangs on it. */
static uint64_t counted(const struct ppa_dwarf_index *x)
{
	uint64_t bytes = sizeof(*x) + x->nplaces * sizeof(*x->places) + x->ranges_cap * sizeof(*x->ranges);

	if (x->outlines)
		bytes += x->nplaces * sizeof(struct ppa_dwarf_outline *);
	for (size_t i = 0; x->outlines && i < x->nplaces; i++)
		if (x->outlines[i])
			bytes += sizeof(struct ppa_dwarf_outline) +
				 x->outlines[i]->functions_cap * sizeof(struct ppa_dwarf_function) +
				 x->outlines[i]->stretches_cap * sizeof(struct ppa_dwarf_stretch);
	return bytes;
}

static void outlines_outlive_the_partial_list(void **state)
{
	struct ppa_dwarf_kept kept = {.index = {NULL}};
	struct ppa_pool pool = {.max_bytes = 8 << 20};
	const struct ppa_dwarf_index *x;
	struct ppa_elf_file f;
	int fd = open_self(&f);
	size_t npart;

	(void)state;
	ask(&f, true, &pool, &kept);
	x = kept.index[0];
	assert_true(x->is_partial);
	assert_int_equal(whole_outlines(x), 1);
	assert_int_equal(ppa_dwarf_index_bytes(x), counted(x));
	npart = x->nplaces;
	ask(&f, false, &pool, &kept);
	assert_false(x->is_partial);
	assert_true(x->nplaces >= npart);
	assert_int_equal(whole_outlines(x), 1);
	assert_int_equal(ppa_dwarf_index_bytes(x), counted(x));
	ask(&f, false, &pool, &kept);
	assert_int_equal(whole_outlines(x), 1);
	ppa_dwarf_kept_free(&kept);
	ppa_pool_free(&pool);
	ppa_elf_close(&f);
	close(fd);
	assert_int_equal(fake_vheap_live, 0);
}

static struct ppa_dwarf_place *places(const uint64_t *offsets, size_t n)
{
	struct ppa_dwarf_place *p = ppa_vheap_calloc(n, sizeof(*p));

	for (size_t i = 0; i < n; i++)
		p[i].offset = offsets[i];
	return p;
}

/* Outlines go with their units' offsets; those of units that are not in the whole list go altogether. */
static void outlines_follow_their_units(void **state)
{
	static const uint64_t part[] = {10, 20, 30, 50}, whole[] = {0, 10, 30, 40, 50, 60};
	struct ppa_dwarf_index *x = ppa_vheap_calloc(1, sizeof(*x));
	struct ppa_dwarf_outline *o[4];

	(void)state;
	ppa_dwarf_index_begin(x, 1 << 20);
	ppa_dwarf_index_take_places(x, places(part, 4), 4, true);
	for (size_t i = 1; i < 4; i++) {
		o[i] = ppa_dwarf_index_outline(x, i);
		assert_true(ppa_dwarf_outline_function(o[i], 100 * i, 100 * i + 10, i));
	}
	assert_true(ppa_dwarf_index_add_range(x, 1, 100, 110));
	ppa_dwarf_index_end_ranges(x, true);
	ppa_dwarf_index_widen(x, places(whole, 6), 6);
	assert_false(x->is_partial || x->has_ranges);
	assert_ptr_equal(x->outlines[2], o[2]);
	assert_ptr_equal(x->outlines[4], o[3]);
	assert_null(x->outlines[0]);
	assert_null(x->outlines[1]);
	assert_null(x->outlines[3]);
	assert_null(x->outlines[5]);
	assert_int_equal(ppa_dwarf_index_bytes(x), counted(x));
	ppa_dwarf_index_free(x);
	assert_int_equal(fake_vheap_live, 0);
}

/* No memory for the longer list of outlines: they go, and nothing else does. */
static void without_room_they_are_dropped(void **state)
{
	static const uint64_t part[] = {10, 20}, whole[] = {10, 20, 30};
	struct ppa_dwarf_index *x = ppa_vheap_calloc(1, sizeof(*x));
	struct ppa_dwarf_place *list = places(whole, 3);

	(void)state;
	ppa_dwarf_index_begin(x, 1 << 20);
	ppa_dwarf_index_take_places(x, places(part, 2), 2, true);
	assert_non_null(ppa_dwarf_index_outline(x, 0));
	fake_vheap_budget = 0;
	ppa_dwarf_index_widen(x, list, 3);
	fake_vheap_budget = -1;
	assert_null(x->outlines);
	assert_int_equal(x->nplaces, 3);
	assert_int_equal(ppa_dwarf_index_bytes(x), counted(x));
	ppa_dwarf_index_free(x);
	assert_int_equal(fake_vheap_live, 0);
}

/* The whole list could not be had at all: it is asked for once more, and may be as long as it likes. */
static void nothing_is_not_a_list(void **state)
{
	static const uint64_t part[] = {10, 20};
	struct ppa_dwarf_index *x = ppa_vheap_calloc(1, sizeof(*x));

	(void)state;
	ppa_dwarf_index_begin(x, 1 << 20);
	ppa_dwarf_index_take_places(x, places(part, 2), 2, true);
	assert_non_null(ppa_dwarf_index_outline(x, 0));
	ppa_dwarf_index_widen(x, NULL, 0);
	assert_null(x->outlines);
	ppa_dwarf_index_take_places(x, places(part, 2), 2, false);
	assert_non_null(ppa_dwarf_index_outline(x, 1));
	assert_int_equal(ppa_dwarf_index_bytes(x), counted(x));
	ppa_dwarf_index_free(x);
	assert_int_equal(fake_vheap_live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(outlines_outlive_the_partial_list),
		cmocka_unit_test(outlines_follow_their_units),
		cmocka_unit_test(without_room_they_are_dropped),
		cmocka_unit_test(nothing_is_not_a_list),
	};

	(void)marked(1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
