/* SPDX-License-Identifier: Apache-2.0
 *
 * See module_scan.h. The list of mappings is walked once, with the last few first pages seen kept at hand; a module's
 * text lies within a few mappings of them. Memory comes from the private heap. */
#define _GNU_SOURCE /* struct dl_phdr_info */
#include "unwind/module/module_scan.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "agent/base/vheap.h"
#include "unwind/module/maps.h"

enum { MAX_CANDIDATES = 64, FIRST_CAP = 64 };

/* The array with room for one more element of size bytes; NULL: out of memory, and the old one is as it was. */
static void *grow(void *array, size_t n, size_t *cap, size_t size)
{
	size_t more = *cap ? *cap * 2 : FIRST_CAP;

	if (n < *cap)
		return array;
	array = ppa_vheap_realloc(array, more * size);
	if (array)
		*cap = more;
	return array;
}

static int push_range(struct ppa_module_scan *s, struct ppa_module_range r)
{
	struct ppa_module_range *p = grow(s->ranges, s->nranges, &s->ranges_cap, sizeof(r));

	if (!p)
		return -ENOMEM;
	s->ranges = p;
	s->ranges[s->nranges++] = r;
	return 0;
}

static int push_node(struct ppa_module_scan *s, struct ppa_module_node *n)
{
	struct ppa_module_node **p = grow(s->nodes, s->nnodes, &s->nodes_cap, sizeof(struct ppa_module_node *));

	if (!p)
		return -ENOMEM;
	s->nodes = p;
	s->nodes[s->nnodes++] = n;
	return 0;
}

static int add_range(struct ppa_module_scan *s, uintptr_t start, uintptr_t end, uint64_t offset,
		     struct ppa_module_node *node)
{
	struct ppa_module_range *last = s->nranges ? &s->ranges[s->nranges - 1] : NULL;

	/* Neighbours of one module (a page patched by mprotect splits its mapping) are one text segment. */
	if (last && last->end == start && last->node == node &&
	    (!node || last->file_offset + (start - last->start) == offset)) {
		last->end = end;
		return 0;
	}
	return push_range(s, (struct ppa_module_range){start, end, offset, node});
}

static void node_from_elf(struct ppa_module_scan *s, struct ppa_module_node *n, const struct ppa_elf *elf)
{
	struct ppa_module *m = &n->m;
	uintptr_t self = (uintptr_t)&ppa_module_scan_maps;

	m->bias = elf->bias;
	m->lo = elf->lo;
	m->hi = elf->hi;
	m->eh_frame_hdr = elf->eh_frame_hdr;
	m->eh_frame_hdr_len = elf->eh_frame_hdr_len;
	memcpy(m->build_id, elf->build_id, sizeof(m->build_id));
	m->build_id_len = elf->build_id_len;
	m->is_main = s->main_phdr >= m->lo && s->main_phdr < m->hi;
	m->is_agent = self >= m->lo && self < m->hi;
	n->dynamic = elf->dynamic;
	n->dynamic_len = elf->dynamic_len;
	n->nsegments = elf->nsegments;
	memcpy(n->segment, elf->segment, sizeof(n->segment));
}

static struct ppa_module_node *add_node(struct ppa_module_scan *s, const struct ppa_map *map, const struct ppa_elf *elf)
{
	struct ppa_module_node *n;

	n = ppa_vheap_calloc(1, sizeof(*n) + map->path_len + 1);
	if (!n || push_node(s, n)) {
		ppa_vheap_free(n);
		return NULL;
	}
	memcpy(n->path, map->path, map->path_len);
	n->m.path = n->path;
	n->m.deleted = map->deleted;
	n->m.dev = map->dev;
	n->m.ino = map->ino;
	n->m.serial = ++*s->next_serial;
	n->header = map->start;
	n->generation = s->generation;
	node_from_elf(s, n, elf);
	return n;
}

static bool same_file(const struct ppa_module_node *n, const struct ppa_map *map)
{
	return n->m.dev == map->dev && n->m.ino == map->ino && strlen(n->path) == map->path_len &&
	       !memcmp(n->path, map->path, map->path_len);
}

