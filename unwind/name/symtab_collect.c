/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes into a function table: symbols read from sections in chunks, the string tables behind
 * one another in one buffer, and for each candidate a number that says how much it would be missed.
 *
 * Of several names at one address the one with a size wins, then visible over local, typed over
 * untyped, names as the public knows them (fewer leading underscores: puts, not _IO_puts, though
 * the first is weak), strong over weak, the shorter, the alphabetically first: deterministic
 * whatever the order in the file. What is no function (data, imports, compilers' labels) is left
 * out here, and so is what would not fit: a corrupt file costs names, no more. */
#include "unwind/name/symtab.h"

#include <errno.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "unwind/name/elf_file.h"

enum {
	CHUNK_SYMBOLS = 2048, /* symbols read at a time */
	NAMES_MAX = 1 << 30,  /* what 31 bits of offset can tell; the byte cap comes far earlier */
	SCAN_MAX = 512 << 20, /* bytes of names looked at: many symbols may share one long name */
	DEMERIT_SYNTHETIC = 1 << 30,
	DEMERIT_LOCAL = 1 << 28,
	DEMERIT_UNTYPED = 1 << 27,
	DEMERIT_UNDERSCORE = 1 << 20, /* each, at most 15 */
	DEMERIT_WEAK = 1 << 16,	      /* below it: the length of the name */
};

void ppa_symtab_begin(struct ppa_symtab_builder *b)
{
	memset(b, 0, sizeof(*b));
}

void ppa_symtab_discard(struct ppa_symtab_builder *b)
{
	ppa_vheap_free(b->list);
	ppa_vheap_free(b->names);
	memset(b, 0, sizeof(*b));
}

static bool fits(const struct ppa_symtab_builder *b, uint64_t more_bytes)
{
	uint64_t have = b->n * sizeof(*b->list) + b->names_len;

	return more_bytes <= PPA_SYMTAB_MAX_BYTES && have + more_bytes <= PPA_SYMTAB_MAX_BYTES;
}

/* Room for len more bytes of names. */
static int grow_names(struct ppa_symtab_builder *b, uint64_t len)
{
	size_t want;
	char *p;

	if (!fits(b, len))
		return -EFBIG;
	want = b->names_len + (size_t)len;
	if (want <= b->names_cap)
		return 0;
	p = ppa_vheap_realloc(b->names, want + want / 8);
	if (!p)
		return -ENOMEM;
	b->names = p;
	b->names_cap = want + want / 8;
	return 0;
}

int ppa_symtab_add_names(struct ppa_symtab_builder *b, const struct ppa_elf_file *f, uint64_t offset, uint64_t len,
			 uint32_t *base)
{
	int err;

	if (offset > f->src.size || len > f->src.size - offset)
		return -EIO;
	if (len >= NAMES_MAX)
		return -EFBIG;
	err = grow_names(b, len + 1);
	if (!err)
		err = ppa_elf_read(&f->src, b->names + b->names_len, (size_t)len, offset);
	if (err)
		return err;
	*base = (uint32_t)b->names_len;
	b->names_len += (size_t)len;
	b->names[b->names_len++] = '\0';
	return 0;
}

static int push(struct ppa_symtab_builder *b, const struct ppa_symtab_candidate *c)
{
	if (b->n == b->cap) {
		size_t cap = b->cap ? b->cap * 2 : CHUNK_SYMBOLS;
		void *p;

		if (!fits(b, sizeof(*c)))
			return -EFBIG;
		p = ppa_vheap_realloc(b->list, cap * sizeof(*c));
		if (!p)
			return -ENOMEM;
		b->list = p;
		b->cap = cap;
	}
	b->list[b->n++] = *c;
	return 0;
}

/* Mangled names begin with an underscore that does not mean "internal". */
static uint32_t underscores(const char *name)
{
	uint32_t n = 0;

	if (name[0] == '_' && (name[1] == 'Z' || name[1] == 'R' || name[1] == 'D'))
		return 0;
	while (name[n] == '_' && n < 15)
		n++;
	return n;
}

static uint32_t demerits(const Elf64_Sym *sym, const char *name, size_t len)
{
	uint32_t d = underscores(name) * DEMERIT_UNDERSCORE + (len < 0xffff ? (uint32_t)len : 0xffff);

	if (!sym->st_size)
		d += PPA_SYMTAB_UNSIZED;
	if (ELF64_ST_BIND(sym->st_info) == STB_LOCAL)
		d += DEMERIT_LOCAL;
	if (ELF64_ST_BIND(sym->st_info) == STB_WEAK)
		d += DEMERIT_WEAK;
	if (ELF64_ST_TYPE(sym->st_info) == STT_NOTYPE)
		d += DEMERIT_UNTYPED;
	return d;
}

static bool is_function(const Elf64_Sym *sym, const char *name, bool is_code)
{
	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS || sym->st_shndx == SHN_COMMON || !name[0])
		return false;
	switch (ELF64_ST_TYPE(sym->st_info)) {
	case STT_FUNC:
	case STT_GNU_IFUNC:
		return true;
	case STT_NOTYPE:
		/* Hand-written assembly; not mapping symbols ($x) nor compilers' labels. */
		return is_code && name[0] != '$' && !(name[0] == '.' && name[1] == 'L');
	default:
		return false;
	}
}

