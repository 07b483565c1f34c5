/* SPDX-License-Identifier: Apache-2.0
 *
 * Line tables. The program is run once for all addresses of a unit, and no row is kept: an address belongs to the last row
 * before the first one beyond it. Sequences from address 0 are of code that the linker dropped. The first run notes, every KiB
 * or so, how the machine stands and what addresses it has passed since; later ones run only what is between two notes.
 *
 * Names of files are values into other sections until somebody asks for one, as a unit knows thousands of files and a profile
 * a few. */
#include <string.h>

#include "agent/base/vheap.h"
#include "unwind/name/dwarf_const.h"
#include "unwind/name/dwarf_parts.h"

enum { MAX_FILES = 1 << 17, MAX_FORMATS = 32, STRETCH_BYTES = 1 << 10, FRESH_STRETCH_BYTES = 1 << 8 };

static bool room(void **list, size_t n, size_t *cap, size_t bytes)
{
	size_t more = *cap ? 2 * *cap : 32;
	void *p;

	if (n < *cap)
		return true;
	p = more > MAX_FILES ? NULL : ppa_vheap_realloc(*list, more * bytes);
	if (!p)
		return false;
	*list = p;
	*cap = more;
	return true;
}

static bool add_directory(struct ppa_dwarf_line_head *h, const struct ppa_dwarf_value *name)
{
	if (!room((void **)&h->directories, h->ndirectories, &h->directories_cap, sizeof(*h->directories)))
		return false;
	h->directories[h->ndirectories++] = *name;
	return true;
}

static bool add_file(struct ppa_dwarf_line_head *h, const struct ppa_dwarf_value *name, uint64_t directory)
{
	if (!room((void **)&h->files, h->nfiles, &h->files_cap, sizeof(*h->files)))
		return false;
	h->files[h->nfiles++] = (struct ppa_dwarf_file_name){*name, directory};
	return true;
}

/* DWARF 2 to 4: texts in a row, ended by an empty one. Entry 0 of both tables goes without saying. */
static bool read_old_tables(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u, struct ppa_dwarf_line_head *h)
{
	struct ppa_dwarf_cursor *c = &d->line;
	struct ppa_dwarf_value v = {PPA_DWARF_NOTHING, 0};

	if (!add_directory(h, &u->comp_dir) || !add_file(h, &v, 0))
		return false;
	for (int is_file = 0; is_file < 2; is_file++) {
		for (;;) {
			uint64_t directory = 0;

			ppa_dwarf_value_read(c, &h->shape, DW_FORM_string, 0, &v);
			if (c->failed)
				return false;
			if (ppa_dwarf_tell(c) == v.u + 1)
				break;
			if (is_file) {
				directory = ppa_dwarf_uleb(c);
				ppa_dwarf_uleb(c); /* time */
				ppa_dwarf_uleb(c); /* length */
			}
			if (!(is_file ? add_file(h, &v, directory) : add_directory(h, &v)))
				return false;
		}
	}
	return true;
}

/* One of DWARF 5's two tables, which say themselves what they consist of. */
static bool read_new_table(struct ppa_dwarf_file *d, struct ppa_dwarf_line_head *h, bool is_file)
{
	struct {
		uint64_t content, form;
	} format[MAX_FORMATS];
	struct ppa_dwarf_cursor *c = &d->line;
	uint64_t nformats = ppa_dwarf_u8(c), n;

	if (nformats > MAX_FORMATS)
		return false;
	for (uint64_t i = 0; i < nformats; i++) {
		format[i].content = ppa_dwarf_uleb(c);
		format[i].form = ppa_dwarf_uleb(c);
		if (format[i].form > UINT16_MAX)
			return false;
	}
	n = ppa_dwarf_uleb(c);
	if (n > MAX_FILES)
		return false;
	for (; n && !c->failed; n--) {
		struct ppa_dwarf_value name = {PPA_DWARF_NOTHING, 0}, v;
		uint64_t directory = 0;

		for (uint64_t i = 0; i < nformats; i++) {
			ppa_dwarf_value_read(c, &h->shape, (uint16_t)format[i].form, 0, &v);
			if (format[i].content == DW_LNCT_path)
				name = v;
			else if (format[i].content == DW_LNCT_directory_index)
				directory = v.u;
		}
		if (!(is_file ? add_file(h, &name, directory) : add_directory(h, &name)))
			return false;
	}
	return !c->failed;
}

