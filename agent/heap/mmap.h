/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that the program maps itself: every mapping that it makes with mmap and still has, charged to the stack that
 * made it. Nothing is sampled.
 *
 *   hook/mmap.c → events → set of regions (regions.h) → counters of sites
 *
 * What counts
 * - A region is what one mmap call mapped, in whole pages, whatever backs it and whether or not it was ever touched. A
 *   hole cut into it makes two of it; it is gone with its last page.
 * - Memory stays charged to the stack that mapped it first: mremap moves, grows and shrinks a region under its owner.
 *   Where mremap makes a second mapping (old size 0, MREMAP_DONTUNMAP), its caller owns that one.
 * - MAP_FIXED and MREMAP_FIXED take away what was there before.
 * - Not seen: what libc maps for itself (its malloc's large blocks, thread stacks, stdio, libraries) and what the
 *   program's own allocator library maps: the heap profile tells of that. Nor brk, sbrk, shmat and raw system calls.
 *
 * What happens when something goes wrong is decided for the target: an event that finds no memory, or the lock held for
 * too long (mmap_lock.h), is lost and counted. ppa_mmap_check, before a snapshot, drops regions whose addresses are not mapped any
 * more. */
#ifndef PPA_HEAP_MMAP_H
#define PPA_HEAP_MMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/heap/regions.h"
#include "agent/profile/sites.h"

/* Counters of a site. */
enum { PPA_MMAP_MAPS_MADE, PPA_MMAP_BYTES_MADE, PPA_MMAP_MAPS_GONE, PPA_MMAP_BYTES_GONE };

/* The label of a site: what backs its memory. */
enum ppa_mmap_backing { PPA_MMAP_ANONYMOUS, PPA_MMAP_FILE };

/* ---- for snapshots ---- */

extern struct ppa_sites ppa_mmap_sites;

/* What is mapped now. */
struct ppa_mmap_values {
	int64_t maps, bytes;
};

/* Read a site's counters; never negative. Context: server. */
struct ppa_mmap_values ppa_mmap_read(const struct ppa_site *s) PPA_CTX_SERVER;

struct ppa_mmap_state {
	bool is_on;
	bool is_hidden;		 /* another library's mmap comes before ours: nothing is seen */
	uint64_t regions, bytes; /* mapped now */
	uint64_t events;	 /* regions entered since the start */
	uint64_t lost;		 /* events that could not be entered */
	uint64_t dropped;	 /* bytes that a check found gone, though nobody had told */
};

/* Context: any. */
struct ppa_mmap_state ppa_mmap_get_state(void) PPA_CTX_ANY;

/* Compare with /proc/self/maps and drop what is not mapped any more. 0, or -errno when the file cannot be read (what it did
 * not tell of stays). To be called before a snapshot. Context: server. */
int ppa_mmap_check(void) PPA_CTX_SERVER;

/* "anonymous" or "file". */
const char *ppa_mmap_backing_name(uint64_t label) PPA_CTX_SERVER;

/* Addresses where nothing is mapped. */
struct ppa_mmap_gap {
	uintptr_t start, end;
};

/* Drop what is recorded in the gaps and is older than `before`. For ppa_mmap_check. Context: server. */
void ppa_mmap_drop(const struct ppa_mmap_gap *gaps, size_t n, uint64_t before) PPA_CTX_SERVER;

/* ---- for the hooks ---- */

/* Is the program's memory being recorded? Context: any. */
bool ppa_mmap_is_on(void) PPA_CTX_ANY;

/* mmap gave [start, start + len), by a call that returns to caller. Context: any, in signal handlers, too. */
void ppa_mmap_mapped(uintptr_t start, size_t len, int flags, uintptr_t caller) PPA_CTX_MALLOC;

/* Before munmap: the time to give to unmapped after it. What others map there meanwhile stays. Context: any. */
uint64_t ppa_mmap_now(void) PPA_CTX_MALLOC;
void ppa_mmap_unmapped(uintptr_t start, size_t len, uint64_t before) PPA_CTX_MALLOC;

/* mremap, in two acts. What was at the old addresses is remembered before the call, because another thread may map
 * something there before end comes. When mremap fails there is no end. */
enum { PPA_MMAP_PIECES = 8 };
struct ppa_mmap_move {
	uintptr_t start, end; /* the old addresses */
	uint64_t before;
	bool is_known; /* the pieces are all there were */
	uint32_t npieces;
	struct ppa_region piece[PPA_MMAP_PIECES];
};
void ppa_mmap_move_begin(struct ppa_mmap_move *m, uintptr_t start, size_t len) PPA_CTX_MALLOC;
void ppa_mmap_move_end(const struct ppa_mmap_move *m, uintptr_t start, size_t len) PPA_CTX_MALLOC;

/* mremap left the old mapping where it was and made a second one. Context: any. */
void ppa_mmap_copied(const struct ppa_mmap_move *m, uintptr_t start, size_t len, uintptr_t caller) PPA_CTX_MALLOC;

/* ---- life ---- */

/* Begin to record. 0 or -ENOMEM (nothing is recorded then). Context: init. */
int ppa_mmap_start(void) PPA_CTX_INIT;

/* Around fork, on the forking thread, in the parent and in the child; what before says is for after. The child goes on
 * with the parent's regions. In the child of a raw clone, which does not pass here, nothing is recorded. Context: any. */
bool ppa_mmap_before_fork(void) PPA_CTX_ANY;
void ppa_mmap_after_fork(bool before, bool is_child) PPA_CTX_ANY;

#endif
