/* SPDX-License-Identifier: Apache-2.0
 *
 * Sections and cursors. Every offset comes from the file and is compared with the section's size before it is used.
 *
 * The amount of reading is bounded, too: crafted offsets can make a small file ask for the same bytes for ever. Each
 * window that is filled is paid from the file's allowance (work), and when that is spent every cursor fails. */
#include "unwind/name/dwarf_data.h"

#include <errno.h>
#include <string.h>

#include "agent/base/vheap.h"

enum { FETCH_MAX = 16, OLD_HEADER_BYTES = 12 };

static const char *const names[PPA_DWARF_NSECTIONS] = {
	[PPA_DWARF_INFO] = ".debug_info",
	[PPA_DWARF_ABBREV] = ".debug_abbrev",
	[PPA_DWARF_LINE] = ".debug_line",
	[PPA_DWARF_STR] = ".debug_str",
	[PPA_DWARF_LINE_STR] = ".debug_line_str",
	[PPA_DWARF_RANGES] = ".debug_ranges",
	[PPA_DWARF_RNGLISTS] = ".debug_rnglists",
	[PPA_DWARF_ADDR] = ".debug_addr",
	[PPA_DWARF_STR_OFFSETS] = ".debug_str_offsets",
	[PPA_DWARF_ARANGES] = ".debug_aranges",
};

static int open_packed(struct ppa_dwarf_section *s, uint64_t offset, uint64_t size, uint64_t *allowance,
		       struct ppa_inflated *inflated)
{
	int err = ppa_inflated_open(inflated, &s->src, offset, s->offset + s->size, size);
	uint64_t bytes;

	if (err)
		return err;
	/* An eighth is for places to enter it; size is at most some thousand times what the file has. */
	bytes = inflated->image ? 0 : size + size / 8;
	if (bytes > *allowance)
		return -EFBIG;
	s->packed = inflated;
	s->size = size;
	*allowance -= bytes;
	return 0;
}

static int open_compressed(struct ppa_dwarf_section *s, uint64_t *allowance, struct ppa_inflated *inflated)
{
	Elf64_Chdr header;

	if (s->size < sizeof(header) || ppa_elf_read(&s->src, &header, sizeof(header), s->offset))
		return -EIO;
	if (header.ch_type != ELFCOMPRESS_ZLIB)
		return -ENOTSUP;
	return open_packed(s, s->offset + sizeof(header), header.ch_size, allowance, inflated);
}

/* The way before SHF_COMPRESSED: "ZLIB", eight bytes of size, largest first. */
static int open_old_compressed(struct ppa_dwarf_section *s, uint64_t *allowance, struct ppa_inflated *inflated)
{
	uint8_t header[OLD_HEADER_BYTES];
	uint64_t size = 0;

	if (s->size < sizeof(header) || ppa_elf_read(&s->src, header, sizeof(header), s->offset) ||
	    memcmp(header, "ZLIB", 4) != 0)
		return -EIO;
	for (size_t i = 4; i < sizeof(header); i++)
		size = size << 8 | header[i];
	return open_packed(s, s->offset + sizeof(header), size, allowance, inflated);
}

static int open_section(struct ppa_dwarf_section *s, const struct ppa_elf_file *f, const char *name,
			uint64_t *allowance, struct ppa_inflated *inflated)
{
	const Elf64_Shdr *sh = ppa_elf_section_named(f, name);
	char old[24] = ".z";
	bool is_old = false;

	if (!sh) {
		/* ".zdebug_info" */
		memcpy(old + 2, name + 1, strlen(name + 1) + 1);
		sh = ppa_elf_section_named(f, old);
		is_old = sh != NULL;
	}
	if (!sh || sh->sh_type == SHT_NOBITS)
		return 0;
	if (sh->sh_offset > f->src.size || sh->sh_size > f->src.size - sh->sh_offset)
		return -EIO;
	s->src = f->src;
	s->offset = sh->sh_offset;
	s->size = sh->sh_size;
	if (is_old)
		return open_old_compressed(s, allowance, inflated);
	return sh->sh_flags & SHF_COMPRESSED ? open_compressed(s, allowance, inflated) : 0;
}

int ppa_dwarf_sections_open(struct ppa_dwarf_section *sections, const struct ppa_elf_file *f, uint64_t *allowance,
			    struct ppa_inflated *inflated)
{
	int err = 0;

	memset(sections, 0, PPA_DWARF_NSECTIONS * sizeof(*sections));
	for (size_t i = 0; i < PPA_DWARF_NSECTIONS && !err; i++)
		err = open_section(&sections[i], f, names[i], allowance, &inflated[i]);
	return err || sections[PPA_DWARF_INFO].size ? err : -ENOENT;
}

int ppa_dwarf_sections_err(const struct ppa_dwarf_section *sections)
{
	int err = 0;

	for (size_t i = 0; i < PPA_DWARF_NSECTIONS && !err; i++)
		err = sections[i].packed ? sections[i].packed->err : 0;
	return err;
}

void ppa_dwarf_cursor_init(struct ppa_dwarf_cursor *c, const struct ppa_dwarf_section *sec, size_t window_cap,
			   uint64_t *work)
{
	*c = (struct ppa_dwarf_cursor){.sec = sec, .window_cap = window_cap, .work = work, .failed = true};
}

void ppa_dwarf_cursor_free(struct ppa_dwarf_cursor *c)
{
	ppa_vheap_free(c->window);
	c->window = NULL;
	c->p = c->limit = c->held = NULL;
	c->held_len = 0;
	c->failed = true;
}

