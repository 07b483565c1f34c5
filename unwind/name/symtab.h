/* SPDX-License-Identifier: Apache-2.0
 *
 * One module's functions, sorted by link address: built once from any number of symbol sections,
 * then immutable.
 *
 * A builder collects candidates and their names; finish sorts them, keeps the best of each address,
 * and copies only the surviving names. All memory is the private heap's and bounded by
 * PPA_SYMTAB_MAX_BYTES a module. */
#ifndef PPA_UNWIND_NAME_SYMTAB_H
#define PPA_UNWIND_NAME_SYMTAB_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_elf_file;

enum { PPA_SYMTAB_MAX_BYTES = 64 << 20, PPA_SYMTAB_NONE = 0xffffffffU };

/* A candidate's demerit for having no size: its extent has to be guessed. */
enum { PPA_SYMTAB_UNSIZED = 1 << 29 };

/* A function that survived. 24 bytes, because there may be a million. */
struct ppa_symtab_entry {
	uint64_t value; /* link address */
	uint32_t size;	/* extent in bytes, guessed where has_size is clear; larger ones are cut to 4 GiB */
	uint32_t name : 31, has_size : 1; /* offset into names */
	uint32_t up; /* the nearest earlier entry that reaches beyond this one's start, or PPA_SYMTAB_NONE */
};

struct ppa_symtab {
	struct ppa_symtab_entry *entries; /* by value, no two equal */
	uint32_t nentries;
	char *names;
	size_t names_len;
};

/* A candidate. */
struct ppa_symtab_candidate {
	uint64_t value, size;
	uint64_t limit;	   /* end of its section: how far an unsized one may reach */
	uint32_t name;	   /* offset into the builder's names */
	uint32_t demerits; /* the lowest wins its address */
};

struct ppa_symtab_builder {
	struct ppa_symtab_candidate *list;
	size_t n, cap;
	char *names;
	size_t names_len, names_cap;
	uint64_t scanned; /* bytes of names looked at: bounds the work a corrupt file can cause */
};

struct ppa_symtab_hit {
	const char *name; /* lives as long as the table */
	uint64_t value;	  /* link address of the first byte */
	uint64_t size;	  /* 0 when the file does not say */
};

/* Zero is an empty builder, but a spoken beginning reads better. Context: server. */
void ppa_symtab_begin(struct ppa_symtab_builder *b) PPA_CTX_SERVER;

/* Add the functions of a SHT_SYMTAB or SHT_DYNSYM section. 0 also for a broken section (it adds
 * what could be read), -EFBIG beyond the cap, -ENOMEM, or the source's -errno; what was added
 * stays. Context: server. */
int ppa_symtab_add_section(struct ppa_symtab_builder *b, const struct ppa_elf_file *f,
			   const Elf64_Shdr *section) PPA_CTX_SERVER;

/* Copy a string table of len bytes behind the builder's names; *base is where it begins. A NUL is
 * put behind it. 0, -EFBIG, -ENOMEM. Context: server. */
int ppa_symtab_add_names(struct ppa_symtab_builder *b, const struct ppa_elf_file *f, uint64_t offset, uint64_t len,
			 uint32_t *base) PPA_CTX_SERVER;

/* Consider one symbol whose string table of names_len bytes begins at base. limit is the end of its
 * section or segment, and is_code says whether that holds instructions. Quietly leaves out what is
 * no function. 0, -EFBIG, -ENOMEM. Context: server. */
int ppa_symtab_add_symbol(struct ppa_symtab_builder *b, const Elf64_Sym *sym, uint32_t base, uint64_t names_len,
			  uint64_t limit, bool is_code) PPA_CTX_SERVER;

/* Add a function that no table lists, under a name of the caller's making (copied). Loses to any
 * listed one. 0, -EFBIG, -ENOMEM. Context: server. */
int ppa_symtab_add_synthetic(struct ppa_symtab_builder *b, uint64_t value, uint64_t size,
			     const char *name) PPA_CTX_SERVER;

/* Sort and freeze into *t, to be freed with ppa_symtab_free; the builder is empty again whatever
 * comes. 0, -ENOMEM, -EFBIG. No candidate at all gives an empty table. Context: server. */
int ppa_symtab_finish(struct ppa_symtab_builder *b, struct ppa_symtab *t) PPA_CTX_SERVER;

/* Drop a builder. Context: server. */
void ppa_symtab_discard(struct ppa_symtab_builder *b) PPA_CTX_SERVER;

/* The innermost function that contains a link address; false if none. Context: server. */
bool ppa_symtab_lookup(const struct ppa_symtab *t, uint64_t value, struct ppa_symtab_hit *hit) PPA_CTX_SERVER;

/* Bytes the table holds. Context: server. */
size_t ppa_symtab_bytes(const struct ppa_symtab *t) PPA_CTX_SERVER;

/* Context: server. A zeroed table is allowed. */
void ppa_symtab_free(struct ppa_symtab *t) PPA_CTX_SERVER;

#endif
