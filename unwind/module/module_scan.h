/* SPDX-License-Identifier: Apache-2.0
 *
 * From mappings to modules: which executable mappings belong to which ELF object. Used by modules.c only, which owns
 * the results.
 *
 * A module is recognised by the mapping of its file's first page: ELF headers there must place a text segment exactly
 * where the executable mapping is. So a library that somebody maps a second time as data makes no module, and text that
 * was remapped to anonymous huge pages still belongs to its own. Whatever else is executable (just-in-time code,
 * non-ELF files) is kept as a foreign range, so that a pc there is known to be no unseen library. */
#ifndef PPA_UNWIND_MODULE_MODULE_SCAN_H
#define PPA_UNWIND_MODULE_MODULE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/module/elf_headers.h"
#include "unwind/module/modules.h"

/* A module with what the walker needs. In the private heap; shared by the tables that name it. */
struct ppa_module_node {
	struct ppa_module m;
	uintptr_t header;	  /* where the file's first byte is mapped: part of its identity */
	uintptr_t cfi_lo, cfi_hi; /* readable mapping around eh_frame_hdr, 0 if none */
	uintptr_t dynamic;
	size_t dynamic_len;
	size_t nsegments;
	struct ppa_elf_segment segment[PPA_ELF_MAX_SEGMENTS];
	uint32_t refs;	     /* tables; under the lock of modules.c */
	uint32_t generation; /* of the private heap: a fork child may not free its parent's */
	char path[];
};

/* An executable range; node NULL: foreign. */
struct ppa_module_range {
	uintptr_t start, end;
	uint64_t file_offset;
	struct ppa_module_node *node;
};

struct ppa_module_scan {
	struct ppa_module_range *ranges; /* sorted; owned, like the nodes array (not the nodes) */
	size_t nranges, ranges_cap;
	struct ppa_module_node **nodes; /* without references yet; those from known keep theirs */
	size_t nnodes, nodes_cap;
	/* in */
	struct ppa_module_node *const *known; /* of the table before: their headers are not read again */
	size_t nknown;
	uintptr_t main_phdr; /* AT_PHDR, or 0 */
	uint64_t *next_serial;
	uint32_t generation;
};

/* Fill s from the text of maps. Returns 0 or -ENOMEM; the caller frees in both cases. Context: server. */
int ppa_module_scan_maps(struct ppa_module_scan *s, const char *text, size_t len) PPA_CTX_SERVER;

/* Fill s from the loader's list, for where /proc is closed. Takes the loader's lock. Context: server. */
int ppa_module_scan_loader(struct ppa_module_scan *s) PPA_CTX_SERVER;

/* Free the arrays, and the nodes that known does not name. Context: server. */
void ppa_module_scan_free(struct ppa_module_scan *s) PPA_CTX_SERVER;

#endif