void ppa_dwarf_turn_to(struct ppa_dwarf_cursor *c, const struct ppa_dwarf_section *sec)
{
	if (c->sec == sec)
		return;
	c->sec = sec;
	c->held_len = 0;
	c->p = c->limit;
}

void ppa_dwarf_fail(struct ppa_dwarf_cursor *c)
{
	c->failed = true;
	c->p = c->limit;
}

static bool fail(struct ppa_dwarf_cursor *c)
{
	ppa_dwarf_fail(c);
	return false;
}

/* What is held from offset on, and not beyond end. */
static void show(struct ppa_dwarf_cursor *c, uint64_t offset)
{
	uint64_t shown = c->held_at + c->held_len;

	if (shown > c->end)
		shown = c->end;
	c->p = c->held + (offset - c->held_at);
	c->limit = c->held + (shown - c->held_at);
	c->limit_at = shown;
}

/* Nothing is at hand, and the next byte is that at offset. */
static void show_nothing(struct ppa_dwarf_cursor *c, uint64_t offset)
{
	c->p = c->limit = c->held;
	c->limit_at = offset;
}

void ppa_dwarf_seek(struct ppa_dwarf_cursor *c, uint64_t offset, uint64_t end)
{
	c->end = end < c->sec->size ? end : c->sec->size;
	c->failed = false;
	if (offset > c->end) {
		c->limit_at = offset;
		fail(c);
	} else if (offset - c->held_at < c->held_len) {
		show(c, offset);
	} else {
		show_nothing(c, offset);
	}
}

static bool hold_inflated(struct ppa_dwarf_cursor *c, uint64_t at)
{
	uint64_t from, to;
	const uint8_t *image = ppa_inflated_have(c->sec->packed, &c->sec->src, at, &from, &to);

	if (!image)
		return false;
	c->held = image + from;
	c->held_at = from;
	c->held_len = (size_t)(to - from);
	return true;
}

static bool hold_window(struct ppa_dwarf_cursor *c, uint64_t at)
{
	size_t len;

	if (!c->window)
		c->window = ppa_vheap_malloc(c->window_cap);
	/* Whole windows, although end may be nearer: the next thing read is often the one behind. Who jumps may not stay. */
	len = at - c->held_at <= c->held_len || c->window_cap < PPA_DWARF_FIRST_WINDOW ? c->window_cap
										       : PPA_DWARF_FIRST_WINDOW;
	len = c->sec->size - at < len ? (size_t)(c->sec->size - at) : len;
	c->held_len = 0;
	if (!c->window || (c->work && *c->work < len) ||
	    ppa_elf_read(&c->sec->src, c->window, len, c->sec->offset + at))
		return false;
	if (c->work)
		*c->work -= len;
	c->held = c->window;
	c->held_at = at;
	c->held_len = len;
	return true;
}

bool ppa_dwarf_fetch(struct ppa_dwarf_cursor *c, size_t n)
{
	uint64_t at = ppa_dwarf_tell(c);

	if ((size_t)(c->limit - c->p) >= n)
		return true;
	if (c->failed || n > c->end - at)
		return fail(c);
	show_nothing(c, at);
	if (c->sec->packed
		    ? !hold_inflated(c, at) || (c->held_at + c->held_len - at < n && !hold_inflated(c, at + n - 1))
		    : !hold_window(c, at))
		return fail(c);
	show(c, at);
	return true;
}

uint64_t ppa_dwarf_uint_slow(struct ppa_dwarf_cursor *c, unsigned bytes)
{
	uint64_t v = 0;

	if ((size_t)(c->limit - c->p) < bytes && !ppa_dwarf_fetch(c, bytes))
		return 0;
	memcpy(&v, c->p, bytes);
	c->p += bytes;
	return v;
}

uint64_t ppa_dwarf_uleb_slow(struct ppa_dwarf_cursor *c)
{
	uint64_t v = 0, byte;
	unsigned shift = 0;

	do {
		byte = ppa_dwarf_u8(c);
		if (shift < 64)
			v |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80 && shift <= 7 * FETCH_MAX);
	if (byte & 0x80)
		fail(c);
	return v;
}

int64_t ppa_dwarf_sleb_slow(struct ppa_dwarf_cursor *c)
{
	uint64_t v = 0, byte;
	unsigned shift = 0;

	do {
		byte = ppa_dwarf_u8(c);
		if (shift < 64)
			v |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80 && shift <= 7 * FETCH_MAX);
	if (byte & 0x80)
		fail(c);
	if (byte & 0x40 && shift < 64)
		v |= ~UINT64_C(0) << shift;
	return (int64_t)v;
}

void ppa_dwarf_skip_slow(struct ppa_dwarf_cursor *c, uint64_t bytes)
{
	if (bytes > ppa_dwarf_left(c))
		fail(c);
	else
		ppa_dwarf_seek(c, ppa_dwarf_tell(c) + bytes, c->end);
}

size_t ppa_dwarf_string(struct ppa_dwarf_cursor *c, char *buf, size_t cap)
{
	size_t len = 0;
	char ch;

	while ((ch = (char)ppa_dwarf_u8(c)) != '\0')
		if (len + 1 < cap)
			buf[len++] = ch;
	if (cap)
		buf[len] = '\0';
	return len;
}

void ppa_dwarf_skip_string(struct ppa_dwarf_cursor *c)
{
	const uint8_t *nul;

	for (;;) {
		if (c->p == c->limit && !ppa_dwarf_fetch(c, 1))
			return;
		nul = memchr(c->p, 0, (size_t)(c->limit - c->p));
		if (nul) {
			c->p = nul + 1;
			return;
		}
		c->p = c->limit;
	}
}
