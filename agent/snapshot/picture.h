/* SPDX-License-Identifier: Apache-2.0
 *
 * A snapshot under construction: growing tables, deduplicated as profile.proto wants them. Every kind of profile is
 * drawn through this; what it cannot get memory for it remembers, and finish says so. */
#ifndef PPA_SNAPSHOT_PICTURE_H
#define PPA_SNAPSHOT_PICTURE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/snapshot/snapshot.h"

struct ppa_module_table;
struct ppa_past;
struct ppa_picture;

/* NULL on no memory. main_table gives the mappings that are listed even without a sample. Context: server. */
struct ppa_picture *ppa_picture_new(const struct ppa_module_table *main_table) PPA_CTX_SERVER;

/* So many are to come, roughly: saves growing step by step. Context: server. */
void ppa_picture_expect(struct ppa_picture *p, size_t nsamples, size_t nframes) PPA_CTX_SERVER;

/* For kinds whose stacks may be older than the libraries of today: where past's tables give one address several
 * meanings, all but the newest are moved out of the way. past must outlive the last frame. Context: server. */
void ppa_picture_set_past(struct ppa_picture *p, const struct ppa_past *past) PPA_CTX_SERVER;

/* Count the frames in the module around this address as an allocator's. Context: server. */
void ppa_picture_set_allocator(struct ppa_picture *p, uintptr_t address) PPA_CTX_SERVER;

/* The head of the snapshot, to be filled in by the kind's builder. Strings must be static or from
 * ppa_picture_text. Context: server. */
struct ppa_snapshot *ppa_picture_head(struct ppa_picture *p) PPA_CTX_SERVER;

/* A formatted string that lives as long as the snapshot; "" on no memory. Context: server. */
const char *ppa_picture_text(struct ppa_picture *p, const char *fmt, ...) PPA_PRINTF(2, 3) PPA_CTX_SERVER;

/* A copy that lives as long as the snapshot; "" on no memory. Context: server. */
const char *ppa_picture_keep(struct ppa_picture *p, const char *text) PPA_CTX_SERVER;

void ppa_picture_comment(struct ppa_picture *p, const char *text) PPA_CTX_SERVER;

enum {
	PPA_FRAMES_CUT = 1,  /* without the allocators' frames at the leaf, unless there are no others */
	PPA_FRAMES_GONE = 2, /* t is not of the stack's time: what could be unloaded has lost its name */
};

/* Begin a sample, then add frames leaf first, then labels. Frames of the agent itself are left out; a stack of nothing
 * else becomes one frame named [pprofagent]. Context: server. */
void ppa_picture_sample(struct ppa_picture *p, const int64_t *values) PPA_CTX_SERVER;
void ppa_picture_frames(struct ppa_picture *p, const struct ppa_module_table *t, const uintptr_t *pcs, size_t npcs,
			unsigned flags) PPA_CTX_SERVER;
void ppa_picture_label(struct ppa_picture *p, const struct ppa_label *l) PPA_CTX_SERVER;

/* The labels of a set that the program made (profile/tags.h). Context: server. */
void ppa_picture_tags(struct ppa_picture *p, uint32_t set) PPA_CTX_SERVER;

/* A comment if the program's labels were too many. Context: server. */
void ppa_picture_comment_tags(struct ppa_picture *p) PPA_CTX_SERVER;

/* The sample is complete: if an earlier one has the same frames and labels, add its values to that one and drop it.
 * For kinds whose different stacks may look the same in the end. Context: server. */
void ppa_picture_merge(struct ppa_picture *p) PPA_CTX_SERVER;

/* Has no sample been added? Context: server. */
bool ppa_picture_is_empty(const struct ppa_picture *p) PPA_CTX_SERVER;

/* Done: the snapshot, to be given to ppa_snapshot_free, and the picture is gone; or -ENOMEM and both are.
 * Context: server. */
int ppa_picture_finish(struct ppa_picture *p, struct ppa_snapshot **out) PPA_CTX_SERVER;

/* Call this when the finished snapshot is freed. Context: server. */
void ppa_picture_on_free(struct ppa_snapshot *s, void (*fn)(void)) PPA_CTX_SERVER;

#endif