/* The module whose first page map is: one of this scan, one of the table before, or read now. *made: NULL if it is no
 * ELF object. Returns 0 or -ENOMEM. */
static int node_for(struct ppa_module_scan *s, const struct ppa_map *map, struct ppa_module_node **made)
{
	struct ppa_elf elf;
	uint64_t serial = 0;

	*made = NULL;
	for (size_t i = s->nnodes; i-- > 0;)
		if (s->nodes[i]->header == map->start) {
			*made = s->nodes[i];
			return 0;
		}
	for (size_t i = 0; i < s->nknown; i++) {
		struct ppa_module_node *n = s->known[i];

		if (n->header != map->start || !same_file(n, map))
			continue;
		if (n->m.deleted != map->deleted) { /* published modules do not change: the same one, told anew */
			serial = n->m.serial;
			break;
		}
		*made = n;
		return push_node(s, n);
	}
	if (ppa_elf_headers_read(map->start, &elf))
		return 0;
	*made = add_node(s, map, &elf);
	if (*made && serial)
		(*made)->m.serial = serial;
	return *made ? 0 : -ENOMEM;
}

/* Does the object's own text segment lie where map does? */
static bool text_matches(const struct ppa_module_node *n, const struct ppa_map *map)
{
	for (size_t i = 0; i < n->nsegments; i++) {
		const struct ppa_elf_segment *g = &n->segment[i];

		if (map->start < g->start || map->start >= g->end)
			continue;
		/* Anonymous memory in a data segment is not the object's text, whatever runs there. */
		if (map->ino ? map->offset == g->offset + (map->start - g->start) : g->executable)
			return true;
	}
	return false;
}

/* First pages met last, newest first. */
struct candidates {
	struct ppa_map map[MAX_CANDIDATES];
	size_t n; /* ever added */
};

static int find_owner(struct ppa_module_scan *s, const struct candidates *c, const struct ppa_map *map,
		      struct ppa_module_node **owner)
{
	size_t kept = c->n < MAX_CANDIDATES ? c->n : MAX_CANDIDATES;

	for (size_t i = 0; i < kept; i++) {
		const struct ppa_map *first = &c->map[(c->n - 1 - i) % MAX_CANDIDATES];
		struct ppa_module_node *n;

		if (first->dev != map->dev || first->ino != map->ino)
			continue;
		if (node_for(s, first, &n))
			return -ENOMEM;
		if (n && text_matches(n, map)) {
			*owner = n;
			return 0;
		}
	}
	return 0;
}

static bool is_vdso(const struct ppa_map *map)
{
	return map->path_len == 6 && !memcmp(map->path, "[vdso]", 6);
}

static int add_executable(struct ppa_module_scan *s, struct candidates *c, const struct ppa_map *map)
{
	struct ppa_module_node *owner = NULL;

	if (map->ino || is_vdso(map)) {
		if (find_owner(s, c, map, &owner))
			return -ENOMEM;
	} else {
		for (size_t i = s->nnodes; i-- > 0 && !owner;)
			if (map->start >= s->nodes[i]->m.lo && map->start < s->nodes[i]->m.hi &&
			    text_matches(s->nodes[i], map))
				owner = s->nodes[i];
	}
	return add_range(s, map->start, map->end, map->offset, owner);
}

/* New nodes (those with references are published) whose index has not been located. */
static bool lacks_cfi(const struct ppa_module_node *n)
{
	return n->m.eh_frame_hdr && !n->cfi_hi && !n->refs;
}

/* The readable mapping that holds an index is what may be read with it. */
static void locate_cfi(struct ppa_module_scan *s, const struct ppa_map *map)
{
	for (size_t i = 0; i < s->nnodes; i++) {
		struct ppa_module_node *n = s->nodes[i];

		if (lacks_cfi(n) && map->dev == n->m.dev && map->ino == n->m.ino && n->m.eh_frame_hdr >= map->start &&
		    n->m.eh_frame_hdr < map->end) {
			n->cfi_lo = map->start;
			n->cfi_hi = map->end;
		}
	}
}

