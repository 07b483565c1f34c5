/* SPDX-License-Identifier: Apache-2.0
 *
 * Where records are kept. Each thread has a track: a chain of chunks that it alone appends to. Chunks come from an arena
 * that is mapped while something is recorded; its pages are touched as they are filled. A record is some words; the
 * first says its length, before the rest is written, and that it is whole, afterwards. Reserving is one addition, so a
 * handler that interrupts a record may write its own, and whoever jumps out of it leaves a record behind that is never
 * whole.
 *
 * Full: the record is lost and counted; but before that, who records has the oldest ones taken back, because the newest
 * are what matters (ppa_trace_is_short). Only server threads take chunks back, and only such as no thread writes in: a
 * writer announces itself, in its slot, and then looks which chunk is the track's current one; who takes chunks back
 * changes that first, and looks at the slot a while later. A thread without a slot announces itself in the chunk. */
#ifndef PPA_TRACE_BUFFER_H
#define PPA_TRACE_BUFFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "agent/base/attr.h"

enum { PPA_TRACE_CHUNK_BYTES = 8192, PPA_TRACE_TRACKS_MAX = 16384, PPA_TRACE_RECORD_WORDS_MAX = 300 };

struct ppa_thread;
struct ppa_trace_chunk;

enum ppa_trace_entry_kind {
	PPA_ENTRY_NONE,
	PPA_ENTRY_WAIT,	   /* words: begin, end, site, object; extra: fd; flags: vain; sub: enum ppa_parked_kind */
	PPA_ENTRY_WAKE,	   /* at, site, object; flags: all */
	PPA_ENTRY_CREATED, /* at, site, key */
	PPA_ENTRY_EXIT,	   /* at, site, name of the thread (16 bytes) */
	PPA_ENTRY_NOTE,	   /* at, site, task, parent, two texts one behind the other; sub: enum ppa_trace_note */
};

enum { PPA_ENTRY_FLAG_VAIN = 1, PPA_ENTRY_FLAG_ALL = 2 };

/* The first word of a record. */
struct ppa_trace_head {
	uint16_t nwords; /* with this one; 0: nothing was ever reserved here */
	uint8_t kind;	 /* PPA_ENTRY_NONE: not whole (yet) */
	uint8_t sub : 6, flags : 2;
	int32_t extra;
};
_Static_assert(sizeof(struct ppa_trace_head) == 8, "one word");

/* A head of its parts, made in a register: stored part by part and loaded as a word, the load would have to wait until
 * all its stores have left the store buffer (a third of the price of a record was that). Context: any. */
static inline struct ppa_trace_head ppa_trace_head_of(size_t nwords, enum ppa_trace_entry_kind kind, unsigned sub,
						      unsigned flags, int32_t extra)
{
	uint64_t w = (uint64_t)nwords | (uint64_t)kind << 16 | (uint64_t)(sub & 0x3f) << 24 |
		     (uint64_t)(flags & 3) << 30 | (uint64_t)(uint32_t)extra << 32;
	struct ppa_trace_head head;

	memcpy(&head, &w, sizeof(head));
	return head;
}

/* One thread's part of a recording. */
struct ppa_trace_track {
	_Atomic uint32_t is_used;
	_Atomic uint32_t is_published;
	const void *_Atomic owner;		   /* the thread's ppa_self */
	_Atomic(struct ppa_trace_chunk *) current; /* NULL: closed */

	/* written by the thread before it is published */
	struct ppa_trace_chunk *first; /* oldest; the server's afterwards */
	const struct ppa_thread *slot; /* NULL: it has none */
	uint64_t key;		       /* ppa_threads_key; UINT64_MAX: it has no slot */
	pid_t tid;
	bool is_main;
	uintptr_t self;		 /* pthread_self */
	uintptr_t start_routine; /* 0: unknown */
	uint64_t begin_ns;	 /* when it was made */
	uint64_t cpu_ns;	 /* the thread's CPU clock then */

	/* written by the thread */
	_Atomic uint64_t born_ns;  /* 0: it was there before */
	_Atomic uint64_t ended_ns; /* 0: not yet */
	_Atomic uint64_t lost;	   /* records without room */
	_Atomic uint64_t short_left_out, short_left_out_ns;
	_Atomic uint64_t short_period_ns; /* when the present period began */
	_Atomic uint32_t short_recorded;  /* in it */
};

/* ---- the thread's side ---- */

/* This thread's track of the present recording, made if need be; NULL and counted if there is no room, or the thread
 * has ended. Context: malloc. */
struct ppa_trace_track *ppa_trace_track_mine(void) PPA_CTX_MALLOC;

/* Append a record: words of the head's number less one. Context: malloc. */
void ppa_trace_put(struct ppa_trace_track *t, struct ppa_trace_head head, const uint64_t *words) PPA_CTX_MALLOC;

/* ---- the server's side: one thread at a time ---- */

/* Map the arena for a new recording. bytes: what all records together may take. 0 or -ENOMEM. Context: server. */
int ppa_trace_buffer_open(uint64_t bytes) PPA_CTX_SERVER;

/* Touch the pages of the chunks that come next, twice as many as were taken since the last time: who records would wait
 * for the kernel to clear them, which takes longer than to write what fits (a record of 40 bytes: 42 ns in place of 18).
 * Context: server. */
void ppa_trace_buffer_touch(void) PPA_CTX_SERVER;

/* Nobody is told to record any more: close all tracks, wait for writers, give the memory back. Context: server. */
void ppa_trace_buffer_close(void) PPA_CTX_SERVER;

/* Visit the tracks; the records of one, oldest first. A record that is being written is left out.
 * Context: server. */
void ppa_trace_each_track(void (*visit)(struct ppa_trace_track *t, void *arg), void *arg) PPA_CTX_SERVER;
void ppa_trace_each_record(const struct ppa_trace_track *t,
			   void (*visit)(const struct ppa_trace_head *head, const uint64_t *words, void *arg),
			   void *arg) PPA_CTX_SERVER;

/* Is the arena nearly used up? Context: server. */
bool ppa_trace_is_short(void) PPA_CTX_SERVER;

/* Take back chunks that were full before this time; if the arena is nearly used up, half of those that are full. Tracks
 * of ended threads go with their last chunk. is_alive: does this thread still exist? Returns the time before which records
 * may be missing, 0 if none was taken. Context: server. */
uint64_t ppa_trace_recycle(uint64_t before_ns, bool (*is_alive)(pid_t tid)) PPA_CTX_SERVER;

/* Records for which not even a track could be had, in this recording. Context: server. */
uint64_t ppa_trace_lost(void) PPA_CTX_SERVER;

/* Context: child. */
void ppa_trace_buffer_reset(void) PPA_CTX_CHILD;

#endif
