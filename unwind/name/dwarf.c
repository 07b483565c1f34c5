/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over the units of a file: which of them have an address that is asked for, by .debug_aranges, by their first entries or
 * later by the index of them; then, for each of these, the calls and the rows of its addresses, and from both the frames.
 *
 * Where two units claim an address, the one that has a function for it wins. Units whose first entry names no addresses are
 * not searched: those of link time optimisation's first pass, of type units and of partial ones have no code.
 *
 * The line of a frame is where the next inner one was called; only the innermost asks the line table. */
#include "unwind/name/dwarf.h"

#include <errno.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "unwind/name/dwarf_parts.h"
#include "unwind/name/pool.h"

_Static_assert(PPA_DWARF_MAX_KEPT == 2 * PPA_DWARF_NSECTIONS, "a file and its alternate");

enum { TEXT_BYTES = 8 << 10, MEMOS = 1 << 10, PATHS = 512 };

/* What an entry's name was found to be: the same function is inlined at hundreds of addresses. */
struct memo {
	uint64_t entry; /* 0: free */
	struct ppa_dwarf_name name;
	const char *text;
};

struct work {
	struct ppa_dwarf_file main, alt;
	struct ppa_dwarf_want *wants;
	size_t n;
	struct ppa_pool *pool;
	struct ppa_dwarf_set set;
	uint8_t *is_in_set;  /* for each of wants; all zero but while a set is chosen */
	size_t first, after; /* the part of it that is not */
	bool is_rest;	     /* only those of which nothing is known are looked for */
	unsigned flags;
	struct ppa_dwarf_line_head head;
	const struct ppa_dwarf_unit *unit; /* the one that is read */
	struct memo memos[MEMOS];
	const char *paths[PATHS]; /* of the first files of the unit's table; NULL: not asked for yet */
	char text[TEXT_BYTES];
};

/* ---- frames ---- */

static const char *keep(struct work *w, bool is_known)
{
	const char *text = is_known && w->text[0] ? ppa_pool_text(w->pool, w->text) : NULL;

	if (is_known && w->text[0] && !text)
		w->flags |= PPA_DWARF_NO_MEMORY;
	return text;
}

static const struct memo *name_of(struct work *w, uint64_t entry)
{
	struct memo *m = &w->memos[(entry * UINT64_C(0x9e3779b97f4a7c15)) >> 54];

	if (m->entry != entry) {
		m->entry = entry;
		m->name = ppa_dwarf_name_of(&w->main, w->unit, entry, w->text, sizeof(w->text));
		m->text = keep(w, m->name.is_known);
	}
	return m;
}

static const char *path_of(struct work *w, uint32_t file)
{
	const char *text = file < PATHS ? w->paths[file] : NULL;

	if (!text)
		text = keep(w, ppa_dwarf_path(&w->main, w->unit, &w->head, file, w->text, sizeof(w->text)) != 0);
	text = text ? text : "";
	if (file < PATHS)
		w->paths[file] = text;
	return text;
}

static void build_frames(struct work *w, struct ppa_dwarf_want *want)
{
	uint32_t n = want->ncalls ? want->ncalls : 1, file = want->row_file, line = want->row_line;
	struct ppa_line_frame *f;

	if (!want->ncalls && !want->has_row)
		return;
	f = ppa_pool_alloc(w->pool, n * sizeof(*f));
	if (!f) {
		w->flags |= PPA_DWARF_NO_MEMORY;
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct ppa_dwarf_call *call = want->ncalls ? &want->calls[n - 1 - i] : NULL;

		f[i] = (struct ppa_line_frame){.line = line, .file = file || line ? path_of(w, file) : ""};
		if (!call)
			continue;
		const struct memo *m = name_of(w, call->entry);

		f[i].function = m->text;
		f[i].start_line = m->name.decl_file == file ? m->name.decl_line : 0;
		file = call->call_file;
		line = call->call_line;
	}
	want->frames = f;
	want->nframes = n;
}

/* ---- units ---- */

