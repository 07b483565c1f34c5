/* SPDX-License-Identifier: Apache-2.0
 *
 * Abbreviations (what attributes the entries of a unit have) and forms (how an attribute's value is written). */
#ifndef PPA_UNWIND_NAME_DWARF_FORM_H
#define PPA_UNWIND_NAME_DWARF_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/name/dwarf_data.h"

enum { PPA_DWARF_MAX_ABBREVS = 1 << 16, PPA_DWARF_MAX_ATTRS = 1 << 18 /* of one table; real ones have hundreds */ };

/* How the values of a unit are written. */
struct ppa_dwarf_shape {
	uint8_t version;
	uint8_t offset_size;  /* 4, or 8 in 64-bit DWARF */
	uint8_t address_size; /* 8, or 4 */
};

struct ppa_dwarf_attr {
	uint16_t name, form;
	/* From here on so many attributes can be stepped over at once, and so many bytes: the walk of a tree asks for none of them,
	 * and their lengths are known. */
	uint16_t nskipped;
	uint32_t skipped_bytes;
	int64_t implicit; /* DW_FORM_implicit_const */
};

struct ppa_dwarf_abbrev {
	uint64_t code;
	uint32_t first, nattrs; /* in the table's attrs */
	uint16_t tag;
	bool has_children;
};

/* One table, in the private heap. */
struct ppa_dwarf_abbrevs {
	/* what it is known by: where in .debug_abbrev it lies, and whose it is, for the lengths depend on it */
	uint64_t offset;
	struct ppa_dwarf_shape shape;
	struct ppa_dwarf_abbrev *list;
	struct ppa_dwarf_attr *attrs;
	size_t n, cap, nattrs, attrs_cap;
};

/* Read the table at offset for walks of units of this shape (NULL: for none); with only not 0, no more than the entry of that
 * code. *a is zero or another table, whose memory is used again. False on corrupt data or no memory; *a is to be freed in
 * any case. Context: server. */
bool ppa_dwarf_abbrevs_read(struct ppa_dwarf_abbrevs *a, struct ppa_dwarf_cursor *c, uint64_t offset,
			    const struct ppa_dwarf_shape *shape, uint64_t only) PPA_CTX_SERVER;
void ppa_dwarf_abbrevs_free(struct ppa_dwarf_abbrevs *a) PPA_CTX_SERVER;

/* NULL if there is none of that code. Context: server. */
const struct ppa_dwarf_abbrev *ppa_dwarf_abbrev_find(const struct ppa_dwarf_abbrevs *a, uint64_t code) PPA_CTX_SERVER;

enum ppa_dwarf_kind {
	PPA_DWARF_NOTHING,   /* a block, or something nobody asks for */
	PPA_DWARF_NUMBER,    /* also an offset into another section */
	PPA_DWARF_ADDRESS,   /* */
	PPA_DWARF_ADDRESS_X, /* index into .debug_addr */
	PPA_DWARF_RANGES_X,  /* index into .debug_rnglists */
	PPA_DWARF_REF_UNIT,  /* offset from the unit's first byte */
	PPA_DWARF_REF_INFO,  /* offset in .debug_info */
	PPA_DWARF_REF_ALT,   /* the same in the alternate file */
	PPA_DWARF_TEXT_HERE, /* offset in the section that is being read */
	PPA_DWARF_TEXT,	     /* offset in .debug_str */
	PPA_DWARF_TEXT_LINE, /* in .debug_line_str */
	PPA_DWARF_TEXT_X,    /* index into .debug_str_offsets */
	PPA_DWARF_TEXT_ALT,  /* offset in .debug_str of the alternate file */
};

struct ppa_dwarf_value {
	enum ppa_dwarf_kind kind;
	uint64_t u;
};

/* Read the value at the cursor. An unknown form fails the cursor, as its length is unknown. Context: server. */
void ppa_dwarf_value_read(struct ppa_dwarf_cursor *c, const struct ppa_dwarf_shape *shape, uint16_t form,
			  int64_t implicit, struct ppa_dwarf_value *v) PPA_CTX_SERVER;

#endif
