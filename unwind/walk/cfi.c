/* SPDX-License-Identifier: Apache-2.0
 *
 * From a pc to a row: index, frame description (FDE), its common part (CIE), then the program that builds the row.
 * The program's interpreter is in cfi_program.c.
 *
 * A module linked without an index is scanned from its first record, up to MAX_SCANNED of them; the walker's cache
 * makes that rare. 64-bit records do not occur in .eh_frame and are left to the second opinion. */
#include "unwind/walk/cfi.h"

#include <errno.h>

#include "unwind/walk/cfi_program.h"
#include "unwind/walk/unindexed.h"

enum {
	HDR_VERSION = 1,
	PE_OMIT = 0xff,
	PE_TABLE = 0x3b, /* datarel | sdata4: what every linker writes */
	PE_FORMAT = 0x0f,
	PE_INDIRECT = 0x80,
	INDEX_ENTRY = 8, /* two 32-bit distances from the index: code, description */
	MAX_SCANNED = 8192,
	MAX_LETTERS = 8,
	NEAR_ENTRIES = PPA_VIEW_COPY / INDEX_ENTRY,
};

/* The bytes of a record after its length; false at the end of the section and for what we do not read. */
PPA_CTX_SIGNAL static bool record_extent(struct ppa_view *v, uintptr_t *pos, uintptr_t *end)
{
	uint64_t len = ppa_view_uint(v, pos, 4);

	if (v->bad || !len || len >= 0xfffffff0 || len > v->limit_hi - *pos)
		return false;
	*end = *pos + len;
	return true;
}

/* Augmentation letters after 'z', with the data they announce. */
PPA_CTX_SIGNAL static int augmentation(struct ppa_view *v, struct ppa_cfi_common *c, uintptr_t letters, uintptr_t pos,
				       uintptr_t end)
{
	for (int i = 0; i < MAX_LETTERS; i++) {
		uint8_t letter = ppa_view_u8(v, &letters);

		switch (letter) {
		case 0:
			return v->bad ? -EINVAL : 0;
		case 'R':
			c->pointer_encoding = ppa_view_u8(v, &pos);
			break;
		case 'L':
			pos++;
			break;
		case 'P': {
			uint8_t encoding = ppa_view_u8(v, &pos);

			ppa_view_encoded(v, &pos, encoding & PE_FORMAT, 0); /* only to get past it */
			break;
		}
		case 'S':
			c->signal_frame = true;
			break;
		default: /* its data have a length nobody knows, but 'z' lets us skip all of it */
			return v->bad || letter == 'B' || letter == 'G' ? -EINVAL : 0;
		}
		if (pos > end)
			return -EINVAL;
	}
	return -EINVAL;
}

PPA_CTX_SIGNAL static int parse_cie(struct ppa_view *v, uintptr_t pos, struct ppa_cfi_common *c)
{
	uintptr_t end, letters;
	uint8_t version, letter;
	int n = 0;

	*c = (struct ppa_cfi_common){0};
	if (!record_extent(v, &pos, &end) || ppa_view_uint(v, &pos, 4) != 0)
		return -EINVAL;
	version = ppa_view_u8(v, &pos);
	letters = pos;
	while (ppa_view_u8(v, &pos) != 0)
		if (v->bad || ++n > MAX_LETTERS)
			return -EINVAL;
	if (version == 4)
		pos += 2; /* sizes of an address and of a segment selector */
	else if (version != 1 && version != 3)
		return -EINVAL;
	c->code_align = ppa_view_uleb(v, &pos);
	c->data_align = ppa_view_sleb(v, &pos);
	c->return_reg = version == 1 ? ppa_view_u8(v, &pos) : ppa_view_uleb(v, &pos);
	letter = n ? ppa_view_u8(v, &letters) : 0;
	if (letter == 'z') {
		uint64_t len = ppa_view_uleb(v, &pos);

		if (v->bad || pos > end || len > end - pos || augmentation(v, c, letters, pos, pos + len))
			return -EINVAL;
		c->sized = true;
		pos += len;
	} else if (letter) {
		return -EINVAL; /* "eh" of gcc 2 */
	}
	c->instructions = pos;
	c->end = end;
	return v->bad || pos > end || c->return_reg != PPA_REG_PC ? -EINVAL : 0;
}

/* Does the description at fde cover pc? Then build its row. -ENOENT if not. */
PPA_CTX_SIGNAL static int try_fde(struct ppa_cfi *c, uintptr_t fde, uintptr_t hdr, uintptr_t pc)
{
	struct ppa_view *v = &c->view;
	struct ppa_cfi_common *cie = &c->common;
	struct ppa_cfi_program *p = &c->program;
	uintptr_t pos = fde, end, cie_field, cie_distance, size;

	if (!record_extent(v, &pos, &end))
		return -EINVAL;
	cie_field = pos;
	cie_distance = ppa_view_uint(v, &pos, 4);
	if (v->bad || !cie_distance || parse_cie(v, cie_field - cie_distance, cie))
		return -EINVAL;
	c->start = ppa_view_encoded(v, &pos, cie->pointer_encoding, hdr);
	size = cie->pointer_encoding == PPA_PE_PCREL_SDATA4
		       ? ppa_view_uint(v, &pos, 4)
		       : ppa_view_encoded(v, &pos, cie->pointer_encoding & PE_FORMAT, 0);
	if (v->bad)
		return -EINVAL;
	c->end = c->start + size;
	if (pc - c->start >= size)
		return -ENOENT;
	if (cie->sized) {
		uint64_t len = ppa_view_uleb(v, &pos);

		if (v->bad || pos > end || len > end - pos)
			return -EINVAL;
		pos += len;
	}
	c->signal_frame = cie->signal_frame;
	*p = (struct ppa_cfi_program){.cfi = c, .pc = pc};
	p->code_align = cie->code_align;
	p->data_align = cie->data_align;
	p->pointer_encoding = cie->pointer_encoding;
	p->data_base = hdr;
	return ppa_cfi_run(p, cie->instructions, cie->end, pos, end);
}

