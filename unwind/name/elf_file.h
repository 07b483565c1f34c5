/* SPDX-License-Identifier: Apache-2.0
 *
 * An ELF64 file of this machine's byte order, read piece by piece from whatever holds it: a
 * descriptor (pread), a buffer (decompressed .gnu_debugdata), or this process's own memory (the
 * vdso, a file that is gone). Every offset and length comes from outside and is checked against the
 * size of the source before it is used; nothing is mapped, because a file that shrinks under a
 * mapping is a SIGBUS in the target. */
#ifndef PPA_UNWIND_NAME_ELF_FILE_H
#define PPA_UNWIND_NAME_ELF_FILE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

enum {
	PPA_ELF_MAX_PHDRS = 1024,
	PPA_ELF_MAX_SHDRS = 16384,
	PPA_ELF_MAX_SHSTRTAB = 1 << 20, /* bytes */
	PPA_ELF_MAX_NOTES = 64 << 10,	/* bytes of one note section */
};

/* Where bytes come from. Plain data: copied freely, owns nothing. */
struct ppa_elf_source {
	/* Copy exactly len bytes at offset to dst: 0, or -errno (-EIO when the source ends before). */
	int (*read)(const struct ppa_elf_source *s, void *dst, size_t len, uint64_t offset);
	uint64_t size;	      /* bytes the source can give */
	int fd;		      /* of a file source; the caller's */
	const uint8_t *bytes; /* of a buffer source; the caller's */
	uintptr_t memory;     /* first address of a memory source */
};

/* A view of one file; everything it points to is in the private heap until ppa_elf_close. */
struct ppa_elf_file {
	struct ppa_elf_source src;
	Elf64_Ehdr header;
	Elf64_Phdr *phdrs;
	size_t nphdrs;
	Elf64_Shdr *shdrs; /* NULL when the file has none or they cannot be read */
	size_t nshdrs;
	char *names; /* section names, always NUL terminated */
	size_t names_len;
};

/* The three kinds of source. size of a file is the caller's knowledge (fstat). Context: server. */
void ppa_elf_source_file(struct ppa_elf_source *s, int fd, uint64_t size) PPA_CTX_SERVER;
void ppa_elf_source_bytes(struct ppa_elf_source *s, const void *bytes, uint64_t size) PPA_CTX_SERVER;
void ppa_elf_source_memory(struct ppa_elf_source *s, uintptr_t start, uint64_t size) PPA_CTX_SERVER;

/* Read len bytes at offset of the file, checked. 0, or -EIO beyond the end, or the source's -errno. Context: server. */
int ppa_elf_read(const struct ppa_elf_source *s, void *dst, size_t len, uint64_t offset) PPA_CTX_SERVER;

/* Read the headers. 0, or -ENOEXEC when it is no ELF64 file of this byte order and machine,
 * -ENOMEM, -EIO. A file whose section headers are missing or broken still opens, with none. On
 * error *f needs no close. Context: server. */
int ppa_elf_open(struct ppa_elf_file *f, const struct ppa_elf_source *s) PPA_CTX_SERVER;

/* Free what ppa_elf_open read; the source stays the caller's. Context: server. */
void ppa_elf_close(struct ppa_elf_file *f) PPA_CTX_SERVER;

/* The first section of that name, or of that type; NULL if none. Context: server. */
const Elf64_Shdr *ppa_elf_section_named(const struct ppa_elf_file *f, const char *name) PPA_CTX_SERVER;
const Elf64_Shdr *ppa_elf_section_typed(const struct ppa_elf_file *f, uint32_t type) PPA_CTX_SERVER;

/* Section index, or NULL when out of range. Context: server. */
const Elf64_Shdr *ppa_elf_section(const struct ppa_elf_file *f, size_t index) PPA_CTX_SERVER;

/* A section's bytes, uncompressed ones only, plus one NUL, in the private heap: the caller frees
 * *out. 0, or -ENOENT (no bits in the file), -EFBIG beyond max, -EIO, -ENOMEM. Context: server. */
int ppa_elf_read_section(const struct ppa_elf_file *f, const Elf64_Shdr *sh, size_t max, char **out) PPA_CTX_SERVER;

/* The GNU build id, cut to cap bytes; its length, 0 if the file has none. Context: server. */
size_t ppa_elf_build_id(const struct ppa_elf_file *f, uint8_t *id, size_t cap) PPA_CTX_SERVER;

#endif
