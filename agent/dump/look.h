/* SPDX-License-Identifier: Apache-2.0
 *
 * A look at one thread of this process from outside, which it does not notice: does it sleep, in which system call, and
 * on which stack? From /proc/self/task/TID/syscall and bounded reads of its stack.
 *
 * Whether a thread slept all the time is told by its CPU clock, which counts nanoseconds and stands still exactly then:
 * what was read between two equal readings belongs together.
 *
 * Of a process that gave up its privileges (a daemon's setuid) the kernel keeps that file to root. What is left is its
 * letter for each thread, and what threads told themselves before they went to sleep inside a wrapper of ours. */
#ifndef PPA_DUMP_LOOK_H
#define PPA_DUMP_LOOK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/base/attr.h"
#include "unwind/walk/unwind.h"

struct ppa_thread;

enum ppa_look_kind {
	PPA_LOOK_GONE,	     /* it has ended */
	PPA_LOOK_RUNNING,    /* or is about to */
	PPA_LOOK_ASLEEP,     /* everything is known */
	PPA_LOOK_UNREADABLE, /* nobody says where it stands */
};

struct ppa_look {
	enum ppa_look_kind kind;
	uint64_t cpu_ns;  /* of its CPU clock at this look */
	bool is_asleep;	  /* ASLEEP, and UNREADABLE where the kernel's letter says so */
	long syscall_nr;  /* of a sleeper; -1: none, it waits for a page or is stopped, or not known */
	uintptr_t pc, sp; /* of an ASLEEP one; 0: not known */
};

/* The CPU clock of a thread; 0: it has ended. Context: server. */
static inline uint64_t ppa_look_clock(pid_t tid) PPA_CTX_SERVER;

/* Where looks read from: open files, in the descriptor table of our threads. */
struct ppa_look_files {
	int task;		      /* /proc/self/task */
	int mem;		      /* /proc/self/mem, where it is needed; else -1 */
	pid_t reader;		      /* who opened them, and lives as long as they are open */
	struct ppa_text_lines *lines; /* set by whoever has some, for his own looks alone; NULL after opening */
};

/* 0 or -errno; without, every living thread is unreadable. Context: server. */
int ppa_look_open(struct ppa_look_files *f) PPA_CTX_SERVER;
void ppa_look_close(struct ppa_look_files *f) PPA_CTX_SERVER;

/* Look, and walk the stack of a sleeper into buf. t: its slot, NULL if it has none. A thread that
 * moves whenever it is looked at is taken for a running one. Context: server. */
void ppa_look(const struct ppa_look_files *f, pid_t tid, const struct ppa_thread *t, struct ppa_look *out,
	      struct ppa_unwind_buf *buf) PPA_CTX_SERVER;

/* Read /proc/self/task/TID/name into buf, terminated; its length, or -errno. Context: server. */
long ppa_look_file(const struct ppa_look_files *f, pid_t tid, const char *name, char *buf, size_t cap) PPA_CTX_SERVER;

/* The kernel's letter for what a thread does, '?' if it does not say, and the thread's name, which is left as it is then.
 * name: of cap bytes, or NULL. Context: server. */
char ppa_look_letter(const struct ppa_look_files *f, pid_t tid, char *name, size_t cap) PPA_CTX_SERVER;

/* The kernel's function that a thread sleeps in, empty where it does not say. Context: server. */
enum { PPA_LOOK_CHANNEL_MAX = 128 };
void ppa_look_channel(const struct ppa_look_files *f, pid_t tid, char out[static PPA_LOOK_CHANNEL_MAX]) PPA_CTX_SERVER;

/* ---- inline part ---- */

#include "agent/base/sys.h"

static inline uint64_t ppa_look_clock(pid_t tid)
{
	return ppa_sys_clock_ns(ppa_sys_thread_clock(tid));
}

#endif
