/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading ELF headers, sections and the build id from an abstract source.
 *
 * One rule keeps this safe on corrupt files: a length is believed only after it was compared with
 * the size of the source, so no allocation is larger than the file and no read passes its end.
 * Section headers are optional, because a file stripped of them still has program headers to offer;
 * a broken table therefore reads as an absent one. Foreign byte orders and 32-bit files are
 * refused: no such object can be loaded into this process. */
#include <errno.h>
#include <string.h>

#include "agent/base/slice.h"
#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "unwind/name/elf_file.h"

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#error "name this CPU's e_machine here"
#endif

enum { NOTE_ALIGN_DEFAULT = 4 };

static int read_file(const struct ppa_elf_source *s, void *dst, size_t len, uint64_t offset)
{
	uint8_t *to = dst;

	while (len) {
		long n = ppa_sys_pread(s->fd, to, len, offset);

		ppa_slice_offer();
		if (n < 0)
			return (int)n;
		if (n == 0 || (size_t)n > len)
			return -EIO; /* shrank since we asked for its size */
		to += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

static int read_bytes(const struct ppa_elf_source *s, void *dst, size_t len, uint64_t offset)
{
	memcpy(dst, s->bytes + offset, len);
	return 0;
}

static int read_memory(const struct ppa_elf_source *s, void *dst, size_t len, uint64_t offset)
{
	long n = ppa_sys_read_memory(dst, s->memory + offset, len);

	if (n < 0)
		return (int)n;
	return (size_t)n == len ? 0 : -EIO;
}

void ppa_elf_source_file(struct ppa_elf_source *s, int fd, uint64_t size)
{
	*s = (struct ppa_elf_source){.read = read_file, .size = size, .fd = fd};
}

void ppa_elf_source_bytes(struct ppa_elf_source *s, const void *bytes, uint64_t size)
{
	*s = (struct ppa_elf_source){.read = read_bytes, .size = size, .fd = -1, .bytes = bytes};
}

void ppa_elf_source_memory(struct ppa_elf_source *s, uintptr_t start, uint64_t size)
{
	if (size > UINTPTR_MAX - start)
		size = UINTPTR_MAX - start;
	*s = (struct ppa_elf_source){.read = read_memory, .size = size, .fd = -1, .memory = start};
}

int ppa_elf_read(const struct ppa_elf_source *s, void *dst, size_t len, uint64_t offset)
{
	if (offset > s->size || len > s->size - offset)
		return -EIO;
	return len ? s->read(s, dst, len, offset) : 0;
}

/* An array of n elements of bytes each at offset, in the private heap. */
static int read_array(const struct ppa_elf_source *s, size_t n, size_t bytes, uint64_t offset, void **out)
{
	void *p;
	int err;

	if (offset > s->size || n > (s->size - offset) / bytes)
		return -EIO;
	p = ppa_vheap_malloc(n * bytes);
	if (!p)
		return -ENOMEM;
	err = ppa_elf_read(s, p, n * bytes, offset);
	if (err) {
		ppa_vheap_free(p);
		return err;
	}
	*out = p;
	return 0;
}

static int read_phdrs(struct ppa_elf_file *f)
{
	void *p;
	int err;

	if (!f->header.e_phnum || f->header.e_phentsize != sizeof(Elf64_Phdr))
		return 0;
	if (f->header.e_phnum > PPA_ELF_MAX_PHDRS)
		return -ENOEXEC;
	err = read_array(&f->src, f->header.e_phnum, sizeof(Elf64_Phdr), f->header.e_phoff, &p);
	if (err)
		return err;
	f->phdrs = p;
	f->nphdrs = f->header.e_phnum;
	return 0;
}

/* How many section headers, and which of them holds the names: both overflow into section 0 in large files. */
static int count_shdrs(struct ppa_elf_file *f, uint64_t *n, uint32_t *names)
{
	Elf64_Shdr first;
	int err;

	*n = f->header.e_shnum;
	*names = f->header.e_shstrndx;
	if (*n && *names != SHN_XINDEX)
		return 0;
	err = ppa_elf_read(&f->src, &first, sizeof(first), f->header.e_shoff);
	if (err)
		return err;
	if (!*n)
		*n = first.sh_size;
	if (*names == SHN_XINDEX)
		*names = first.sh_link;
	return 0;
}

static int read_shdrs(struct ppa_elf_file *f)
{
	uint32_t names;
	uint64_t n;
	void *p;
	int err;

	if (!f->header.e_shoff || f->header.e_shentsize != sizeof(Elf64_Shdr))
		return 0;
	err = count_shdrs(f, &n, &names);
	if (err)
		return err;
	if (!n || n > PPA_ELF_MAX_SHDRS)
		return 0;
	err = read_array(&f->src, (size_t)n, sizeof(Elf64_Shdr), f->header.e_shoff, &p);
	if (err)
		return err;
	f->shdrs = p;
	f->nshdrs = (size_t)n;
	if (names >= n)
		return 0;
	err = ppa_elf_read_section(f, &f->shdrs[names], PPA_ELF_MAX_SHSTRTAB, &f->names);
	if (!err)
		f->names_len = (size_t)f->shdrs[names].sh_size;
	return err == -ENOMEM ? err : 0;
}

int ppa_elf_open(struct ppa_elf_file *f, const struct ppa_elf_source *s)
{
	int err;

	memset(f, 0, sizeof(*f));
	f->src = *s;
	err = ppa_elf_read(s, &f->header, sizeof(f->header), 0);
	if (err)
		return err == -EIO ? -ENOEXEC : err;
	if (memcmp(f->header.e_ident, ELFMAG, SELFMAG) != 0 || f->header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    f->header.e_ident[EI_DATA] != ELFDATA2LSB || f->header.e_machine != MACHINE)
		return -ENOEXEC;
	err = read_phdrs(f);
	if (!err) {
		err = read_shdrs(f);
		if (err && err != -ENOMEM)
			err = 0; /* the program headers still serve */
	}
	if (err)
		ppa_elf_close(f);
	return err;
}

void ppa_elf_close(struct ppa_elf_file *f)
{
	ppa_vheap_free(f->phdrs);
	ppa_vheap_free(f->shdrs);
	ppa_vheap_free(f->names);
	f->phdrs = NULL;
	f->shdrs = NULL;
	f->names = NULL;
	f->nphdrs = f->nshdrs = f->names_len = 0;
}

const Elf64_Shdr *ppa_elf_section(const struct ppa_elf_file *f, size_t index)
{
	return index < f->nshdrs ? &f->shdrs[index] : NULL;
}

const Elf64_Shdr *ppa_elf_section_named(const struct ppa_elf_file *f, const char *name)
{
	if (!f->names)
		return NULL;
	for (size_t i = 1; i < f->nshdrs; i++) {
		if (f->shdrs[i].sh_name < f->names_len && strcmp(f->names + f->shdrs[i].sh_name, name) == 0)
			return &f->shdrs[i];
	}
	return NULL;
}

const Elf64_Shdr *ppa_elf_section_typed(const struct ppa_elf_file *f, uint32_t type)
{
	for (size_t i = 1; i < f->nshdrs; i++) {
		if (f->shdrs[i].sh_type == type)
			return &f->shdrs[i];
	}
	return NULL;
}

int ppa_elf_read_section(const struct ppa_elf_file *f, const Elf64_Shdr *sh, size_t max, char **out)
{
	char *p;
	int err;

	if (sh->sh_type == SHT_NOBITS || sh->sh_type == SHT_NULL || (sh->sh_flags & SHF_COMPRESSED))
		return -ENOENT;
	if (sh->sh_offset > f->src.size || sh->sh_size > f->src.size - sh->sh_offset)
		return -EIO;
	if (sh->sh_size > max)
		return -EFBIG;
	p = ppa_vheap_malloc((size_t)sh->sh_size + 1);
	if (!p)
		return -ENOMEM;
	err = ppa_elf_read(&f->src, p, (size_t)sh->sh_size, sh->sh_offset);
	if (err) {
		ppa_vheap_free(p);
		return err;
	}
	p[sh->sh_size] = '\0';
	*out = p;
	return 0;
}

/* Search one block of notes for the build id. align is 4 or 8, of the names and descriptors in it. */
static size_t find_build_id(const uint8_t *notes, size_t len, size_t align, uint8_t *id, size_t cap)
{
	size_t at = 0;

	while (len - at >= sizeof(Elf64_Nhdr)) {
		uint64_t name, desc, end;
		Elf64_Nhdr note;

		memcpy(&note, notes + at, sizeof(note));
		name = at + sizeof(note);
		desc = (name + note.n_namesz + align - 1) & ~(uint64_t)(align - 1);
		end = desc + note.n_descsz;
		if (desc > len || end > len)
			return 0;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + name, "GNU", 4) == 0) {
			if (note.n_descsz < cap)
				cap = note.n_descsz;
			memcpy(id, notes + desc, cap);
			return cap;
		}
		at = (size_t)((end + align - 1) & ~(uint64_t)(align - 1));
		if (at > len)
			return 0;
	}
	return 0;
}