static void mark_range(void *arg, uint64_t low, uint64_t high)
{
	struct work *w = arg;
	size_t from = 0, to = w->n;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (w->wants[middle].pc < low)
			from = middle + 1;
		else
			to = middle;
	}
	if (from < w->n && w->wants[from].pc < high && from < w->first)
		w->first = from;
	for (; from < w->n && w->wants[from].pc < high; from++)
		w->is_in_set[from] = !w->wants[from].ncalls && !(w->is_rest && w->wants[from].nframes);
	if (from > w->after)
		w->after = from;
}

/* Which addresses to look for in the unit: those in its ranges for which no unit before had a function. */
static void choose_set(struct work *w, const struct ppa_dwarf_unit *u)
{
	w->first = w->n;
	w->after = 0;
	ppa_dwarf_each_range(&w->main, u, &u->span, mark_range, w);
	w->set.n = 0;
	for (size_t i = w->first; i < w->after; i++) {
		if (!w->is_in_set[i])
			continue;
		w->is_in_set[i] = 0;
		w->wants[i].has_row = false;
		w->set.list[w->set.n++] = &w->wants[i];
	}
}

static void read_unit(struct work *w, const struct ppa_dwarf_unit *u, struct ppa_dwarf_outline *outline)
{
	memset(w->memos, 0, sizeof(w->memos));
	memset(w->paths, 0, sizeof(w->paths));
	w->unit = u;
	if (!ppa_dwarf_find_calls(&w->main, u, &w->set, outline))
		w->flags |= PPA_DWARF_NO_MEMORY;
	if (ppa_dwarf_line_head_read(&w->main, u, &w->head))
		ppa_dwarf_find_rows(&w->main, &w->head, &w->set, outline);
	for (size_t i = 0; i < w->set.n; i++)
		if (w->set.list[i]->ncalls || !w->set.list[i]->nframes)
			build_frames(w, w->set.list[i]);
	ppa_dwarf_line_head_free(&w->head);
}

static void read_marked(struct work *w)
{
	struct ppa_dwarf_index *x = w->main.known;
	uint8_t *is_marked = ppa_vheap_calloc(w->main.units.n + 1, 1);
	bool is_any = !is_marked || !x || !ppa_dwarf_index_mark(x, &w->main, w->wants, w->n, is_marked);
	struct ppa_dwarf_unit u;

	for (size_t i = 0; i < w->main.units.n && ppa_dwarf_step(&w->main); i++) {
		struct ppa_dwarf_place *place = &w->main.units.list[i];

		if (!is_any && !is_marked[i])
			continue;
		if (!ppa_dwarf_place_read(&w->main, place) || !ppa_dwarf_unit_read(&w->main, place, &u))
			continue;
		choose_set(w, &u);
		if (!w->set.n)
			continue;
		/* The lines of such a unit are here, but not whose they are: a line of an inlined function would be shown as
		 * one of its caller's. */
		if (u.is_split)
			w->flags |= PPA_DWARF_SPLIT;
		else
			read_unit(w, &u, x ? ppa_dwarf_index_outline(x, i) : NULL);
	}
	ppa_vheap_free(is_marked);
}

static bool are_all_found(const struct work *w)
{
	for (size_t i = 0; i < w->n; i++)
		if (!w->wants[i].nframes)
			return false;
	return true;
}

static void read_units(struct work *w)
{
	read_marked(w);
	if (!w->main.is_partial || are_all_found(w))
		return;
	w->is_rest = true;
	if (ppa_dwarf_file_list_all(&w->main))
		w->flags |= PPA_DWARF_NO_MEMORY;
	read_marked(w);
}

/* The index of a file, which without memory has none: it is a convenience. */
static struct ppa_dwarf_index *index_of(struct ppa_dwarf_index **kept, uint64_t more_bytes)
{
	if (!*kept)
		*kept = ppa_vheap_calloc(1, sizeof(**kept));
	if (*kept)
		ppa_dwarf_index_begin(*kept, more_bytes);
	return *kept;
}

