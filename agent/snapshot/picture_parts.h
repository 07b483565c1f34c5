/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of a picture share: its tables (picture_store.c), how addresses become locations (picture_names.c),
 * samples and its life (picture.c). Nobody else includes this. */
#ifndef PPA_SNAPSHOT_PICTURE_PARTS_H
#define PPA_SNAPSHOT_PICTURE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/snapshot/picture.h"

struct ppa_module;
struct ppa_module_table;
struct ppa_past;
struct ppa_text_segment;

enum { PPA_PICTURE_NAME_BYTES = 4096 }; /* no less than PPA_JIT_WORDS_BYTES */

struct ppa_text_block {
	struct ppa_text_block *next;
	size_t used, cap;
	char bytes[];
};

struct ppa_array {
	void *items;
	size_t n, cap;
};

/* Open addressing, value + 1; 0 is empty. */
struct ppa_index {
	uint32_t *places;
	size_t cap, n;
};

/* A frame as a walk gave it, and what became of it. */
struct ppa_memo {
	uintptr_t address; /* 0: empty */
	const struct ppa_module_table *table;
	uint32_t location;
	bool is_allocator, is_gone;
};

/* A module in which addresses have no name. */
struct ppa_gap {
	const struct ppa_module *module; /* its table's */
	uint32_t naddresses;
};

enum { PPA_PICTURE_GAPS = 8 };

/* Where a location's address came from. */
struct ppa_origin {
	const struct ppa_module *module; /* its table's, which outlives the picture; NULL: generated code, a marker */
	uintptr_t address;		 /* before it was moved */
};

struct ppa_picture {
	struct ppa_snapshot snap; /* first: ppa_snapshot_free gets a pointer to it */
	struct ppa_text_block *texts;
	struct ppa_array mappings, functions, lines, locations, stack_locs, labels, samples, comments;
	struct ppa_array origins;  /* one for each of locations */
	uint64_t *mapping_serials; /* module of each mapping, beside its start */
	struct ppa_index by_address, by_name, by_stack;
	struct ppa_array hashes; /* of the samples, for by_stack */
	uint64_t hash;		 /* of the last sample's frames and labels */
	struct ppa_memo *memos;
	size_t nmemos, memos_cap;
	const struct ppa_module_table *now; /* not ours */
	const struct ppa_past *past;	    /* not ours; NULL: there is only now */
	uint64_t allocator;		    /* serial of its module, 0: none */
	void (*on_free)(void);
	struct ppa_gap gaps[PPA_PICTURE_GAPS]; /* the first so many modules */
	bool is_jit_fresh;		       /* what is generated has been asked for already */
	bool cuts_allocators;		       /* its stacks end at who called the allocator */
	int err;
	char name[PPA_PICTURE_NAME_BYTES]; /* scratch: server stacks are small */
};

/* ---- picture_store.c ---- */

/* Room for cap items. 0 or -ENOMEM, which the picture remembers. Context: server. */
int ppa_picture_reserve(struct ppa_picture *p, struct ppa_array *a, size_t cap, size_t item_bytes) PPA_CTX_SERVER;

/* One more item, zeroed; NULL on no memory, which the picture remembers. Context: server. */
void *ppa_picture_add(struct ppa_picture *p, struct ppa_array *a, size_t item_bytes) PPA_CTX_SERVER;

/* Make room for one more entry; hash_of gives the hash of what is indexed already. 0 or -ENOMEM. Context: server. */
int ppa_picture_index_grow(struct ppa_picture *p, struct ppa_index *x,
			   uint64_t (*hash_of)(const struct ppa_picture *, uint32_t)) PPA_CTX_SERVER;

uint64_t ppa_picture_mix(uint64_t h) PPA_CTX_ANY;

/* ---- picture_names.c ---- */

/* The mapping of a segment, its addresses moved by shift. Context: server. */
uint32_t ppa_picture_mapping_of(struct ppa_picture *p, const struct ppa_text_segment *seg,
				uint64_t shift) PPA_CTX_SERVER;

/* The function like this one, whose texts are copied if it is new. Context: server. */
uint32_t ppa_picture_function(struct ppa_picture *p, const struct ppa_function *like) PPA_CTX_SERVER;

/* ---- picture_lines.c ---- */

/* Put files, lines and inlined calls to the locations. Context: server. */
void ppa_picture_add_lines(struct ppa_picture *p) PPA_CTX_SERVER;

/* ---- picture_names.c ---- */

/* What an address of a stack is, by table t; NULL on no memory. Valid until the next call. Context: server. */
const struct ppa_memo *ppa_picture_look_up(struct ppa_picture *p, const struct ppa_module_table *t, uintptr_t address,
					   bool is_gone) PPA_CTX_SERVER;

/* ---- picture_gaps.c ---- */

/* An address of this module has no name. Context: server. */
void ppa_picture_note_gap(struct ppa_picture *p, const struct ppa_module *m) PPA_CTX_SERVER;

/* Say in comments which names are missing, and why. Context: server. */
void ppa_picture_tell_gaps(struct ppa_picture *p) PPA_CTX_SERVER;

#endif
