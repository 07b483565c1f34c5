/* SPDX-License-Identifier: Apache-2.0
 *
 * One file's DWARF, opened: its units, what their first entries say, and the values that lie in other sections.
 *
 * Used by dwarf.c and its parts only. One thread at a time. */
#ifndef PPA_UNWIND_NAME_DWARF_UNIT_H
#define PPA_UNWIND_NAME_DWARF_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/name/dwarf_data.h"
#include "unwind/name/dwarf_form.h"
#include "unwind/name/dwarf_index.h"

enum { PPA_DWARF_MAX_UNITS = 1 << 18, PPA_DWARF_TABLES = 8 };

/* Where a unit lies; offsets in .debug_info. */
struct ppa_dwarf_place {
	uint64_t offset, data,
		end;	  /* of its header, first entry, and one past its last; end 0: the header was not read */
	uint64_t abbrevs; /* in .debug_abbrev */
	struct ppa_dwarf_shape shape;
	uint8_t type; /* DW_UT_*; 0 before DWARF 5 */
};

/* Units, by offset. */
struct ppa_dwarf_places {
	struct ppa_dwarf_place *list;
	size_t n, cap;
};

struct ppa_dwarf_file {
	struct ppa_dwarf_section sections[PPA_DWARF_NSECTIONS];
	struct ppa_dwarf_places units; /* the index's if there is one, */
	bool is_partial;	       /* and then perhaps only those that .debug_aranges names */
	struct ppa_dwarf_places all;   /* then: all of them, once a reference leads to another, */
	bool has_all;		       /* and there was memory for it */
	/* cursors, by what they are moved for */
	struct ppa_dwarf_cursor info, reference, abbrev, text, ranges, index, line;
	struct ppa_dwarf_abbrevs tables[PPA_DWARF_TABLES]; /* the last ones used */
	unsigned next_table;
	struct ppa_dwarf_abbrevs head; /* scratch: as much of a table as a unit's first entry needs */
	struct ppa_dwarf_file *alt;    /* dwz's; not owned, NULL if there is none */
	struct ppa_dwarf_index *known; /* not owned, NULL if there is none */
	uint64_t work;		       /* bytes that may still be read, */
	uint64_t steps;		       /* and entries, ranges and the like still be looked at */
	bool has_split;		       /* a unit's functions are in a .dwo file */
};

/* What the first entry of a unit says. */
struct ppa_dwarf_span {
	struct ppa_dwarf_value low, high, ranges;
};
struct ppa_dwarf_unit {
	const struct ppa_dwarf_place *place;
	struct ppa_dwarf_span span;
	struct ppa_dwarf_value name, comp_dir;
	uint64_t base; /* of its range lists: low_pc, or 0 */
	uint64_t lines, str_offsets_base, addr_base, rnglists_base;
	uint64_t language;
	bool has_lines, is_split;
};

/* Open f's sections and list the units, unless index (which may be NULL) has them: with an index only those of .debug_aranges if there
 * is one. 0 or -errno as ppa_dwarf_sections_open; the file must outlive *d, which needs no close on error. Context: server. */
int ppa_dwarf_file_open(struct ppa_dwarf_file *d, const struct ppa_elf_file *f, uint64_t *allowance,
			struct ppa_inflated *inflated, struct ppa_dwarf_index *index) PPA_CTX_SERVER;
void ppa_dwarf_file_close(struct ppa_dwarf_file *d) PPA_CTX_SERVER;

/* List all units where only some are known. 0, -ENOMEM: not all. Context: server. */
int ppa_dwarf_file_list_all(struct ppa_dwarf_file *d) PPA_CTX_SERVER;

/* Append a place; false when there are too many, or no memory. Context: server. */
bool ppa_dwarf_places_add(struct ppa_dwarf_places *p, const struct ppa_dwarf_place *place) PPA_CTX_SERVER;

/* List the units of .debug_aranges, headers unread, and tell x their ranges. False, and none listed: there is none, or
 * none that is of use. Context: server. */
bool ppa_dwarf_aranges_read(struct ppa_dwarf_file *d, struct ppa_dwarf_index *x) PPA_CTX_SERVER;

/* Read the header of the unit at the place, unless it is known. False: it cannot be read, or is of no use. Context: server. */
bool ppa_dwarf_place_read(struct ppa_dwarf_file *d, struct ppa_dwarf_place *place) PPA_CTX_SERVER;

/* Take one step; false when all are spent, which ends whatever is going on. Context: server. */
static inline bool ppa_dwarf_step(struct ppa_dwarf_file *d)
{
	return d->steps && d->steps--;
}

/* Read the unit's first entry. False on corrupt data. Context: server. */
bool ppa_dwarf_unit_read(struct ppa_dwarf_file *d, const struct ppa_dwarf_place *place,
			 struct ppa_dwarf_unit *u) PPA_CTX_SERVER;

/* The unit around an offset of .debug_info, or NULL. Context: server. */
const struct ppa_dwarf_place *ppa_dwarf_place_of(struct ppa_dwarf_file *d, uint64_t offset) PPA_CTX_SERVER;

/* The unit's abbreviations, valid until the next call but PPA_DWARF_TABLES - 1, or NULL. Context: server. */
const struct ppa_dwarf_abbrevs *ppa_dwarf_table(struct ppa_dwarf_file *d,
						const struct ppa_dwarf_place *place) PPA_CTX_SERVER;

/* Remember an attribute if it is one of the three that say which addresses an entry has. Context: server. */
bool ppa_dwarf_span_take(struct ppa_dwarf_span *s, uint16_t name, const struct ppa_dwarf_value *v) PPA_CTX_SERVER;

/* Call fn for every range of addresses [low, high) of the entry, but for the empty ones and those from 0, which linkers leave
 * behind of code that they dropped. Context: server. */
void ppa_dwarf_each_range(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u, const struct ppa_dwarf_span *s,
			  void (*fn)(void *arg, uint64_t low, uint64_t high), void *arg) PPA_CTX_SERVER;

/* Copy the text that v stands for, cut to cap - 1 bytes; its length, 0 if there is none. here is what a text in the entry
 * itself lies in. Context: server. */
size_t ppa_dwarf_text(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u, const struct ppa_dwarf_value *v,
		      const struct ppa_dwarf_section *here, char *buf, size_t cap) PPA_CTX_SERVER;

#endif
