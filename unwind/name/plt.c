/* SPDX-License-Identifier: Apache-2.0
 *
 * A stub jumps through a slot of the global offset table, and the relocation of that slot names the
 * function. So: the relocations sorted by slot, and every stub's jump decoded and looked up there.
 * Counting stubs instead (the third belongs to the third relocation) fails for .plt.got and for
 * linkers that put other code between. Both tables are read from the file and dropped again; names
 * are read one by one, for stubs that exist. */
#include "unwind/name/plt.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "unwind/name/elf_file.h"
#include "unwind/name/symtab.h"

#if defined(__x86_64__)
#include "unwind/name/plt_x86_64.h"
#else
#error "no stub reader for this processor yet: add unwind/plt_<cpu>.h"
#endif

#define SUFFIX "@plt"

enum {
	MAX_RELOCATIONS = 1 << 16,  /* of a section: its last ones */
	MAX_STUB_SECTION = 4 << 20, /* bytes */
	CHUNK = 1024,		    /* relocations read at a time */
	NAME_CAP = 512,		    /* longer names go without a stub's */
};

/* A slot of the global offset table and the dynamic symbol it is for. */
struct slot {
	uint64_t address;
	uint32_t symbol;
};

struct slots {
	struct slot *list;
	size_t n, cap;
	const Elf64_Shdr *dynsym;
};

static int push(struct slots *s, uint64_t address, uint32_t symbol)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : CHUNK;
		void *p;

		if (cap > 2 * MAX_RELOCATIONS)
			return -EFBIG;
		p = ppa_vheap_realloc(s->list, cap * sizeof(*s->list));
		if (!p)
			return -ENOMEM;
		s->list = p;
		s->cap = cap;
	}
	s->list[s->n++] = (struct slot){address, symbol};
	return 0;
}

/* The relocations of one section that fill slots with functions' addresses. */
static int collect(struct slots *s, const struct ppa_elf_file *f, const Elf64_Shdr *section)
{
	uint64_t left = section->sh_size / sizeof(Elf64_Rela), at = section->sh_offset;
	Elf64_Rela *chunk = ppa_vheap_malloc(CHUNK * sizeof(*chunk));
	int err = chunk ? 0 : -ENOMEM;

	/* Linkers put the relative ones first; a large program has a million of them and we want none. */
	if (left > MAX_RELOCATIONS && at <= f->src.size) {
		at += (left - MAX_RELOCATIONS) * sizeof(Elf64_Rela);
		left = MAX_RELOCATIONS;
	}
	while (left && !err) {
		size_t n = left < CHUNK ? (size_t)left : CHUNK;

		if (ppa_elf_read(&f->src, chunk, n * sizeof(*chunk), at))
			break;
		for (size_t i = 0; i < n && !err; i++) {
			uint32_t type = ELF64_R_TYPE(chunk[i].r_info);

			if (type == PPA_ARCH_JUMP_SLOT || type == PPA_ARCH_GLOB_DAT)
				err = push(s, chunk[i].r_offset, (uint32_t)ELF64_R_SYM(chunk[i].r_info));
		}
		at += n * sizeof(*chunk);
		left -= n;
	}
	ppa_vheap_free(chunk);
	return err;
}

/* Shell sort: linkers leave the list nearly sorted, and it needs no second one. */
static void sort(struct slots *s)
{
	size_t gap = 1;

	while (gap < s->n / 3)
		gap = gap * 3 + 1;
	for (; gap; gap /= 3) {
		for (size_t i = gap; i < s->n; i++) {
			struct slot moving = s->list[i];
			size_t at = i;

			for (; at >= gap && s->list[at - gap].address > moving.address; at -= gap)
				s->list[at] = s->list[at - gap];
			s->list[at] = moving;
		}
	}
}

static const struct slot *find(const struct slots *s, uint64_t address)
{
	size_t lo = 0, hi = s->n;

	while (lo < hi) {
		size_t middle = lo + (hi - lo) / 2;

		if (s->list[middle].address < address)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo < s->n && s->list[lo].address == address ? &s->list[lo] : NULL;
}

/* "name@plt" of a dynamic symbol; false if it cannot be read. */
static bool name_of(const struct slots *s, const struct ppa_elf_file *f, uint32_t symbol, char name[NAME_CAP])
{
	const Elf64_Shdr *strings = ppa_elf_section(f, s->dynsym->sh_link);
	size_t room = NAME_CAP - sizeof(SUFFIX), len;
	uint64_t left;
	Elf64_Sym sym;

	if (!strings || strings->sh_type != SHT_STRTAB || symbol >= s->dynsym->sh_size / sizeof(sym) ||
	    s->dynsym->sh_offset > f->src.size ||
	    ppa_elf_read(&f->src, &sym, sizeof(sym), s->dynsym->sh_offset + symbol * sizeof(sym)) ||
	    sym.st_name >= strings->sh_size || strings->sh_offset > f->src.size)
		return false;
	left = strings->sh_size - sym.st_name;
	if (left < room)
		room = (size_t)left;
	if (ppa_elf_read(&f->src, name, room, strings->sh_offset + sym.st_name))
		return false;
	len = strnlen(name, room);
	if (!len || len == room)
		return false;
	memcpy(name + len, SUFFIX, sizeof(SUFFIX));
	return true;
}

static int add_stubs(struct ppa_symtab_builder *b, const struct slots *s, const struct ppa_elf_file *f,
		     const Elf64_Shdr *section)
{
	size_t each = section->sh_entsize == 8 ? 8 : PPA_ARCH_STUB_BYTES;
	char name[NAME_CAP];
	char *code;
	int err;

	err = ppa_elf_read_section(f, section, MAX_STUB_SECTION, &code);
	if (err)
		return err == -ENOMEM ? err : 0;
	for (uint64_t at = 0; at + each <= section->sh_size && !err; at += each) {
		uint64_t address = section->sh_addr + at, to;
		const struct slot *slot = NULL;

		if (ppa_arch_stub_slot((const uint8_t *)code + at, each, address, &to))
			slot = find(s, to);
		if (slot && name_of(s, f, slot->symbol, name))
			err = ppa_symtab_add_synthetic(b, address, each, name);
	}
	ppa_vheap_free(code);
	return err;
}

static bool is_stub_section(const struct ppa_elf_file *f, const Elf64_Shdr *section)
{
	return (section->sh_flags & SHF_EXECINSTR) && section->sh_type == SHT_PROGBITS && f->names &&
	       section->sh_name < f->names_len && strncmp(f->names + section->sh_name, ".plt", 4) == 0;
}

int ppa_plt_add(struct ppa_symtab_builder *b, const struct ppa_elf_file *f)
{
	struct slots s = {.dynsym = ppa_elf_section_typed(f, SHT_DYNSYM)};
	int err = 0;

	if (!s.dynsym)
		return 0;
	for (size_t i = 0; i < f->nshdrs && !err; i++) {
		const Elf64_Shdr *section = &f->shdrs[i];

		if (section->sh_type == SHT_RELA && ppa_elf_section(f, section->sh_link) == s.dynsym)
			err = collect(&s, f, section);
	}
	if (err == -EFBIG)
		err = 0; /* the first so many must do */
	sort(&s);
	for (size_t i = 0; i < f->nshdrs && s.n && !err; i++) {
		if (is_stub_section(f, &f->shdrs[i]))
			err = add_stubs(b, &s, f, &f->shdrs[i]);
	}
	ppa_vheap_free(s.list);
	return err;
}