bool ppa_dwarf_line_head_read(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u, struct ppa_dwarf_line_head *h)
{
	struct ppa_dwarf_cursor *c = &d->line;
	uint64_t len;

	memset(h, 0, sizeof(*h));
	if (!u->has_lines)
		return false;
	ppa_dwarf_seek(c, u->lines, UINT64_MAX);
	h->shape = (struct ppa_dwarf_shape){0, 4, u->place->shape.address_size};
	len = ppa_dwarf_uint(c, 4);
	if (len == 0xffffffffU) {
		h->shape.offset_size = 8;
		len = ppa_dwarf_uint(c, 8);
	}
	if (c->failed || len > ppa_dwarf_left(c))
		return false;
	h->end = ppa_dwarf_tell(c) + len;
	h->shape.version = (uint8_t)ppa_dwarf_uint(c, 2);
	if (h->shape.version < 2 || h->shape.version > 5)
		return false;
	if (h->shape.version >= 5) {
		h->shape.address_size = (uint8_t)ppa_dwarf_u8(c);
		if (ppa_dwarf_u8(c) || (h->shape.address_size != 8 && h->shape.address_size != 4))
			return false;
	}
	len = ppa_dwarf_uint(c, h->shape.offset_size);
	if (len > ppa_dwarf_left(c))
		return false;
	h->program = ppa_dwarf_tell(c) + len;
	h->min_bytes = (uint8_t)ppa_dwarf_u8(c);
	h->max_ops = h->shape.version >= 4 ? (uint8_t)ppa_dwarf_u8(c) : 1;
	ppa_dwarf_u8(c); /* default_is_stmt */
	h->line_base = (int8_t)ppa_dwarf_u8(c);
	h->line_range = (uint8_t)ppa_dwarf_u8(c);
	h->opcode_base = (uint8_t)ppa_dwarf_u8(c);
	for (unsigned i = 1; i < h->opcode_base; i++)
		h->operands[i] = (uint8_t)ppa_dwarf_u8(c);
	if (c->failed || !h->line_range || !h->opcode_base || h->program > h->end)
		return false;
	return h->shape.version >= 5 ? read_new_table(d, h, false) && read_new_table(d, h, true)
				     : read_old_tables(d, u, h);
}

void ppa_dwarf_line_head_free(struct ppa_dwarf_line_head *h)
{
	ppa_vheap_free(h->directories);
	ppa_vheap_free(h->files);
	h->directories = NULL;
	h->files = NULL;
}

/* The machine that runs a line program, and the row before the present one. */
struct machine {
	struct ppa_dwarf_file *d;
	const struct ppa_dwarf_line_head *h;
	const struct ppa_dwarf_set *s;
	uint64_t address, op_index;
	uint64_t file, line;
	struct {
		uint64_t address;
		uint32_t file, line;
		bool is_valid;
	} last;
	size_t next;			  /* the first of the set that last may be the row of, */
	uint64_t next_pc;		  /* and which that is */
	bool is_dead;			  /* a sequence of code that is not there */
	struct ppa_dwarf_outline *told;	  /* of each stretch; NULL: nobody */
	struct ppa_dwarf_stretch stretch; /* the present one */
	/* what a special opcode adds to operations and line */
	uint8_t operations[256];
	int16_t lines[256];
};

static void move_to(struct machine *m, size_t next)
{
	m->next = next;
	m->next_pc = next < m->s->n ? m->s->list[next]->pc : UINT64_MAX;
}

static void begin_sequence(struct machine *m)
{
	m->address = m->op_index = 0;
	m->file = m->line = 1;
	m->last.is_valid = false;
	m->is_dead = true;
}

/* A row begins at m->address: the one before ends there. */
static void add_row(struct machine *m)
{
	if (m->last.is_valid && m->address < m->last.address)
		m->last.is_valid = false;
	if (m->last.is_valid && !m->is_dead) {
		if (m->last.address < m->stretch.low)
			m->stretch.low = m->last.address;
		if (m->address > m->stretch.high)
			m->stretch.high = m->address;
	}
	if (!m->last.is_valid)
		move_to(m, ppa_dwarf_first_at(m->s, m->address));
	for (; m->next_pc < m->address; move_to(m, m->next + 1)) {
		struct ppa_dwarf_want *w = m->s->list[m->next];

		if (w->has_row || m->is_dead)
			continue;
		w->has_row = true;
		w->row_file = m->last.file;
		w->row_line = m->last.line;
	}
	m->last.address = m->address;
	m->last.file = m->file > UINT32_MAX ? 0 : (uint32_t)m->file;
	m->last.line = m->line > INT32_MAX ? 0 : (uint32_t)m->line;
	m->last.is_valid = true;
}

