/* SPDX-License-Identifier: Apache-2.0
 *
 * A dump: every thread of the target at about one moment, with its name, what it does and its stack. Sleepers are read
 * from outside, runners asked (see thread/ask.h); nobody is woken or stopped, so the picture is one of each thread, not
 * one of all at the same instant. */
#ifndef PPA_DUMP_DUMP_H
#define PPA_DUMP_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/base/attr.h"
#include "agent/thread/parked.h"
#include "agent/thread/threads.h"

struct ppa_site;

enum { PPA_DUMP_NAME_BYTES = 16, PPA_DUMP_STATE_BYTES = 64 };

struct ppa_dump_thread {
	pid_t tid;
	char name[PPA_DUMP_NAME_BYTES];	  /* zero-padded */
	char state[PPA_DUMP_STATE_BYTES]; /* for people; empty unless asked for */
	uint64_t asleep_ns;		  /* for how long at least; 0 if unknown */
	const struct ppa_site *creator;	  /* NULL if unknown */
	pid_t creator_tid;		  /* 0 if unknown */
	uint32_t tags;			  /* labels that its code set: profile/tags.h */
	bool is_main;
	/* as it was looked at last */
	bool is_asleep;
	bool is_parked;		  /* asleep in a wrapper of ours: what it said */
	bool is_whole;		  /* its stack reaches its start */
	long syscall_nr;	  /* of a sleeper, -1: none */
	uint64_t seen_ns, cpu_ns; /* when, and its CPU clock then */
	struct ppa_parked_copy parked;
	size_t first_pc; /* index into the dump's pcs, leaf first; by the address rule of profile.proto */
	uint32_t npcs;	 /* at least 1: where there is no stack, a marker */
	/* while the dump is made */
	struct ppa_thread *slot;
	int question;	  /* of ask.h, -1: none */
	uint8_t reader;	  /* whose pcs first_pc means, */
	bool is_gathered; /* or already the dump's */
};

struct ppa_dump {
	struct ppa_dump_thread *threads; /* in the kernel's order, which is mostly that of their numbers */
	size_t nthreads;
	uintptr_t *pcs;
	size_t npcs;
	size_t nours;		  /* threads of the agent, left out */
	size_t nunanswered;	  /* threads that ran and did not answer in time */
	size_t nunreadable;	  /* sleepers that the kernel shows nothing of */
	size_t nincomplete;	  /* stacks that do not reach the thread's start */
	uint64_t took_ns, cpu_ns; /* of the clock, and of all who read */
	uint64_t named_ns;	  /* since when names of those that did not move are taken from the dump before */
	uint32_t nrenamed;	  /* thread/renamed.h, then */
	int err;		  /* 0 or -errno; what could not be had is missing */
};

/* The thread of this number, near this place of the list, or where it belongs if numbers have not begun anew since the
 * first. NULL if it is not found there. Context: server. */
const struct ppa_dump_thread *ppa_dump_find(const struct ppa_dump *d, pid_t tid, size_t place) PPA_CTX_SERVER;

struct ppa_dump_wish {
	bool with_states; /* find out what each thread waits for, too, which takes longer */
	/* Called at most once, where some of those that run have not had their turn to answer yet, with what there is so far:
	 * threads whose npcs is 0 are still missing, and all keep their place. What it costs is not in cpu_ns. NULL: never. */
	void (*meanwhile)(void *arg, const struct ppa_dump *so_far);
	void *arg;
};

/* Take one. wish: NULL for stacks and names alone. Module table and unwinder are ready. To be given to ppa_dump_free also
 * after an error. Context: server; waits for another dump to end. */
int ppa_dump_take(const struct ppa_dump_wish *wish, struct ppa_dump *out) PPA_CTX_SERVER;
void ppa_dump_free(struct ppa_dump *d) PPA_CTX_SERVER;

/* The last one is kept, for the next to find who has not moved since. Forget it. Context: server. */
void ppa_dump_trim(void) PPA_CTX_SERVER;

/* How many threads the target has. Context: server. */
uint64_t ppa_dump_count(void) PPA_CTX_SERVER;

/* Context: child. */
void ppa_dump_reset(void) PPA_CTX_CHILD;

#endif
