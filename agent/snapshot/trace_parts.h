/* SPDX-License-Identifier: Apache-2.0
 *
 * The growing arrays behind a trace's input: threads and their records, stacks, texts, and what is matched at the end.
 * Nobody but trace_build.c includes this. What cannot be had for lack of memory is left out, and finish says so. */
#ifndef PPA_SNAPSHOT_TRACE_PARTS_H
#define PPA_SNAPSHOT_TRACE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/snapshot/past.h"
#include "agent/snapshot/trace_build.h"
#include "agent/snapshot/trace_wakers.h"

struct ppa_dump_thread;
struct ppa_picture;
struct ppa_site;
struct ppa_trace_track;

/* A thread of the trace. */
struct ppa_trace_entry {
	struct ppa_trace_thread out;
	struct ppa_trace_piece piece;
	char name[16];
	uint64_t key;			     /* ppa_threads_key; UINT64_MAX: unknown */
	const struct ppa_trace_track *track; /* NULL: it recorded nothing */
	const struct ppa_dump_thread *before, *after;
	uint64_t first_ns, last_ns; /* signs of life; UINT64_MAX and 0: none */
	struct ppa_trace_record *records;
	size_t n, cap;
	uint32_t next_of_tid, next_of_key; /* in their chains: index + 1 */
};

/* A thread was created. */
struct ppa_trace_birth {
	uint64_t key, at_ns;
	uint32_t creator_tid, stack;
};

/* Where a record is, as arrays grow. */
struct ppa_trace_place {
	uint32_t entry, record;
};

enum { PPA_TRACE_BUCKETS = 1 << 12 };

struct ppa_trace_stack_memo {
	const struct ppa_site *site; /* NULL: empty */
	uint32_t stack;
};

struct ppa_trace_build {
	struct ppa_trace_input input; /* first: whoever has it has this */
	const struct ppa_trace_window *window;
	struct ppa_picture *picture;
	struct ppa_snapshot *snapshot; /* what became of it */
	struct ppa_past past;
	uint32_t nstacks;
	struct ppa_trace_stack_memo *memos; /* open addressing */
	size_t nmemos, memos_cap;

	struct ppa_trace_entry **entries;
	size_t nentries, entries_cap;
	uint32_t by_tid[PPA_TRACE_BUCKETS], by_key[PPA_TRACE_BUCKETS]; /* index + 1 */
	struct ppa_trace_thread *threads;
	struct ppa_trace_counter *counters;

	struct ppa_trace_birth *births;
	size_t nbirths, births_cap;
	struct ppa_trace_wake *wakes;
	size_t nwakes, wakes_cap;
	struct ppa_trace_want *wants;
	struct ppa_trace_place *places; /* of the wants */
	size_t nwants, wants_cap, places_cap;

	char **texts;
	size_t ntexts, texts_cap;
	uint32_t *text_places; /* open addressing, index + 1 */
	size_t text_places_cap;
	int err;
};

/* NULL on no memory. Context: server. */
struct ppa_trace_build *ppa_trace_parts_new(const struct ppa_trace_window *w) PPA_CTX_SERVER;
void ppa_trace_parts_free(struct ppa_trace_build *b) PPA_CTX_SERVER;

/* Make the input of what was added. 0 or -ENOMEM. Context: server. */
int ppa_trace_parts_finish(struct ppa_trace_build *b) PPA_CTX_SERVER;

/* A new thread; NULL on no memory. Context: server. */
struct ppa_trace_entry *ppa_trace_entry_new(struct ppa_trace_build *b, uint32_t tid, uint64_t key) PPA_CTX_SERVER;

/* The thread of this key, or else of this tid that lives at this time, or else a new one. Context: server. */
struct ppa_trace_entry *ppa_trace_entry_of(struct ppa_trace_build *b, uint32_t tid, uint64_t key,
					   uint64_t at_ns) PPA_CTX_SERVER;

/* NULL: there is none. first: of this tid, that was there at the window's beginning; last: that is there at its end, or
 * else the one that ended last. Context: server. */
struct ppa_trace_entry *ppa_trace_entry_of_key(const struct ppa_trace_build *b, uint64_t key) PPA_CTX_SERVER;
struct ppa_trace_entry *ppa_trace_entry_first(const struct ppa_trace_build *b, uint32_t tid) PPA_CTX_SERVER;
struct ppa_trace_entry *ppa_trace_entry_last(const struct ppa_trace_build *b, uint32_t tid) PPA_CTX_SERVER;

void ppa_trace_add_record(struct ppa_trace_build *b, struct ppa_trace_entry *e,
			  const struct ppa_trace_record *r) PPA_CTX_SERVER;
void ppa_trace_add_birth(struct ppa_trace_build *b, const struct ppa_trace_birth *birth) PPA_CTX_SERVER;
void ppa_trace_add_wake(struct ppa_trace_build *b, const struct ppa_trace_wake *w) PPA_CTX_SERVER;

/* For record number record of e, which comes next. Context: server. */
void ppa_trace_add_want(struct ppa_trace_build *b, const struct ppa_trace_want *w, const struct ppa_trace_entry *e,
			size_t record) PPA_CTX_SERVER;

/* Match wants and wakes; found gets a struct ppa_trace_place. Context: server. */
void ppa_trace_match_all(struct ppa_trace_build *b,
			 void (*found)(void *place, uint64_t at_ns, uint32_t tid, uint32_t stack)) PPA_CTX_SERVER;

/* The stack's id; 0 for NULL, and on no memory. Context: server. */
uint32_t ppa_trace_stack_of_site(struct ppa_trace_build *b, const struct ppa_site *s) PPA_CTX_SERVER;
uint32_t ppa_trace_stack_of_pcs(struct ppa_trace_build *b, const uintptr_t *pcs, uint32_t npcs) PPA_CTX_SERVER;

/* The text's id; 0 for "", and on no memory. Context: server. */
uint32_t ppa_trace_parts_text(struct ppa_trace_build *b, const char *text) PPA_CTX_SERVER;

#endif