static void advance(struct machine *m, uint64_t operations)
{
	const struct ppa_dwarf_line_head *h = m->h;

	if (h->max_ops <= 1) {
		m->address += h->min_bytes * operations;
		return;
	}
	m->address += h->min_bytes * ((m->op_index + operations) / h->max_ops);
	m->op_index = (m->op_index + operations) % h->max_ops;
}

static void extended(struct machine *m)
{
	struct ppa_dwarf_cursor *c = &m->d->line;
	uint64_t len = ppa_dwarf_uleb(c), end = ppa_dwarf_tell(c) + len;

	if (!len || len > ppa_dwarf_left(c)) {
		ppa_dwarf_fail(c);
		return;
	}
	switch (ppa_dwarf_u8(c)) {
	case DW_LNE_end_sequence:
		add_row(m);
		begin_sequence(m);
		break;
	case DW_LNE_set_address:
		m->address = ppa_dwarf_uint(c, len == 9 ? 8 : 4);
		m->op_index = 0;
		if (m->address)
			m->is_dead = false;
		break;
	default: /* a discriminator, or what somebody invented */
		break;
	}
	if (!c->failed)
		ppa_dwarf_seek(c, end, m->h->end);
}

static void standard(struct machine *m, uint8_t op)
{
	struct ppa_dwarf_cursor *c = &m->d->line;

	switch (op) {
	case DW_LNS_extended:
		extended(m);
		break;
	case DW_LNS_copy:
		add_row(m);
		break;
	case DW_LNS_advance_pc:
		advance(m, ppa_dwarf_uleb(c));
		break;
	case DW_LNS_advance_line:
		m->line += (uint64_t)ppa_dwarf_sleb(c);
		break;
	case DW_LNS_set_file:
		m->file = ppa_dwarf_uleb(c);
		break;
	case DW_LNS_const_add_pc:
		advance(m, (255u - m->h->opcode_base) / m->h->line_range);
		break;
	case DW_LNS_fixed_advance_pc:
		m->address += ppa_dwarf_uint(c, 2);
		m->op_index = 0;
		break;
	default: /* all others change what we do not ask for */
		for (unsigned i = m->h->operands[op]; i; i--)
			ppa_dwarf_uleb(c);
	}
}

static void prepare_specials(struct machine *m)
{
	const struct ppa_dwarf_line_head *h = m->h;

	for (unsigned op = h->opcode_base; op < 256; op++) {
		m->operations[op] = (uint8_t)((op - h->opcode_base) / h->line_range);
		m->lines[op] = (int16_t)(h->line_base + (int)((op - h->opcode_base) % h->line_range));
	}
}

static void run(struct machine *m, uint64_t stop)
{
	struct ppa_dwarf_cursor *c = &m->d->line;

	while (ppa_dwarf_left(c) && ppa_dwarf_tell(c) < stop && ppa_dwarf_step(m->d)) {
		uint8_t op = (uint8_t)ppa_dwarf_u8(c);

		if (op < m->h->opcode_base) {
			standard(m, op);
			continue;
		}
		advance(m, m->operations[op]);
		m->line += (uint64_t)(int64_t)m->lines[op];
		add_row(m);
	}
}

static void begin_stretch(struct machine *m)
{
	m->stretch = (struct ppa_dwarf_stretch){
		.low = UINT64_MAX,
		.address = m->address,
		.at = (uint32_t)(ppa_dwarf_tell(&m->d->line) - m->h->program),
		.file = (uint32_t)m->file,
		.line = (uint32_t)m->line,
		.op_index = (uint8_t)m->op_index,
		.is_dead = m->is_dead,
		.is_fresh = !m->last.is_valid,
	};
}

/* Is the machine's state one that can be told in a few numbers? */
static bool is_at_row(const struct machine *m)
{
	if (!m->last.is_valid)
		return !m->address && m->file == 1 && m->line == 1 && m->is_dead;
	return m->last.address == m->address && m->last.file == m->file && m->last.line == m->line;
}

