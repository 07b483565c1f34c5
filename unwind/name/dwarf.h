/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses to functions, files and lines, inlined calls included, by DWARF 2 to 5.
 *
 * A reader of our own, because it runs inside somebody's process on files that may be anything. libbacktrace, which
 * issue and plan named for this, wants every section of the file in memory (a fifth of a gigabyte for a large server),
 * divides by a line_range of 0, believes the length of a line table, and recurses as deep as a file says (see
 * unwind/README.md). This one holds windows of sections, knows its addresses beforehand and keeps nothing else, and its
 * work is bounded by the size of the file. */
#ifndef PPA_UNWIND_NAME_DWARF_H
#define PPA_UNWIND_NAME_DWARF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/name/inflated.h"

struct ppa_elf_file;
struct ppa_pool;
struct ppa_dwarf_call;
struct ppa_dwarf_index;

/* One of the functions whose code is at an address. */
struct ppa_line_frame {
	const char *function; /* linker name where the file has it, else the name in the source; NULL if unknown */
	const char *file;     /* "" if unknown */
	uint32_t line;	      /* 0 if unknown */
	uint32_t start_line;  /* of the function, 0 if unknown or in another file */
};

/* What is kept of a file and its alternate from one call to the next: inflated sections, since inflating is most of what a
 * compressed debug file costs, and where things are. Zero is empty. In the private heap; ppa_dwarf_kept_free ends it. */
enum { PPA_DWARF_MAX_KEPT = 20 };
struct ppa_dwarf_kept {
	struct ppa_dwarf_index *index[2];
	struct ppa_inflated inflated[PPA_DWARF_MAX_KEPT];
};

/* An address to be found. */
struct ppa_dwarf_want {
	uint64_t pc; /* as the file counts */
	/* out; in the pool */
	const struct ppa_line_frame *frames; /* innermost inlined first */
	uint32_t nframes;		     /* 0: nothing is known */
	/* while its unit is read */
	uint32_t row_file, row_line;
	bool has_row;
	uint32_t ncalls, calls_cap;
	struct ppa_dwarf_call *calls;
};

enum {
	PPA_DWARF_SPLIT = 1,	 /* functions of some units are in .dwo files, which are not read */
	PPA_DWARF_NO_MEMORY = 2, /* some were left out: the pool is full, or the private heap */
};

/* Find all of wants, which are sorted by pc and otherwise zero, in f; alt is dwz's alternate file or NULL. 0, or -ENOENT when f has
 * no DWARF, -EFBIG or -ENOTSUP when it is compressed and too large or in a way we do not know, -EIO, -ENOMEM; *flags
 * tells more. What must be inflated counts against the pool's limit meanwhile. Context: server. */
int ppa_dwarf_resolve(const struct ppa_elf_file *f, const struct ppa_elf_file *alt, struct ppa_dwarf_want *wants,
		      size_t n, struct ppa_pool *pool, unsigned *flags) PPA_CTX_SERVER;

/* The same, with what an earlier call kept of the same files. Context: server. */
int ppa_dwarf_resolve_again(const struct ppa_elf_file *f, const struct ppa_elf_file *alt, struct ppa_dwarf_want *wants,
			    size_t n, struct ppa_pool *pool, struct ppa_dwarf_kept *kept,
			    unsigned *flags) PPA_CTX_SERVER;

/* Bytes that kept holds; free them. Context: server. */
uint64_t ppa_dwarf_kept_bytes(const struct ppa_dwarf_kept *kept) PPA_CTX_SERVER;
/* Free inflated sections until they take no more than so many bytes; where things are stays. Context: server. */
void ppa_dwarf_kept_shed(struct ppa_dwarf_kept *kept, uint64_t bytes) PPA_CTX_SERVER;
void ppa_dwarf_kept_free(struct ppa_dwarf_kept *kept) PPA_CTX_SERVER;

#endif
