/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/name/symload.c unwind/name/module_file.c unwind/module/maps.c unwind/module/maps_read.c unwind/name/symtab.c unwind/name/symtab_collect.c unwind/name/elf_file.c unwind/module/elf_headers.c unwind/name/dynsyms.c unwind/name/plt.c unwind/name/debugdata.c unwind/name/bt_alloc.c agent/base/sys.c agent/base/vendor.c test/fakes/vheap.c @backtrace @zlib
/* Promise: no sequence of bytes that calls itself an ELF file makes the symbol reader fault, leak
 * or loop: as a file, as a loaded image, as mini debug information. The first byte chooses
 * which. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test/fakes/vheap.h"
#include "unwind/name/debugdata.h"
#include "unwind/name/dynsyms.h"
#include "unwind/name/elf_file.h"
#include "unwind/name/plt.h"
#include "unwind/name/symtab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the machine checks before anything else, so that the fuzzer need not find it. */
static const unsigned char ident[] = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT};

static void look_up_all(struct ppa_symtab_builder *b)
{
	struct ppa_symtab_hit hit;
	struct ppa_symtab t;

	if (ppa_symtab_finish(b, &t))
		return;
	for (uint32_t i = 0; i < t.nentries; i++) {
		if (ppa_symtab_lookup(&t, t.entries[i].value, &hit) && strlen(hit.name) > t.names_len)
			abort();
		ppa_symtab_lookup(&t, t.entries[i].value + t.entries[i].size, &hit);
		ppa_symtab_lookup(&t, t.entries[i].value - 1, &hit);
	}
	ppa_symtab_free(&t);
}

static void as_file(const struct ppa_elf_source *s)
{
	struct ppa_symtab_builder b;
	struct ppa_elf_file f;
	struct ppa_debugdata inner;
	uint8_t id[32];

	if (ppa_elf_open(&f, s))
		return;
	ppa_elf_build_id(&f, id, sizeof(id));
	ppa_symtab_begin(&b);
	for (size_t i = 0; i < f.nshdrs; i++)
		ppa_symtab_add_section(&b, &f, &f.shdrs[i]);
	ppa_plt_add(&b, &f);
	look_up_all(&b);
	if (ppa_debugdata_read(&f, &inner) == 0)
		ppa_debugdata_free(&inner);
	ppa_elf_close(&f);
}

static void as_image(const uint8_t *bytes, size_t size)
{
	struct ppa_module m = {
		.path = "x", .lo = (uintptr_t)bytes, .hi = (uintptr_t)bytes + size, .bias = (uintptr_t)bytes};
	struct ppa_symtab_builder b;

	ppa_symtab_begin(&b);
	if (ppa_dynsyms_add(&b, &m))
		ppa_symtab_discard(&b);
	else
		look_up_all(&b);
}

/* A file whose only section of note is the input. */
static void as_debugdata(const uint8_t *bytes, size_t size)
{
	static const char names[] = "\0.gnu_debugdata";
	struct {
		Elf64_Shdr null, data, names;
	} tables = {.data = {.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_size = size},
		    .names = {.sh_type = SHT_STRTAB, .sh_size = sizeof(names)}};
	struct ppa_elf_file f = {
		.shdrs = &tables.null, .nshdrs = 3, .names = (char *)names, .names_len = sizeof(names)};
	struct ppa_debugdata inner;

	ppa_elf_source_bytes(&f.src, bytes, size);
	if (ppa_debugdata_read(&f, &inner) == 0) {
		struct ppa_elf_source s;

		ppa_elf_source_bytes(&s, inner.bytes, inner.len);
		as_file(&s);
		ppa_debugdata_free(&inner);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ppa_elf_source s;
	uint8_t *copy;

	if (size < 2)
		return 0;
	size--;
	copy = malloc(size);
	memcpy(copy, data + 1, size);
	if (data[0] % 3 != 2) {
		memcpy(copy, ident, size < sizeof(ident) ? size : sizeof(ident));
		if (size >= sizeof(Elf64_Ehdr))
			memcpy(copy + offsetof(Elf64_Ehdr, e_machine), &(uint16_t){EM_X86_64}, 2);
	}
	switch (data[0] % 3) {
	case 0:
		ppa_elf_source_bytes(&s, copy, size);
		as_file(&s);
		break;
	case 1:
		as_image(copy, size);
		break;
	default:
		as_debugdata(copy, size);
	}
	free(copy);
	if (fake_vheap_live)
		abort();
	return 0;
}
