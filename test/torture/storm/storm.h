/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the storm: prober.c interrupts and unwinds, work_*.c are what is interrupted, ../storm.c starts, watches
 * and judges. */
#ifndef STORM_H
#define STORM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum storm_unwinder {
	STORM_OURS,	     /* ppa_unwind_context */
	STORM_UNW_BACKTRACE, /* stock libunwind, which must deadlock */
	STORM_UNW_STEP,
	STORM_NONE, /* the signals alone */
};

/* ---- prober.c ---- */

struct storm_prober;

/* Choose the unwinder and install the handler. 0, or a message is printed. */
int storm_prober_init(enum storm_unwinder unwinder);

/* From now until stop the calling thread is interrupted about hz times a second of real time, and each time its stack is
 * walked. kind: index of the work, for the figures. */
struct storm_prober *storm_prober_start(unsigned kind);
void storm_prober_stop(struct storm_prober *p);

/* Around fork, as the agent does it: a clone that lasts longer than a period would be restarted for ever. The child
 * passes is_child and has no timer then. */
void storm_prober_hold(void);
void storm_prober_release(int is_child);

/* dlclose with the walker told, as the agent's hook does it. */
void storm_dlclose(void *handle);

/* Keep the walker's module table fresh; one thread calls it now and then. */
void storm_refresh(void);

/* The signal, for masks that must be as the agent's hooks make them. */
enum { STORM_SIGNAL = 38 };

uint64_t storm_walks(void);
uint64_t storm_private_heap_bytes(void);

/* Print how the walks ended, for each work. Returns the share of complete stacks in thousandths. */
unsigned storm_prober_report(const char *const *names, unsigned nkinds);

/* The small stacks are so many times as large: 1 but for libunwind. */
extern unsigned storm_stack_factor;

/* ---- work ---- */

struct storm_work {
	const char *name;
	void (*once)(unsigned round); /* some 0.1 to 10 ms */
	void (*prepare)(void);	      /* on the thread, before the first round; may be NULL */
};

void storm_load_libraries(unsigned round);
void storm_iterate_libraries(unsigned round);
void storm_allocate(unsigned round);
void storm_make_threads(unsigned round);
void storm_fork(unsigned round);
void storm_jump(unsigned round);
void storm_run_fibers(unsigned round);
void storm_prepare_fibers(void);
void storm_use_altstack(unsigned round);
void storm_prepare_altstack(void);
void storm_throw(unsigned round);

/* Throw through depth frames and catch; returns what was thrown. */
int storm_throw_through(int depth);

/* Arithmetic in a recursion of small frames. */
unsigned storm_recurse(int depth, unsigned rounds);

/* Print and end the program at once, with status 2. */
void storm_broken(const char *what) __attribute__((noreturn));

/* The directory of this program's libraries, with a slash at the end. */
extern char storm_dir[4096];

#ifdef __cplusplus
}
#endif

#endif