static size_t build_id_at(const struct ppa_elf_file *f, uint64_t offset, uint64_t len, uint64_t align, uint8_t *id,
			  size_t cap)
{
	size_t found = 0;
	void *notes;

	if (!len || len > PPA_ELF_MAX_NOTES || read_array(&f->src, (size_t)len, 1, offset, &notes))
		return 0;
	found = find_build_id(notes, (size_t)len, align == 8 ? 8 : NOTE_ALIGN_DEFAULT, id, cap);
	ppa_vheap_free(notes);
	return found;
}

size_t ppa_elf_build_id(const struct ppa_elf_file *f, uint8_t *id, size_t cap)
{
	size_t found;

	/* Sections first: in a separate debug file the program headers point at bits that are not there. */
	for (size_t i = 0; i < f->nshdrs; i++) {
		const Elf64_Shdr *s = &f->shdrs[i];

		if (s->sh_type != SHT_NOTE)
			continue;
		found = build_id_at(f, s->sh_offset, s->sh_size, s->sh_addralign, id, cap);
		if (found)
			return found;
	}
	for (size_t i = 0; i < f->nphdrs; i++) {
		const Elf64_Phdr *p = &f->phdrs[i];

		if (p->p_type != PT_NOTE)
			continue;
		found = build_id_at(f, p->p_offset, p->p_filesz, p->p_align, id, cap);
		if (found)
			return found;
	}
	return 0;
}
