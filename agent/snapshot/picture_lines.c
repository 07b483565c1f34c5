/* SPDX-License-Identifier: Apache-2.0
 *
 * Files, lines and inlined calls for a picture whose samples are all there: one question for each module, about all its
 * addresses at once.
 *
 * A location was given the one line of the function that owns its code. It gets those of the calls inlined there before it,
 * innermost first. The symbol table names the owner, also where DWARF calls it otherwise (clones, aliases): so a function has one
 * name, whether its lines are known yet or not, and diffs of profiles work. Where there is no symbol, DWARF's name is taken.
 *
 * At the end the functions that nobody names any more, for lack of a file, are taken out. */
#include <string.h>
#include <time.h>

#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "agent/snapshot/allocators.h"
#include "agent/snapshot/collect.h"
#include "agent/snapshot/picture_parts.h"
#include "unwind/name/lines.h"
#include "unwind/name/symbols.h"

/* How long one request waits for files and lines. */
#define WAIT_NS UINT64_C(1000000000)

struct filling {
	struct ppa_picture *p;
	const struct ppa_module *module;
	uintptr_t *addresses; /* of the module's locations, */
	uint32_t *indices;    /* and which these are */
	size_t n;
	struct ppa_lines_report report;
};

static _Atomic bool is_on = true;

void ppa_collect_set_lines(bool on)
{
	is_on = on;
}

/* The function of a frame that is not the location's own. */
static uint32_t inlined_function(struct ppa_picture *p, const struct ppa_line_frame *f)
{
	ppa_symbols_demangle(f->function, p->name, sizeof(p->name));
	return ppa_picture_function(
		p, &(struct ppa_function){*p->name ? p->name : f->function, f->function, f->file, f->start_line});
}

/* The function that owns the location's code, now with its file. */
static uint32_t owner_function(struct ppa_picture *p, uint32_t owner, const struct ppa_line_frame *f)
{
	struct ppa_function like = ((const struct ppa_function *)p->functions.items)[owner];

	if (!*like.system_name && f->function)
		return inlined_function(p, f);
	like.filename = f->file;
	like.start_line = f->start_line;
	return ppa_picture_function(p, &like);
}

static bool add_line(struct ppa_picture *p, uint32_t function, uint32_t number)
{
	struct ppa_line *line = ppa_picture_add(p, &p->lines, sizeof(*line));

	if (line)
		*line = (struct ppa_line){function, number};
	return line != NULL;
}

/* Where stacks end at who called the allocator, its covers that were inlined there go as well. */
static bool is_cut(struct ppa_picture *p, const struct ppa_line_frame *f)
{
	if (!p->cuts_allocators || !f->function)
		return false;
	ppa_symbols_demangle(f->function, p->name, sizeof(p->name));
	return ppa_allocators_have(f->function, *p->name ? p->name : f->function);
}

static void found(void *arg, size_t i, const struct ppa_line_frame *frames, uint32_t n)
{
	struct filling *f = arg;
	struct ppa_picture *p = f->p;
	struct ppa_location *loc = (struct ppa_location *)p->locations.items + f->indices[i];
	uint32_t first = (uint32_t)p->lines.n, owner, k = 0;
	struct ppa_mapping *map;

	owner = ((const struct ppa_line *)p->lines.items)[loc->first_line].function;
	while (k + 1 < n && is_cut(p, &frames[k]))
		k++;
	for (; k < n && !p->err; k++) {
		bool is_owner = k + 1 == n;

		if (!is_owner && !frames[k].function)
			continue; /* its caller's line is next */
		add_line(p, is_owner ? owner_function(p, owner, &frames[k]) : inlined_function(p, &frames[k]),
			 frames[k].line);
	}
	if (p->err)
		return;
	loc->first_line = first;
	loc->nlines = (uint32_t)p->lines.n - first;
	if (loc->mapping == PPA_SNAPSHOT_NO_MAPPING)
		return;
	map = (struct ppa_mapping *)p->mappings.items + loc->mapping;
	map->has_filenames |= *frames[n - 1].file != '\0';
	map->has_line_numbers |= frames[n - 1].line != 0;
	map->has_inline_frames |= loc->nlines > 1;
}

