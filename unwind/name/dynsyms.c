/* SPDX-License-Identifier: Apache-2.0
 *
 * PT_DYNAMIC -> DT_SYMTAB, DT_STRTAB and a hash table, which alone tells how many symbols there
 * are: DT_HASH says it outright, DT_GNU_HASH by its last chain. Where neither can be read, the
 * string table nearly always follows the symbols and marks their end. glibc relocates the pointers
 * in place, other loaders leave them as link addresses; what lies inside the module already is
 * taken as relocated. */
#include "unwind/name/dynsyms.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "unwind/name/elf_file.h"
#include "unwind/module/elf_headers.h"
#include "unwind/name/symtab.h"

enum {
	MAX_DYNS = 512,
	MAX_SYMBOLS = 1 << 20,
	MAX_CHAIN = 1 << 20,
	CHUNK_SYMBOLS = 1024,
};

/* Offsets from the module's first byte; 0 where missing. */
struct dynamic {
	uint64_t symtab, strtab, strtab_len, hash, gnu_hash;
};

struct gnu_hash_header {
	uint32_t nbuckets, first_symbol, nblooms, shift;
};

/* To an offset from m->lo; 0 when it is not in the module. */
static uint64_t offset_of(const struct ppa_module *m, uint64_t pointer)
{
	if (pointer < m->lo || pointer >= m->hi)
		pointer += m->bias;
	return pointer > m->lo && pointer < m->hi ? pointer - m->lo : 0;
}

static void take_entry(const struct ppa_module *m, const Elf64_Dyn *d, struct dynamic *out)
{
	switch (d->d_tag) {
	case DT_SYMTAB:
		out->symtab = offset_of(m, d->d_un.d_ptr);
		break;
	case DT_STRTAB:
		out->strtab = offset_of(m, d->d_un.d_ptr);
		break;
	case DT_STRSZ:
		out->strtab_len = d->d_un.d_val;
		break;
	case DT_HASH:
		out->hash = offset_of(m, d->d_un.d_ptr);
		break;
	case DT_GNU_HASH:
		out->gnu_hash = offset_of(m, d->d_un.d_ptr);
		break;
	default:
		break;
	}
}

static bool read_dynamic(const struct ppa_elf_file *f, const struct ppa_module *m, struct dynamic *out)
{
	const Elf64_Phdr *p = NULL;
	Elf64_Dyn entry;
	uint64_t at;

	*out = (struct dynamic){0};
	for (size_t i = 0; i < f->nphdrs; i++) {
		if (f->phdrs[i].p_type == PT_DYNAMIC)
			p = &f->phdrs[i];
	}
	if (!p)
		return false;
	at = p->p_vaddr + m->bias - m->lo;
	for (size_t i = 0; i < MAX_DYNS && i < p->p_memsz / sizeof(entry); i++) {
		if (ppa_elf_read(&f->src, &entry, sizeof(entry), at + i * sizeof(entry)) || entry.d_tag == DT_NULL)
			break;
		take_entry(m, &entry, out);
	}
	return out->symtab && out->strtab && out->strtab_len;
}

/* One past the highest symbol the GNU hash table reaches; 0 if it cannot be told. Only the chains' ends know. */
static uint64_t count_gnu_hash(const struct ppa_elf_file *f, uint64_t at)
{
	struct gnu_hash_header h;
	uint64_t buckets, chains;
	uint32_t value, last = 0;

	if (ppa_elf_read(&f->src, &h, sizeof(h), at) || h.nbuckets > MAX_SYMBOLS || h.nblooms > MAX_SYMBOLS)
		return 0;
	buckets = at + sizeof(h) + 8ULL * h.nblooms;
	chains = buckets + 4ULL * h.nbuckets;
	for (uint32_t i = 0; i < h.nbuckets; i++) {
		if (ppa_elf_read(&f->src, &value, sizeof(value), buckets + 4ULL * i))
			return 0;
		if (value > last)
			last = value;
	}
	if (last < h.first_symbol)
		return h.first_symbol;
	for (uint32_t i = 0; i < MAX_CHAIN; i++, last++) {
		if (ppa_elf_read(&f->src, &value, sizeof(value), chains + 4ULL * (last - h.first_symbol)))
			return 0;
		if (value & 1)
			return (uint64_t)last + 1;
	}
	return 0;
}

static uint64_t count_symbols(const struct ppa_elf_file *f, const struct dynamic *d)
{
	uint64_t n = 0;
	uint32_t hash[2];

	if (d->hash && !ppa_elf_read(&f->src, hash, sizeof(hash), d->hash))
		n = hash[1];
	else if (d->gnu_hash)
		n = count_gnu_hash(f, d->gnu_hash);
	if (!n && d->strtab > d->symtab)
		n = (d->strtab - d->symtab) / sizeof(Elf64_Sym);
	return n < MAX_SYMBOLS ? n : MAX_SYMBOLS;
}

/* The end of the executable segment around a link address, 0 if it is in none. */
static uint64_t code_limit(const struct ppa_elf_file *f, uint64_t value)
{
	for (size_t i = 0; i < f->nphdrs; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];

		if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && value - p->p_vaddr < p->p_memsz)
			return p->p_vaddr + p->p_memsz;
	}
	return 0;
}

static int add_symbols(struct ppa_symtab_builder *b, const struct ppa_elf_file *f, const struct dynamic *d,
		       Elf64_Sym *syms)
{
	uint64_t left = count_symbols(f, d), at = d->symtab;
	uint32_t base;
	int err;

	err = ppa_symtab_add_names(b, f, d->strtab, d->strtab_len, &base);
	while (left && !err) {
		size_t n = left < CHUNK_SYMBOLS ? (size_t)left : CHUNK_SYMBOLS;

		err = ppa_elf_read(&f->src, syms, n * sizeof(*syms), at);
		for (size_t i = 0; i < n && !err; i++) {
			uint64_t limit = code_limit(f, syms[i].st_value);

			if (limit)
				err = ppa_symtab_add_symbol(b, &syms[i], base, d->strtab_len, limit, true);
		}
		at += n * sizeof(*syms);
		left -= n;
	}
	return err == -ENOMEM || err == -EFBIG ? err : 0; /* a table that ends early still has a beginning */
}

/* A module that was unloaded may have left its place to another. */
static bool is_still_there(const struct ppa_module *m)
{
	struct ppa_elf elf;

	return !m->build_id_len || (!ppa_elf_headers_read(m->lo, &elf) && elf.build_id_len == m->build_id_len &&
				    memcmp(elf.build_id, m->build_id, m->build_id_len) == 0);
}

int ppa_dynsyms_add(struct ppa_symtab_builder *b, const struct ppa_module *m)
{
	struct ppa_elf_source memory;
	struct ppa_elf_file f;
	struct dynamic d;
	Elf64_Sym *syms;
	int err;

	if (m->hi <= m->lo || !is_still_there(m))
		return -ENOENT;
	ppa_elf_source_memory(&memory, m->lo, m->hi - m->lo);
	if (ppa_elf_open(&f, &memory))
		return -ENOENT;
	err = -ENOMEM;
	syms = ppa_vheap_malloc(CHUNK_SYMBOLS * sizeof(*syms));
	if (syms)
		err = read_dynamic(&f, m, &d) ? add_symbols(b, &f, &d, syms) : -ENOENT;
	ppa_vheap_free(syms);
	ppa_elf_close(&f);
	return err;
}