/* Nodes exist only after their text was met, and the index may lie before it: a second pass over the text. */
static void find_cfi(struct ppa_module_scan *s, const char *text, size_t len)
{
	const char *pos = text;
	struct ppa_map map;
	size_t skipped = 0, lacking = 0;

	for (size_t i = 0; i < s->nnodes; i++)
		lacking += lacks_cfi(s->nodes[i]);
	while (lacking && ppa_maps_next(&pos, text + len, &map, &skipped))
		if (map.readable && (map.ino || is_vdso(&map)))
			locate_cfi(s, &map);
}

int ppa_module_scan_maps(struct ppa_module_scan *s, const char *text, size_t len)
{
	struct candidates *c = ppa_vheap_calloc(1, sizeof(*c));
	const char *pos = text;
	struct ppa_map map;
	size_t skipped = 0;
	int err = c ? 0 : -ENOMEM;

	while (!err && ppa_maps_next(&pos, text + len, &map, &skipped)) {
		if ((map.ino && !map.offset) || is_vdso(&map))
			c->map[c->n++ % MAX_CANDIDATES] = map;
		if (map.executable)
			err = add_executable(s, c, &map);
	}
	if (!err)
		find_cfi(s, text, len);
	ppa_vheap_free(c);
	return err;
}

/* One object of the loader's list, as if maps had told of it. */
static int add_loaded(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct ppa_module_scan *s = arg;
	const char *name = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
	struct ppa_map map = {.path = strncmp(name, "linux-vdso", 10) ? name : "[vdso]"};
	struct ppa_module_node *n;

	(void)size;
	if (!info->dlpi_phnum)
		return 0;
	map.path_len = strlen(map.path);
	/* Program headers follow the ELF header in everything a linker writes; ppa_elf_headers_read checks. */
	map.start = (uintptr_t)info->dlpi_phdr & ~(uintptr_t)4095;
	if (node_for(s, &map, &n))
		return -ENOMEM;
	if (!n || n->nsegments == 0 || n->m.bias != info->dlpi_addr)
		return 0;
	for (size_t i = 0; i < n->nsegments; i++) {
		const struct ppa_elf_segment *g = &n->segment[i];

		if (g->readable && n->m.eh_frame_hdr >= g->start && n->m.eh_frame_hdr < g->end && !n->cfi_hi) {
			n->cfi_lo = g->start;
			n->cfi_hi = g->end;
		}
		if (g->executable && add_range(s, g->start, g->end, g->offset, n))
			return -ENOMEM;
	}
	return 0;
}

int ppa_module_scan_loader(struct ppa_module_scan *s)
{
	int (*iterate)(int (*)(struct dl_phdr_info *, size_t, void *), void *) =
		(int (*)(int (*)(struct dl_phdr_info *, size_t, void *), void *))dlsym(RTLD_DEFAULT, "dl_iterate_phdr");
	int err = iterate ? iterate(add_loaded, s) : -ENOSYS;

	/* The loader lists in order of loading; ours is by address. Few and once: insertion sort. */
	for (size_t i = 1; i < s->nranges; i++) {
		struct ppa_module_range r = s->ranges[i];
		size_t k = i;

		for (; k > 0 && s->ranges[k - 1].start > r.start; k--)
			s->ranges[k] = s->ranges[k - 1];
		s->ranges[k] = r;
	}
	return err < 0 ? err : 0;
}

void ppa_module_scan_free(struct ppa_module_scan *s)
{
	for (size_t i = 0; i < s->nnodes; i++) {
		bool known = false;

		for (size_t k = 0; k < s->nknown && !known; k++)
			known = s->known[k] == s->nodes[i];
		if (!known)
			ppa_vheap_free(s->nodes[i]);
	}
	ppa_vheap_free(s->nodes);
	ppa_vheap_free(s->ranges);
	s->nodes = NULL;
	s->ranges = NULL;
	s->nnodes = s->nranges = 0;
}
