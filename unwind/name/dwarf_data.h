/* SPDX-License-Identifier: Apache-2.0
 *
 * The DWARF sections of one file, and cursors that read them.
 *
 * A section stays in its file: a cursor holds a window of a few KiB of it, filled with pread. So a binary with a
 * gigabyte of debug information costs no more memory than a small one, and a file that is truncated meanwhile ends the
 * reading and nothing else. Only of compressed sections is held what was inflated of them, as far as the caller allows. */
#ifndef PPA_UNWIND_NAME_DWARF_DATA_H
#define PPA_UNWIND_NAME_DWARF_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "agent/base/attr.h"
#include "unwind/name/elf_file.h"
#include "unwind/name/inflated.h"

enum ppa_dwarf_section_id {
	PPA_DWARF_INFO,
	PPA_DWARF_ABBREV,
	PPA_DWARF_LINE,
	PPA_DWARF_STR,
	PPA_DWARF_LINE_STR,
	PPA_DWARF_RANGES,
	PPA_DWARF_RNGLISTS,
	PPA_DWARF_ADDR,
	PPA_DWARF_STR_OFFSETS,
	PPA_DWARF_ARANGES,
	PPA_DWARF_NSECTIONS
};

enum {
	PPA_DWARF_WINDOW = 32 << 10,	  /* of a cursor that reads on and on, */
	PPA_DWARF_FIRST_WINDOW = 4 << 10, /* and where it begins after a jump */
	PPA_DWARF_SMALL_WINDOW = 1 << 10, /* of one that jumps */
};

struct ppa_dwarf_section {
	struct ppa_elf_source src;
	uint64_t offset, size; /* in src, but size is that of the inflated one; size 0: the file has no such section */
	struct ppa_inflated *packed; /* somebody else's; NULL: it is not compressed */
};

/* Fill the table from a file, whose source must outlive it. inflated are PPA_DWARF_NSECTIONS, zero or from an earlier call for the
 * same file, and outlive it, too. Of *allowance, the bytes that inflated sections may take, what those of them
 * can take that have no image yet is subtracted. 0, or -ENOENT without .debug_info and .debug_line, -EFBIG
 * when more would have to be inflated than is allowed, -ENOTSUP for a compression other than zlib's, -EIO. On error nothing is
 * held but in inflated. Context: server. */
int ppa_dwarf_sections_open(struct ppa_dwarf_section *sections, const struct ppa_elf_file *f, uint64_t *allowance,
			    struct ppa_inflated *inflated) PPA_CTX_SERVER;

/* Why something of the sections could not be inflated: -EIO, -ENOMEM; 0: all could. Context: server. */
int ppa_dwarf_sections_err(const struct ppa_dwarf_section *sections) PPA_CTX_SERVER;

/* A place in a section. After the first failure every read gives 0 and failed stays true. */
struct ppa_dwarf_cursor {
	const struct ppa_dwarf_section *sec;
	const uint8_t *p, *limit; /* what is at hand */
	uint64_t limit_at;	  /* the section offset of limit */
	uint64_t end;		  /* where reading ends */
	uint8_t *window;	  /* owned; NULL before the first read, and for compressed sections */
	size_t window_cap;
	const uint8_t *held; /* a part of the section: the window, or what is inflated, */
	uint64_t held_at;    /* its section offset */
	size_t held_len;
	uint64_t *work; /* bytes that may still be fetched, shared; NULL: any number */
	bool failed;
};

/* A cursor without a place. window_cap is in bytes. Context: server. */
void ppa_dwarf_cursor_init(struct ppa_dwarf_cursor *c, const struct ppa_dwarf_section *sec, size_t window_cap,
			   uint64_t *work) PPA_CTX_SERVER;
void ppa_dwarf_cursor_free(struct ppa_dwarf_cursor *c) PPA_CTX_SERVER;