int ppa_dwarf_resolve_again(const struct ppa_elf_file *f, const struct ppa_elf_file *alt, struct ppa_dwarf_want *wants,
			    size_t n, struct ppa_pool *pool, struct ppa_dwarf_kept *kept, unsigned *flags)
{
	struct work *w = ppa_vheap_calloc(1, sizeof(*w));
	/* What is inflated and what is kept have one limit. Of what is left, three quarters are for sections, an eighth for the index, and the rest for answers. */
	uint64_t left = pool->max_bytes - pool->bytes, allowance = left / 4 * 3, reserved;
	int err = w ? 0 : -ENOMEM;

	*flags = 0;
	if (err || !n) {
		ppa_vheap_free(w);
		return err;
	}
	w->wants = wants;
	w->n = n;
	w->pool = pool;
	w->set.list = ppa_vheap_malloc(n * sizeof(*w->set.list));
	w->is_in_set = ppa_vheap_calloc(n, 1);
	err = w->set.list && w->is_in_set ? ppa_dwarf_file_open(&w->main, f, &allowance, kept->inflated,
								index_of(&kept->index[0], left / 8))
					  : -ENOMEM;
	if (!err) {
		/* Without it some names are missing, no more. */
		if (alt && ppa_dwarf_file_open(&w->alt, alt, &allowance, kept->inflated + PPA_DWARF_NSECTIONS,
					       index_of(&kept->index[1], 0)) == 0)
			w->main.alt = &w->alt;
		reserved = left / 4 * 3 - allowance + (w->main.known ? left / 8 : 0);
		pool->max_bytes -= reserved;
		read_units(w);
		pool->max_bytes += reserved;
		*flags = w->flags;
		err = ppa_dwarf_sections_err(w->main.sections);
		if (w->main.alt)
			ppa_dwarf_file_close(&w->alt);
		ppa_dwarf_file_close(&w->main);
	}
	for (size_t i = 0; i < n; i++) {
		ppa_vheap_free(wants[i].calls);
		wants[i].calls = NULL;
	}
	ppa_vheap_free(w->set.list);
	ppa_vheap_free(w->is_in_set);
	ppa_vheap_free(w);
	return err;
}

int ppa_dwarf_resolve(const struct ppa_elf_file *f, const struct ppa_elf_file *alt, struct ppa_dwarf_want *wants,
		      size_t n, struct ppa_pool *pool, unsigned *flags)
{
	struct ppa_dwarf_kept kept = {.index = {NULL}};
	int err = ppa_dwarf_resolve_again(f, alt, wants, n, pool, &kept, flags);

	ppa_dwarf_kept_free(&kept);
	return err;
}

uint64_t ppa_dwarf_kept_bytes(const struct ppa_dwarf_kept *kept)
{
	uint64_t bytes = ppa_dwarf_index_bytes(kept->index[0]) + ppa_dwarf_index_bytes(kept->index[1]);

	for (size_t i = 0; i < PPA_DWARF_MAX_KEPT; i++)
		bytes += ppa_inflated_image_bytes(&kept->inflated[i]) + ppa_inflated_place_bytes(&kept->inflated[i]);
	return bytes;
}

void ppa_dwarf_kept_shed(struct ppa_dwarf_kept *kept, uint64_t bytes)
{
	uint64_t inflated = 0;

	for (size_t i = 0; i < PPA_DWARF_MAX_KEPT; i++)
		inflated += ppa_inflated_image_bytes(&kept->inflated[i]);
	for (size_t i = 0; i < PPA_DWARF_MAX_KEPT && inflated > bytes; i++) {
		inflated -= ppa_inflated_image_bytes(&kept->inflated[i]);
		ppa_inflated_shed(&kept->inflated[i]);
	}
}

void ppa_dwarf_kept_free(struct ppa_dwarf_kept *kept)
{
	for (size_t i = 0; i < PPA_DWARF_MAX_KEPT; i++)
		ppa_inflated_free(&kept->inflated[i]);
	ppa_dwarf_index_free(kept->index[0]);
	ppa_dwarf_index_free(kept->index[1]);
	memset(kept, 0, sizeof(*kept));
}