/* Ask for all locations of one module, beginning with the first of them. */
static void fill_module(struct filling *f, size_t from, uint8_t *is_done, uint64_t deadline_ns)
{
	const struct ppa_origin *o = f->p->origins.items;

	f->module = o[from].module;
	f->n = 0;
	for (size_t i = from; i < f->p->origins.n; i++) {
		if (o[i].module != f->module)
			continue;
		is_done[i] = 1;
		f->addresses[f->n] = o[i].address;
		f->indices[f->n++] = (uint32_t)i;
	}
	ppa_lines_resolve(f->module, f->addresses, f->n, deadline_ns, found, f, &f->report);
}

static void comment(struct ppa_picture *p, const struct ppa_lines_report *r)
{
	if (r->nlate)
		ppa_picture_comment(
			p, ppa_picture_text(p,
					    "files and lines of %u addresses are still being read: they will be in "
					    "the next profile",
					    (unsigned)r->nlate));
	if (r->has_split)
		ppa_picture_comment(p, "some debug information is in .dwo files, which are not read: names only");
	if (r->has_no_memory || r->is_too_large)
		ppa_picture_comment(p, "no memory for some of the debug information: PPROF_SYMBOLS_MEMORY");
	if (r->is_unreadable)
		ppa_picture_comment(p, "some debug information is not compressed with zlib and was not read");
}

/* Take out the functions that no location names, and the lines that went with them. */
static void compact(struct ppa_picture *p)
{
	struct ppa_function *f = p->functions.items;
	struct ppa_location *loc = p->locations.items;
	struct ppa_line *old = p->lines.items, *lines = ppa_vheap_malloc((p->lines.n + 1) * sizeof(*lines));
	uint32_t *new_index = ppa_vheap_calloc(p->functions.n + 1, sizeof(*new_index));
	size_t nlines = 0, nfunctions = 0;

	if (!lines || !new_index) {
		ppa_vheap_free(lines);
		ppa_vheap_free(new_index);
		return;
	}
	for (size_t i = 0; i < p->locations.n; i++)
		for (uint32_t k = 0; k < loc[i].nlines; k++)
			new_index[old[loc[i].first_line + k].function] = 1;
	for (size_t i = 0; i < p->functions.n; i++) {
		if (!new_index[i])
			continue;
		f[nfunctions] = f[i];
		new_index[i] = (uint32_t)nfunctions++;
	}
	for (size_t i = 0; i < p->locations.n; i++) {
		const struct ppa_line *from = old + loc[i].first_line;

		loc[i].first_line = (uint32_t)nlines;
		for (uint32_t k = 0; k < loc[i].nlines; k++)
			lines[nlines++] = (struct ppa_line){new_index[from[k].function], from[k].line};
	}
	ppa_vheap_free(new_index);
	ppa_vheap_free(old);
	p->lines.items = lines;
	p->lines.n = p->lines.cap = nlines;
	p->functions.n = nfunctions;
}

void ppa_picture_add_lines(struct ppa_picture *p)
{
	uint64_t deadline_ns = ppa_sys_clock_ns(CLOCK_MONOTONIC) + WAIT_NS;
	const struct ppa_origin *o = p->origins.items;
	size_t n = p->origins.n;
	struct filling f = {.p = p};
	uint8_t *is_done;

	if (!is_on || p->err || !n)
		return;
	f.addresses = ppa_vheap_malloc(n * sizeof(*f.addresses));
	f.indices = ppa_vheap_malloc(n * sizeof(*f.indices));
	is_done = ppa_vheap_calloc(n, 1);
	if (f.addresses && f.indices && is_done) {
		for (size_t i = 0; i < n; i++)
			if (!is_done[i] && o[i].module)
				fill_module(&f, i, is_done, deadline_ns);
		comment(p, &f.report);
		if (!p->err)
			compact(p);
	}
	ppa_vheap_free(f.addresses);
	ppa_vheap_free(f.indices);
	ppa_vheap_free(is_done);
}
