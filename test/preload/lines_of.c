// link: unwind/name/dwarf.c unwind/name/dwarf_data.c unwind/name/dwarf_form.c unwind/name/dwarf_functions.c unwind/name/dwarf_lines.c unwind/name/dwarf_unit.c unwind/name/pool.c unwind/name/elf_file.c unwind/name/module_file.c unwind/module/maps.c unwind/module/maps_read.c @zlib
/* SPDX-License-Identifier: Apache-2.0
 *
 * What the DWARF reader makes of addresses: lines_of FILE < ADDRESSES. For each address (hexadecimal, as the file counts) it
 * prints the address alone on a line and then "function<tab>file:line<tab>start line" for each frame, innermost first.
 * The CPU time and the peak of the private heap go to standard error. */
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

int main(int argc, char **argv)
{
	static struct ppa_dwarf_want wants[1 << 20];
	struct ppa_module m = {.path = argc > 1 ? argv[1] : ""};
	struct ppa_module_file file, debug, alternate;
	struct ppa_pool pool = {.max_bytes = 64 << 20};
	const struct ppa_module_file *from = &file;
	unsigned long long pc;
	bool has_alternate;
	unsigned flags;
	struct stat st;
	size_t n = 0;
	int err;

	while (n < sizeof(wants) / sizeof(wants[0]) && scanf("%llx", &pc) == 1)
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
	err = ppa_dwarf_resolve(&from->elf, has_alternate ? &alternate.elf : NULL, wants, n, &pool, &flags);
	for (size_t i = 0; i < n; i++)
		print(&wants[i]);
	fprintf(stderr, "error %d, flags %u, %.1f ms CPU, %llu KiB of private heap, %zu KiB kept\n", err, flags,
		(double)clock() * 1000 / CLOCKS_PER_SEC, (unsigned long long)ppa_vheap_mapped_bytes() >> 10,
		pool.bytes >> 10);
	return err != 0;
}