int ppa_symtab_add_symbol(struct ppa_symtab_builder *b, const Elf64_Sym *sym, uint32_t base, uint64_t names_len,
			  uint64_t limit, bool is_code)
{
	struct ppa_symtab_candidate c;
	char *name, *version;
	size_t len;

	if (sym->st_name >= names_len || base + names_len >= b->names_len)
		return 0;
	c.name = base + sym->st_name;
	name = b->names + c.name;
	if (!is_function(sym, name, is_code))
		return 0;
	/* foo@@V1 and foo@V0 of .symtab; a name may be shared, cutting it twice does no harm. */
	len = strlen(name);
	b->scanned += len;
	if (b->scanned > SCAN_MAX)
		return -EFBIG;
	version = name[0] == '?' ? NULL : memchr(name + 1, '@', len - 1);
	if (version) {
		*version = '\0';
		len = (size_t)(version - name);
	}
	c.value = sym->st_value;
	c.size = sym->st_size;
	c.limit = limit;
	c.demerits = demerits(sym, name, len);
	return push(b, &c);
}

int ppa_symtab_add_synthetic(struct ppa_symtab_builder *b, uint64_t value, uint64_t size, const char *name)
{
	size_t len = strlen(name) + 1;
	struct ppa_symtab_candidate c = {.value = value, .size = size, .demerits = DEMERIT_SYNTHETIC};
	int err = grow_names(b, len);

	if (err)
		return err;
	c.limit = value + size;
	c.name = (uint32_t)b->names_len;
	memcpy(b->names + b->names_len, name, len);
	b->names_len += len;
	return push(b, &c);
}

static int add_symbols(struct ppa_symtab_builder *b, const struct ppa_elf_file *f, const Elf64_Sym *syms, size_t n,
		       uint32_t base, uint64_t names_len)
{
	for (size_t i = 0; i < n; i++) {
		const Elf64_Shdr *sh = NULL;
		uint64_t limit = UINT64_MAX;
		bool is_code = false;
		int err;

		if (syms[i].st_shndx < SHN_LORESERVE)
			sh = ppa_elf_section(f, syms[i].st_shndx);
		if (sh) {
			is_code = sh->sh_flags & SHF_EXECINSTR;
			if (__builtin_add_overflow(sh->sh_addr, sh->sh_size, &limit))
				limit = UINT64_MAX;
		}
		err = ppa_symtab_add_symbol(b, &syms[i], base, names_len, limit, is_code);
		if (err)
			return err;
	}
	return 0;
}

int ppa_symtab_add_section(struct ppa_symtab_builder *b, const struct ppa_elf_file *f, const Elf64_Shdr *section)
{
	const Elf64_Shdr *names = ppa_elf_section(f, section->sh_link);
	uint64_t at = section->sh_offset, left = section->sh_size / sizeof(Elf64_Sym);
	Elf64_Sym *chunk;
	uint32_t base;
	int err;

	if (section->sh_type == SHT_NOBITS || !names || names->sh_type != SHT_STRTAB ||
	    section->sh_entsize != sizeof(Elf64_Sym) || at > f->src.size || section->sh_size > f->src.size - at)
		return 0;
	err = ppa_symtab_add_names(b, f, names->sh_offset, names->sh_size, &base);
	if (err)
		return err == -EIO ? 0 : err;
	chunk = ppa_vheap_malloc(CHUNK_SYMBOLS * sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	while (left && !err) {
		size_t n = left < CHUNK_SYMBOLS ? (size_t)left : CHUNK_SYMBOLS;

		err = ppa_elf_read(&f->src, chunk, n * sizeof(*chunk), at);
		if (!err)
			err = add_symbols(b, f, chunk, n, base, names->sh_size);
		at += n * sizeof(*chunk);
		left -= n;
	}
	ppa_vheap_free(chunk);
	return err;
}