/* How many of the n entries are at or before want, all of them at hand. No branch but the loop's. */
PPA_CTX_SIGNAL static uint64_t search_at_hand(const uint8_t *entries, uint64_t n, int64_t want)
{
	const uint8_t *base = entries;
	int32_t start;

	if (!n)
		return 0;
	while (n > 1) {
		uint64_t half = n / 2;

		memcpy(&start, base + half * INDEX_ENTRY, sizeof(start));
		base = start <= want ? base + half * INDEX_ENTRY : base;
		n -= half;
	}
	memcpy(&start, base, sizeof(start));
	return (uint64_t)(base - entries) / INDEX_ENTRY + (start <= want);
}

/* The description of the last entry of the index at or before pc; 0 if pc is before the first. */
PPA_CTX_SIGNAL static uintptr_t search_index(struct ppa_view *v, uintptr_t table, uint64_t count, uintptr_t hdr,
					     uintptr_t pc)
{
	int64_t want = (int64_t)(pc - hdr);
	uint64_t lo = 0, n = count;
	uintptr_t pos;

	/* By copies until the rest fits into one. Invariant: entries before lo are at or before pc, from lo + n on after
	 * it. */
	while (n > NEAR_ENTRIES && !ppa_view_at_hand(v, table + lo * INDEX_ENTRY, n * INDEX_ENTRY)) {
		uint64_t half = n / 2;

		pos = table + (lo + half) * INDEX_ENTRY;
		if (ppa_view_sint(v, &pos, 4) <= want) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
		if (v->bad)
			return 0;
	}
	pos = table + lo * INDEX_ENTRY;
	if (n && !ppa_view_has(v, pos, n * INDEX_ENTRY))
		return 0;
	if (n)
		lo += search_at_hand(v->bytes + (pos - v->lo), n, want);
	if (!lo)
		return 0;
	pos = table + (lo - 1) * INDEX_ENTRY + 4;
	return hdr + (uintptr_t)ppa_view_sint(v, &pos, 4);
}

/* No index: one record after the other. */
PPA_CTX_SIGNAL static int scan_records(struct ppa_cfi *c, uintptr_t pos, uintptr_t hdr, uintptr_t pc)
{
	for (int i = 0; i < MAX_SCANNED; i++) {
		uintptr_t record = pos, end;
		int err;

		if (!record_extent(&c->view, &pos, &end))
			return c->view.bad ? -EINVAL : -ENOENT;
		if (ppa_view_uint(&c->view, &pos, 4) != 0) {
			err = try_fde(c, record, hdr, pc);
			if (err != -ENOENT)
				return err;
		}
		pos = end;
	}
	return -ENOENT;
}

int ppa_cfi_read_record(struct ppa_cfi *c, uintptr_t lo, uintptr_t hi, uintptr_t *pos)
{
	uintptr_t record = *pos, at = record, end;
	int err;

	ppa_view_init(&c->view, lo, hi, NULL, NULL);
	if (!record_extent(&c->view, &at, &end))
		return c->view.bad ? -EINVAL : -ENOENT;
	*pos = end;
	if (ppa_view_uint(&c->view, &at, 4) == 0)
		return 0;
	/* No function contains address 0. */
	err = try_fde(c, record, 0, 0);
	return err == -ENOENT ? 1 : err < 0 ? err : -EINVAL;
}

/* A module without an index, of which we may have made one. */
PPA_CTX_SIGNAL static int find_unindexed(struct ppa_cfi *c, uintptr_t pc)
{
	const struct ppa_unindexed *module;
	uintptr_t fde = ppa_unindexed_find(pc, &module);

	if (!fde)
		return -ENOENT;
	ppa_view_init(&c->view, module->lo, module->hi, NULL, c->copy);
	return try_fde(c, fde, 0, pc);
}

int ppa_cfi_find(struct ppa_cfi *c, const struct ppa_code *code, struct ppa_memory *m, uintptr_t pc)
{
	struct ppa_view *v = &c->view;
	uintptr_t hdr = code->eh_frame_hdr, pos = hdr, eh_frame, fde;
	uint8_t version, frame_encoding, count_encoding, table_encoding;
	uint64_t count;

	c->signal_frame = false;
	if (!hdr && code->stays)
		return find_unindexed(c, pc);
	if (!hdr || hdr < code->cfi_lo || hdr >= code->cfi_hi)
		return -ENOENT;
	ppa_view_init(v, code->cfi_lo, code->cfi_hi, code->stays ? NULL : m, c->copy);
	version = ppa_view_u8(v, &pos);
	frame_encoding = ppa_view_u8(v, &pos);
	count_encoding = ppa_view_u8(v, &pos);
	table_encoding = ppa_view_u8(v, &pos);
	if (v->bad || version != HDR_VERSION || frame_encoding == PE_OMIT)
		return -EINVAL;
	eh_frame = ppa_view_encoded(v, &pos, frame_encoding, hdr);
	if (v->bad)
		return -EINVAL;
	if (count_encoding == PE_OMIT || table_encoding != PE_TABLE)
		return scan_records(c, eh_frame, hdr, pc);
	count = ppa_view_encoded(v, &pos, count_encoding, hdr);
	if (v->bad || count > (v->limit_hi - pos) / INDEX_ENTRY)
		return -EINVAL;
	fde = search_index(v, pos, count, hdr, pc);
	if (v->bad)
		return -EINVAL;
	return fde ? try_fde(c, fde, hdr, pc) : -ENOENT;
}
