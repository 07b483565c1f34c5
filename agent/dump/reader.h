/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading one thread for a dump: what it is called and does, and its stack, if it sleeps. Several readers work on the
 * threads of one dump, each with a walk's memory and a heap of stacks of its own. */
#ifndef PPA_DUMP_READER_H
#define PPA_DUMP_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/base/attr.h"
#include "agent/dump/dump.h"
#include "agent/dump/look.h"
#include "agent/profile/marker.h"
#include "unwind/walk/unwind.h"

/* What all readers of a dump have in common. */
struct ppa_dump_setup {
	struct ppa_look_files files;
	bool with_states;
	bool may_ask; /* our signal's handler is there */
	pid_t pid;
	const struct ppa_dump *last; /* an earlier one, which stays while this is made; NULL: none */
	bool keeps_names;	     /* nobody has named another since that one */
};

struct ppa_dump_reader {
	struct ppa_dump_setup setup;
	uint8_t number;
	/* what it found, besides what stands at the threads */
	uintptr_t *pcs;
	size_t npcs, cap;
	size_t ngathered; /* of them the dump has these */
	size_t nincomplete;
	int err; /* 0 or -ENOMEM: stacks are missing */
	/* memory of its looks */
	struct ppa_unwind_buf walk;
	struct ppa_text_lines lines;
};

/* On the private heap, with room for npcs frames and for more as they come: while mappings change, other readers
 * wait. NULL on no memory. Context: server. */
struct ppa_dump_reader *ppa_dump_reader_new(const struct ppa_dump_setup *setup, uint8_t number,
					    size_t npcs) PPA_CTX_SERVER;

/* NULL is allowed. Context: server. */
void ppa_dump_reader_free(struct ppa_dump_reader *r) PPA_CTX_SERVER;

/* Fill in t, which is zeroed; whoever runs is asked for its stack and has none yet. t->tid stays 0 if the thread has
 * ended. place: on the list of threads. slot: NULL if it has none. Context: server. */
void ppa_dump_read(struct ppa_dump_reader *r, pid_t tid, size_t place, struct ppa_thread *slot,
		   struct ppa_dump_thread *t) PPA_CTX_SERVER;

/* It did not answer: it is asleep by now, or remains without a stack. Context: server. */
enum ppa_look_kind ppa_dump_read_again(struct ppa_dump_reader *r, struct ppa_dump_thread *t) PPA_CTX_SERVER;

/* Its stack is this. Context: server. */
void ppa_dump_put_walk(struct ppa_dump_reader *r, struct ppa_dump_thread *t,
		       const struct ppa_unwind_buf *w) PPA_CTX_SERVER;
void ppa_dump_put_marker(struct ppa_dump_reader *r, struct ppa_dump_thread *t, enum ppa_marker m) PPA_CTX_SERVER;

#endif
