/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/name/dwarf.c unwind/name/dwarf_aranges.c unwind/name/dwarf_data.c unwind/name/dwarf_form.c unwind/name/dwarf_functions.c unwind/name/dwarf_index.c unwind/name/dwarf_lines.c unwind/name/dwarf_unit.c unwind/name/inflate.c unwind/name/inflated.c unwind/name/pool.c unwind/name/elf_file.c agent/base/sys.c test/fakes/vheap.c @zlib
/* Promise: no bytes make the reader of debug information fault, leak or go on without end, as a whole file or as the
 * sections of one, also when the file is cut or rewritten while it is read, and when it is asked again with what it kept; what it
 * finds are whole texts in sane numbers.
 *
 * Input: kind (even: a whole ELF file, odd: sections; 4: with memory that runs out), trouble (after so many reads the file
 * changes: 0 never), the first address and the step to the next of 16, both 32 bits; then the file, or for each section
 * its length in 16 bits, and all of them one after another. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test/fakes/vheap.h"
#include "unwind/name/dwarf.h"
#include "unwind/name/elf_file.h"
#include "unwind/name/pool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SECTION(name) name "\0"
static const char names[] = "\0" SECTION(".debug_info") SECTION(".debug_abbrev") SECTION(".debug_line")
	SECTION(".debug_str") SECTION(".debug_line_str") SECTION(".debug_ranges") SECTION(".debug_rnglists")
		SECTION(".debug_addr") SECTION(".debug_str_offsets") SECTION(".debug_aranges");
enum { NSECTIONS = 10, NWANTS = 16, NROUNDS = 4, HEAD = 10, POOL_BYTES = 1 << 20, SMALL_POOL = 2 << 10 };

static struct {
	const uint8_t *bytes;
	uint64_t size;
	unsigned reads, trouble; /* when reads reaches trouble, trouble begins */
} file;

/* A file that changes: cut in half (odd), or every byte another (even). */
static int read_changing(const struct ppa_elf_source *s, void *dst, size_t len, uint64_t offset)
{
	bool is_changed = file.trouble && ++file.reads >= file.trouble;

	(void)s;
	if (is_changed && file.trouble % 2 && offset + len > file.size / 2)
		return -5; /* EIO */
	memcpy(dst, file.bytes + offset, len);
	for (size_t i = 0; is_changed && !(file.trouble % 2) && i < len; i++)
		((uint8_t *)dst)[i] ^= 0x11;
	return 0;
}

static size_t length_of(const struct ppa_dwarf_want *w)
{
	size_t length = 0;

	for (uint32_t k = 0; k < w->nframes; k++)
		length += strlen(w->frames[k].file) + (w->frames[k].function ? strlen(w->frames[k].function) : 0);
	return length;
}

static void resolve(const struct ppa_elf_file *f, uint32_t pc, uint32_t step, bool is_short)
{
	struct ppa_dwarf_want wants[NWANTS];
	struct ppa_pool pool = {.max_bytes = is_short ? SMALL_POOL : POOL_BYTES};
	struct ppa_dwarf_kept kept = {.index = {NULL}};
	unsigned flags;
	size_t length = 0;

	for (uint64_t round = 0; round < NROUNDS; round++) {
		memset(wants, 0, sizeof(wants));
		for (uint64_t i = 0; i < NWANTS; i++)
			wants[i].pc = pc + (i + (round & 1) * NWANTS) * (step % 4096);
		if (ppa_dwarf_resolve_again(f, f, wants, NWANTS, &pool, &kept, &flags))
			continue;
		for (size_t i = 0; i < NWANTS; i++)
			length += length_of(&wants[i]);
	}
	if (pool.bytes > pool.max_bytes || length == SIZE_MAX)
		abort();
	ppa_dwarf_kept_free(&kept);
	ppa_pool_free(&pool);
}

static void as_sections(struct ppa_elf_source *s, uint32_t pc, uint32_t step, bool is_short)
{
	struct ppa_elf_file f = {.nshdrs = NSECTIONS + 1, .names = (char *)names, .names_len = sizeof(names)};
	Elf64_Shdr sections[NSECTIONS + 1];
	uint64_t at = 2 * NSECTIONS;
	uint32_t name = 1;

	if (s->size < at)
		return;
	memset(sections, 0, sizeof(sections));
	f.shdrs = sections;
	f.src = *s;
	for (unsigned i = 0; i < NSECTIONS; i++) {
		uint64_t len = file.bytes[2 * i] | (uint64_t)file.bytes[2 * i + 1] << 8;

		len = len < s->size - at ? len : s->size - at;
		sections[i + 1] = (Elf64_Shdr){
			.sh_name = name, .sh_type = SHT_PROGBITS, .sh_offset = at, .sh_size = len, .sh_addralign = 1};
		name += (uint32_t)strlen(names + name) + 1;
		at += len;
	}
	resolve(&f, pc, step, is_short);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ppa_elf_source s;
	struct ppa_elf_file f;
	uint32_t pc, step;

	if (size < HEAD + 1)
		return 0;
	memcpy(&pc, data + 2, 4);
	memcpy(&step, data + 6, 4);
	file.size = size - HEAD;
	file.bytes = memcpy(malloc(file.size), data + HEAD, file.size);
	file.reads = 0;
	file.trouble = data[1];
	ppa_elf_source_bytes(&s, file.bytes, file.size);
	s.read = read_changing;
	if (data[0] % 2) {
		as_sections(&s, pc, step, data[0] & 4);
	} else if (ppa_elf_open(&f, &s) == 0) {
		resolve(&f, pc, step, data[0] & 4);
		ppa_elf_close(&f);
	}
	free((void *)file.bytes);
	if (fake_vheap_live)
		abort();
	return 0;
}
