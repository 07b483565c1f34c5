/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the DWARF reader show one another: dwarf_functions.c (who is inlined in whom), dwarf_lines.c (which line
 * an address belongs to) and dwarf.c, which puts both together. */
#ifndef PPA_UNWIND_NAME_DWARF_PARTS_H
#define PPA_UNWIND_NAME_DWARF_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/name/dwarf.h"
#include "unwind/name/dwarf_unit.h"

/* A function around an address, or a call that was inlined there. */
struct ppa_dwarf_call {
	uint64_t entry; /* in .debug_info */
	uint64_t bytes; /* of the range that the address is in */
	uint32_t depth; /* of the entry in the unit's tree */
	uint32_t call_file, call_line;
};

/* The addresses of one unit, by pc. */
struct ppa_dwarf_set {
	struct ppa_dwarf_want **list;
	size_t n;
};

/* The first of them at or above pc. Context: server. */
size_t ppa_dwarf_first_at(const struct ppa_dwarf_set *s, uint64_t pc) PPA_CTX_SERVER;

/* Find the calls of each address, outermost first. False when memory ran out. outline (NULL: there is none) says where they are,
 * or is told. Context: server. */
bool ppa_dwarf_find_calls(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u, const struct ppa_dwarf_set *s,
			  struct ppa_dwarf_outline *outline) PPA_CTX_SERVER;

/* What an entry is called. */
struct ppa_dwarf_name {
	bool is_known;
	uint32_t decl_file, decl_line; /* 0 if unknown, or of another unit */
};

/* The name of the function at entry, copied to buf. Context: server. */
struct ppa_dwarf_name ppa_dwarf_name_of(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u, uint64_t entry,
					char *buf, size_t cap) PPA_CTX_SERVER;

struct ppa_dwarf_file_name {
	struct ppa_dwarf_value name;
	uint64_t directory;
};

/* The head of a line table; in the private heap. */
struct ppa_dwarf_line_head {
	struct ppa_dwarf_shape shape;
	uint64_t program, end;
	uint8_t min_bytes, max_ops, line_range, opcode_base;
	int8_t line_base;
	uint8_t operands[256];
	struct ppa_dwarf_value *directories;
	struct ppa_dwarf_file_name *files;
	size_t ndirectories, directories_cap, nfiles, files_cap;
};

/* Read it; to be freed in any case. False: there is none, or it makes no sense. Context: server. */
bool ppa_dwarf_line_head_read(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u,
			      struct ppa_dwarf_line_head *h) PPA_CTX_SERVER;
void ppa_dwarf_line_head_free(struct ppa_dwarf_line_head *h) PPA_CTX_SERVER;

/* Run the program and find the row of each address; outline as above. Context: server. */
void ppa_dwarf_find_rows(struct ppa_dwarf_file *d, const struct ppa_dwarf_line_head *h, const struct ppa_dwarf_set *s,
			 struct ppa_dwarf_outline *outline) PPA_CTX_SERVER;

/* The path of a file of the table, absolute where the producer's directory is; its length, 0 if unknown. Context: server. */
size_t ppa_dwarf_path(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u, const struct ppa_dwarf_line_head *h,
		      uint32_t file, char *buf, size_t cap) PPA_CTX_SERVER;

#endif
