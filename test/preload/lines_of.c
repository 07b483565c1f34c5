// link: unwind/name/dwarf.c unwind/name/dwarf_aranges.c unwind/name/dwarf_data.c unwind/name/dwarf_form.c unwind/name/dwarf_functions.c unwind/name/dwarf_index.c unwind/name/dwarf_lines.c unwind/name/dwarf_unit.c unwind/name/inflate.c unwind/name/inflated.c unwind/name/pool.c unwind/name/elf_file.c unwind/name/module_file.c unwind/module/maps.c unwind/module/maps_read.c @zlib
/* SPDX-License-Identifier: Apache-2.0
 *
 * What the DWARF reader makes of addresses: lines_of FILE < ADDRESSES. For each address (hexadecimal, as the file counts) it
 * prints the address alone on a line and then "function<tab>file:line<tab>start line" for each frame, innermost first.
 * They are asked for in four rounds, as profiles do: a fourth of them, which are spread over the file, each time, so that what the
 * first round left behind, less what was inflated beyond a MiB, serves the others. What a round costs and the peak of the private heap go to standard error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/base/vheap.h"
#include "unwind/name/dwarf.h"
#include "unwind/name/module_file.h"
#include "unwind/name/pool.h"

static int by_pc(const void *a, const void *b)
{
	uint64_t x = ((const struct ppa_dwarf_want *)a)->pc, y = ((const struct ppa_dwarf_want *)b)->pc;

	return x < y ? -1 : x > y;
}

static void print(const struct ppa_dwarf_want *w)
{
	printf("%llx\n", (unsigned long long)w->pc);
	for (uint32_t i = 0; i < w->nframes; i++) {
		const struct ppa_line_frame *f = &w->frames[i];

		printf("%s\t%s:%u\t%u\n", f->function ? f->function : "??", *f->file ? f->file : "??", f->line,
		       f->start_line);
	}
}

enum { ROUNDS = 4, MAX_WANTS = 1 << 20, KEPT_BYTES = 1 << 20 };

static struct ppa_dwarf_want wants[MAX_WANTS], round_wants[MAX_WANTS / ROUNDS + 1];

/* All of wants, round by round. */
static int resolve(const struct ppa_elf_file *f, const struct ppa_elf_file *alternate, size_t n, struct ppa_pool *pool)
{
	struct ppa_dwarf_kept kept = {.index = {NULL}};
	unsigned flags;
	int err = 0;

	for (size_t from = 0; from < ROUNDS && !err; from++) {
		clock_t before = clock();
		size_t k = 0;

		for (size_t i = from; i < n; i += ROUNDS)
			round_wants[k++] = wants[i];
		err = ppa_dwarf_resolve_again(f, alternate, round_wants, k, pool, &kept, &flags);
		k = 0;
		for (size_t i = from; i < n; i += ROUNDS)
			wants[i] = round_wants[k++];
		fprintf(stderr, "%zu addresses: error %d, flags %u, %.1f ms CPU\n", k, err, flags,
			(double)(clock() - before) * 1000 / CLOCKS_PER_SEC);
		ppa_dwarf_kept_shed(&kept, KEPT_BYTES);
	}
	fprintf(stderr, "%llu KiB of private heap, %zu KiB of answers, %llu KiB kept beside\n",
		(unsigned long long)ppa_vheap_mapped_bytes() >> 10, pool->bytes >> 10,
		(unsigned long long)ppa_dwarf_kept_bytes(&kept) >> 10);
	ppa_dwarf_kept_free(&kept);
	return err;
}

int main(int argc, char **argv)
{
	struct ppa_module m = {.path = argc > 1 ? argv[1] : ""};
	struct ppa_module_file file, debug, alternate;
	struct ppa_pool pool = {.max_bytes = 64 << 20};
	const struct ppa_module_file *from = &file;
	unsigned long long pc;
	bool has_alternate;
	struct stat st;
	size_t n = 0;
	int err;

	while (n < MAX_WANTS && scanf("%llx", &pc) == 1)
		wants[n++].pc = pc;
	qsort(wants, n, sizeof(wants[0]), by_pc);
	if (stat(m.path, &st))
		return 2;
	m.ino = st.st_ino;
	err = ppa_module_file_open(&m, &file);
	if (err) {
		fprintf(stderr, "cannot open %s: %d\n", m.path, err);
		return 2;
	}
	m.build_id_len = ppa_elf_build_id(&file.elf, m.build_id, sizeof(m.build_id));
	if (!ppa_elf_section_named(&file.elf, ".debug_info") && !ppa_elf_section_named(&file.elf, ".zdebug_info") &&
	    ppa_module_file_debug(&m, &file, &debug) == 0)
		from = &debug;
	has_alternate = ppa_module_file_alternate(from, &alternate) == 0;
	err = resolve(&from->elf, has_alternate ? &alternate.elf : NULL, n, &pool);
	for (size_t i = 0; i < n; i++)
		print(&wants[i]);
	return err != 0;
}
