/* SPDX-License-Identifier: Apache-2.0
 *
 * The stacks of a snapshot as a reader of trees wants them: as frames (inlined functions by themselves), root first, in
 * an order in which equal stacks are neighbours and stacks with a common beginning are near each other. What looks the
 * same to people is the same frame, at whatever address it is. */
#ifndef PPA_PROTO_STACKS_H
#define PPA_PROTO_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "proto/strtab.h"
#include "proto/tuples.h"

struct ppa_snapshot;

/* What a frame's tuple holds: indices into strings. */
enum ppa_frame_part {
	PPA_FRAME_NAME,	  /* of the function; never the empty string */
	PPA_FRAME_MODULE, /* base name of the mapped file, or "" */
	PPA_FRAME_FILE,	  /* of the source, or "" */
};

/* How much must be equal for two frames to be one. */
enum ppa_frames_by { PPA_FRAMES_BY_NAME, PPA_FRAMES_BY_PLACE };

struct ppa_stacks {
	const struct ppa_snapshot *s; /* borrowed, as its strings are */
	struct ppa_strtab strings;    /* may be added to */
	struct ppa_tuples frames;
	uint32_t *first_frame; /* of location i in frame_ids; one more than there are locations */
	uint32_t *frame_ids;   /* innermost first, as in the snapshot */
	uint32_t no_stack;     /* the frame of samples that have none */
	uint32_t *order;       /* all samples, sorted */
};

/* 0; -ENOMEM; -EINVAL for a snapshot whose indices lead outside its arrays. In every case *st is to be freed. Takes
 * some 70 bytes for each different frame, 8 a location and 8 a sample meanwhile. Context: server. */
int ppa_stacks_init(struct ppa_stacks *st, const struct ppa_snapshot *s, enum ppa_frames_by by) PPA_CTX_SERVER;
void ppa_stacks_free(struct ppa_stacks *st) PPA_CTX_SERVER;

/* A walk over one sample's frames. */
struct ppa_stack_walk {
	const struct ppa_stacks *st;
	const uint32_t *locs; /* of the sample, leaf first */
	uint32_t nlocs;	      /* those not begun */
	uint32_t at, end;     /* the location's frames not yet seen: frame_ids[end..at), from the high end */
	bool is_empty;	      /* the sample has no frames, and nothing was shown instead */
};

void ppa_stack_begin(const struct ppa_stacks *st, uint32_t sample, struct ppa_stack_walk *w) PPA_CTX_SERVER;

/* The next frame on the way from root to leaf; false after the leaf, and *frame
 * stays. A sample without frames has one named [no stack].
 * Context: server. */
bool ppa_stack_next(struct ppa_stack_walk *w, uint32_t *frame) PPA_CTX_SERVER;

/* Context: server. */
bool ppa_stacks_are_equal(const struct ppa_stacks *st, uint32_t a, uint32_t b) PPA_CTX_SERVER;

/* What stands at this index of st->strings. Context: server. */
const char *ppa_stacks_text(const struct ppa_stacks *st, uint64_t index, uint32_t *len) PPA_CTX_SERVER;

#endif
