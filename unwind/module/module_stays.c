/* SPDX-License-Identifier: Apache-2.0
 *
 * The closure is a worklist over the dynamic sections as they lie in memory, read by bounded copies. glibc relocates
 * DT_STRTAB in place, musl and the vdso do not: a value below the module is an offset. */
#include "unwind/module/module_stays.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/sys.h"
#include "agent/base/vheap.h"

enum {
	NAME_BYTES = 128, /* longer names are not matched */
	MAX_TAGS = 1024,
	TAGS_A_READ = 16,
};

/* What is asked of a dynamic section: the nth value of a tag. False if there is none. */
static bool dynamic_value(const struct ppa_module_node *n, int64_t tag, size_t nth, uint64_t *out)
{
	Elf64_Dyn d[TAGS_A_READ];

	for (size_t i = 0; i < MAX_TAGS && (i + TAGS_A_READ) * sizeof(*d) <= n->dynamic_len + sizeof(d);
	     i += TAGS_A_READ) {
		size_t left = n->dynamic_len - i * sizeof(*d);
		size_t want = left < sizeof(d) ? left - left % sizeof(*d) : sizeof(d);

		if (!want || ppa_sys_read_memory(d, n->dynamic + i * sizeof(*d), want) != (long)want)
			return false;
		for (size_t k = 0; k < want / sizeof(*d); k++) {
			if (d[k].d_tag == DT_NULL)
				return false;
			if (d[k].d_tag == tag && !nth--) {
				*out = d[k].d_un.d_val;
				return true;
			}
		}
	}
	return false;
}

/* The string that a tag's value points to, in the string table at strtab. */
static bool dynamic_string(const struct ppa_module_node *n, int64_t tag, size_t nth, char name[NAME_BYTES])
{
	uint64_t strtab, offset;
	long len;

	if (!dynamic_value(n, DT_STRTAB, 0, &strtab) || !dynamic_value(n, tag, nth, &offset))
		return false;
	if (strtab < n->m.lo)
		strtab += n->m.bias;
	if (strtab < n->m.lo || strtab >= n->m.hi || offset >= n->m.hi - strtab)
		return false;
	len = ppa_sys_read_memory(name, strtab + offset, NAME_BYTES);
	return len > 0 && memchr(name, '\0', (size_t)len) && *name;
}

static void name_of(const struct ppa_module_node *n, char name[NAME_BYTES])
{
	const char *slash;

	if (dynamic_string(n, DT_SONAME, 0, name))
		return;
	slash = strrchr(n->m.path, '/');
	slash = slash ? slash + 1 : n->m.path;
	*name = '\0';
	if (strlen(slash) < NAME_BYTES)
		memcpy(name, slash, strlen(slash) + 1);
}

/* The one node of that name, or NULL. */
static struct ppa_module_node *find_named(struct ppa_module_node *const *nodes, char (*names)[NAME_BYTES],
					  size_t nnodes, const char *name)
{
	struct ppa_module_node *found = NULL;

	for (size_t i = 0; i < nnodes; i++) {
		if (strcmp(names[i], name) != 0)
			continue;
		if (found)
			return NULL;
		found = nodes[i];
	}
	return found;
}

static void follow(struct ppa_module_node *const *nodes, char (*names)[NAME_BYTES], size_t nnodes,
		   struct ppa_module_node **pending, size_t npending)
{
	char name[NAME_BYTES];

	while (npending) {
		struct ppa_module_node *n = pending[--npending], *needed;

		for (size_t nth = 0; nth < MAX_TAGS && dynamic_string(n, DT_NEEDED, nth, name); nth++) {
			needed = find_named(nodes, names, nnodes, name);
			if (!needed || needed->m.at_startup)
				continue;
			needed->m.at_startup = true;
			pending[npending++] = needed; /* each node once: nnodes places suffice */
		}
	}
}

void ppa_module_decide_stays(struct ppa_module_node *const *nodes, size_t nnodes, const uintptr_t *roots, size_t nroots)
{
	struct ppa_module_node **pending = ppa_vheap_calloc(nnodes, sizeof(struct ppa_module_node *));
	char(*names)[NAME_BYTES] = ppa_vheap_calloc(nnodes, sizeof(*names));
	size_t npending = 0;

	for (size_t i = 0; i < nnodes; i++) {
		struct ppa_module *m = &nodes[i]->m;

		m->at_startup = !strcmp(m->path, "[vdso]");
		for (size_t k = 0; k < nroots; k++)
			m->at_startup |= roots[k] >= m->lo && roots[k] < m->hi;
		if (names)
			name_of(nodes[i], names[i]);
		if (pending && m->at_startup)
			pending[npending++] = nodes[i];
	}
	if (pending && names)
		follow(nodes, names, nnodes, pending, npending);
	ppa_vheap_free(pending);
	ppa_vheap_free(names);
}