/* The cursor is for another section from now on. Context: server. */
void ppa_dwarf_turn_to(struct ppa_dwarf_cursor *c, const struct ppa_dwarf_section *sec) PPA_CTX_SERVER;

/* Go to offset and read no further than end (cut to the section). Clears failed, unless offset is beyond end.
 * Context: server. */
void ppa_dwarf_seek(struct ppa_dwarf_cursor *c, uint64_t offset, uint64_t end) PPA_CTX_SERVER;

/* Have n bytes (at most 16) at p; false and failed if the section ends before. Context: server. */
bool ppa_dwarf_fetch(struct ppa_dwarf_cursor *c, size_t n) PPA_CTX_SERVER;

/* What was read makes no sense: as if the section ended here. Context: server. */
void ppa_dwarf_fail(struct ppa_dwarf_cursor *c) PPA_CTX_SERVER;

/* The offset of the next byte. Context: server. */
static inline uint64_t ppa_dwarf_tell(const struct ppa_dwarf_cursor *c)
{
	return c->limit_at - (uint64_t)(c->limit - c->p);
}

static inline uint64_t ppa_dwarf_left(const struct ppa_dwarf_cursor *c)
{
	return c->failed ? 0 : c->end - ppa_dwarf_tell(c);
}

/* What the inline ones below leave: the end of a window, and long numbers. Context: server. */
uint64_t ppa_dwarf_uint_slow(struct ppa_dwarf_cursor *c, unsigned bytes) PPA_CTX_SERVER;
uint64_t ppa_dwarf_uleb_slow(struct ppa_dwarf_cursor *c) PPA_CTX_SERVER;
int64_t ppa_dwarf_sleb_slow(struct ppa_dwarf_cursor *c) PPA_CTX_SERVER;
void ppa_dwarf_skip_slow(struct ppa_dwarf_cursor *c, uint64_t bytes) PPA_CTX_SERVER;

/* Past the NUL. Context: server. */
void ppa_dwarf_skip_string(struct ppa_dwarf_cursor *c) PPA_CTX_SERVER;

/* Copy the string there, cut to cap - 1 bytes, always ended; its length. Context: server. */
size_t ppa_dwarf_string(struct ppa_dwarf_cursor *c, char *buf, size_t cap) PPA_CTX_SERVER;

static inline uint64_t ppa_dwarf_u8(struct ppa_dwarf_cursor *c)
{
	if (ppa_unlikely(c->p == c->limit) && !ppa_dwarf_fetch(c, 1))
		return 0;
	return *c->p++;
}

/* A number of 1 to 8 bytes, little endian (ppa_elf_open refuses other files). */
static inline uint64_t ppa_dwarf_uint(struct ppa_dwarf_cursor *c, unsigned bytes)
{
	uint64_t v;

	if (ppa_unlikely((size_t)(c->limit - c->p) < sizeof(v)))
		return ppa_dwarf_uint_slow(c, bytes);
	memcpy(&v, c->p, sizeof(v));
	c->p += bytes;
	return v & UINT64_MAX >> (64 - 8 * bytes);
}

static inline int64_t ppa_dwarf_sleb(struct ppa_dwarf_cursor *c)
{
	if (ppa_likely(c->p != c->limit && *c->p < 0x80))
		return (int64_t)(*c->p++ ^ 0x40) - 0x40;
	return ppa_dwarf_sleb_slow(c);
}

static inline void ppa_dwarf_skip(struct ppa_dwarf_cursor *c, uint64_t bytes)
{
	if (ppa_likely(bytes <= (uint64_t)(c->limit - c->p)))
		c->p += bytes;
	else
		ppa_dwarf_skip_slow(c, bytes);
}

static inline uint64_t ppa_dwarf_uleb(struct ppa_dwarf_cursor *c)
{
	if (ppa_likely(c->p != c->limit && *c->p < 0x80))
		return *c->p++;
	return ppa_dwarf_uleb_slow(c);
}

#endif
