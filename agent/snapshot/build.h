/* SPDX-License-Identifier: Apache-2.0
 *
 * From what was counted to a snapshot: addresses become locations, functions and mappings. */
#ifndef PPA_SNAPSHOT_BUILD_H
#define PPA_SNAPSHOT_BUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_kind;
struct ppa_named_request;
struct ppa_picture;
struct ppa_rows;
struct ppa_session;
struct ppa_snapshot;
struct ppa_wall;

/* 0, and *out is the caller's (ppa_snapshot_free); or -ENOMEM. Context: server. */
int ppa_build_cpu(const struct ppa_session *s, struct ppa_snapshot **out) PPA_CTX_SERVER;

/* The wall profile of w, with the CPU profile of the same window, which tells threads apart. As above. w is used up.
 * Context: server. */
int ppa_build_wall(struct ppa_wall *w, const struct ppa_session *cpu, struct ppa_snapshot **out) PPA_CTX_SERVER;

/* The snapshot that a request is for, from its rows, those without any value left out. duration_ns is 0 but for a delta.
 * 0, and *out is the caller's; or -ENOMEM. Context: server. */
struct ppa_named_times {
	int64_t time_ns, duration_ns;
};
int ppa_build_named(const struct ppa_named_request *req, const struct ppa_rows *rows,
		    const struct ppa_named_times *times, struct ppa_snapshot **out) PPA_CTX_SERVER;

/* For kinds.c: see struct ppa_kind. Context: server. */
void ppa_heap_gather(struct ppa_rows *rows) PPA_CTX_SERVER;
int64_t ppa_heap_period(void) PPA_CTX_SERVER;
uint64_t ppa_heap_count(void) PPA_CTX_SERVER;
void ppa_heap_comment(struct ppa_picture *p) PPA_CTX_SERVER;
void ppa_heap_age_gather(struct ppa_rows *rows) PPA_CTX_SERVER;
uint64_t ppa_heap_age_count(void) PPA_CTX_SERVER;
void ppa_block_gather(struct ppa_rows *rows) PPA_CTX_SERVER;
uint64_t ppa_block_count(void) PPA_CTX_SERVER;
void ppa_block_comment(struct ppa_picture *p) PPA_CTX_SERVER;
void ppa_mutex_gather(struct ppa_rows *rows) PPA_CTX_SERVER;
uint64_t ppa_mutex_count(void) PPA_CTX_SERVER;
void ppa_mutex_comment(struct ppa_picture *p) PPA_CTX_SERVER;
int64_t ppa_waiting_period(void) PPA_CTX_SERVER;
void ppa_mmap_gather(struct ppa_rows *rows) PPA_CTX_SERVER;
int64_t ppa_mmap_period(void) PPA_CTX_SERVER;
uint64_t ppa_mmap_count(void) PPA_CTX_SERVER;
void ppa_mmap_comment(struct ppa_picture *p) PPA_CTX_SERVER;

void ppa_goroutine_gather(struct ppa_rows *rows) PPA_CTX_SERVER;
int64_t ppa_goroutine_period(void) PPA_CTX_SERVER;
void ppa_goroutine_comment(struct ppa_picture *p) PPA_CTX_SERVER;
const char *ppa_goroutine_label(uint64_t number) PPA_CTX_SERVER;
int ppa_goroutine_each(const struct ppa_named_request *req, struct ppa_snapshot **out) PPA_CTX_SERVER;
void ppa_goroutine_reset(void) PPA_CTX_CHILD;
void ppa_threadcreate_gather(struct ppa_rows *rows) PPA_CTX_SERVER;
uint64_t ppa_threadcreate_count(void) PPA_CTX_SERVER;
void ppa_threadcreate_comment(struct ppa_picture *p) PPA_CTX_SERVER;

/* runtime.MemStats as Go's debug=1 prints it, from what the target's allocator knows. may_pause: even if it holds its
 * locks while it counts. Context: server. */
const char *ppa_memstats_text(struct ppa_picture *p, bool may_pause) PPA_CTX_SERVER;

#endif