/* All of it, noting stretches. */
static void run_and_tell(struct machine *m)
{
	struct ppa_dwarf_cursor *c = &m->d->line;

	begin_stretch(m);
	while (ppa_dwarf_left(c) && m->d->steps) {
		uint64_t at = m->h->program + m->stretch.at;

		/* As far as a stretch should go, and then op by op to where it can end. */
		run(m, at + FRESH_STRETCH_BYTES);
		while (ppa_dwarf_left(c) && m->d->steps &&
		       !(is_at_row(m) && (!m->last.is_valid || ppa_dwarf_tell(c) - at >= STRETCH_BYTES)))
			run(m, ppa_dwarf_tell(c) + 1);
		if (m->told && !ppa_dwarf_outline_stretch(m->told, &m->stretch)) {
			ppa_dwarf_outline_end_stretches(m->told, false);
			m->told = NULL;
		}
		begin_stretch(m);
	}
	if (m->told)
		ppa_dwarf_outline_end_stretches(m->told, m->d->steps != 0);
}

static void run_stretch(struct machine *m, const struct ppa_dwarf_stretch *s, uint64_t stop)
{
	begin_sequence(m);
	if (!s->is_fresh) {
		m->address = m->last.address = s->address;
		m->file = m->last.file = s->file;
		m->line = m->last.line = s->line;
		m->op_index = s->op_index;
		m->is_dead = s->is_dead;
		m->last.is_valid = true;
		move_to(m, ppa_dwarf_first_at(m->s, s->address));
	}
	ppa_dwarf_seek(&m->d->line, m->h->program + s->at, m->h->end);
	run(m, stop);
}

void ppa_dwarf_find_rows(struct ppa_dwarf_file *d, const struct ppa_dwarf_line_head *h, const struct ppa_dwarf_set *s,
			 struct ppa_dwarf_outline *outline)
{
	struct machine m = {.d = d, .h = h, .s = s};

	prepare_specials(&m);
	if (outline && outline->has_stretches) {
		const struct ppa_dwarf_stretch *list = outline->stretches;

		for (size_t i = 0; i < outline->nstretches; i++) {
			size_t first = ppa_dwarf_first_at(s, list[i].low);

			if (first < s->n && s->list[first]->pc < list[i].high)
				run_stretch(&m, &list[i],
					    i + 1 < outline->nstretches ? h->program + list[i + 1].at : UINT64_MAX);
		}
		return;
	}
	begin_sequence(&m);
	ppa_dwarf_seek(&d->line, h->program, h->end);
	if (outline && h->end - h->program <= UINT32_MAX) {
		m.told = outline;
		run_and_tell(&m);
	} else {
		run(&m, UINT64_MAX);
	}
}

/* Append a text to a path of which len bytes are there. */
static size_t append(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u, const struct ppa_dwarf_value *v,
		     char *buf, size_t cap, size_t len)
{
	/* What was in the unit's first entry lies in .debug_info. */
	enum ppa_dwarf_section_id here = v == &u->comp_dir || v == &u->name ? PPA_DWARF_INFO : PPA_DWARF_LINE;
	size_t at = len, n;

	if (at && buf[at - 1] != '/' && at + 1 < cap)
		buf[at++] = '/';
	n = ppa_dwarf_text(d, u, v, &d->sections[here], buf + at, cap - at);
	if (!n || buf[at] != '/')
		return n ? at + n : len;
	memmove(buf, buf + at, n + 1);
	return n;
}

size_t ppa_dwarf_path(struct ppa_dwarf_file *d, const struct ppa_dwarf_unit *u, const struct ppa_dwarf_line_head *h,
		      uint32_t file, char *buf, size_t cap)
{
	const struct ppa_dwarf_file_name *f = file < h->nfiles ? &h->files[file] : NULL;
	size_t len, whole;

	buf[0] = '\0';
	if (!f || !f->name.kind)
		return 0;
	len = append(d, u, &u->comp_dir, buf, cap, 0);
	/* Directory 0 is the producer's own, also where the table repeats it. */
	if (f->directory && f->directory < h->ndirectories)
		len = append(d, u, &h->directories[f->directory], buf, cap, len);
	whole = append(d, u, &f->name, buf, cap, len);
	buf[whole] = '\0';
	return whole == len ? 0 : whole;
}
