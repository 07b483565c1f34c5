/* SPDX-License-Identifier: Apache-2.0
 *
 * libbacktrace's memory, ours instead of its mmap.c: the same five functions on the private heap.
 * The linker takes these first and never opens the archive's own. What libbacktrace allocates
 * belongs to the arena it was entered with and dies with that, because it leaks on errors (found by
 * fuzzing) and never frees its state. Declared here in full: its internal.h is installed by no
 * package and its backtrace.h lies where only gcc looks. */
#ifndef PPA_UNWIND_NAME_BT_ALLOC_H
#define PPA_UNWIND_NAME_BT_ALLOC_H

#include <stddef.h>

#include "agent/base/attr.h"

enum { PPA_BT_MAX_BYTES = 64 << 20 }; /* one block's */

struct ppa_bt_block;

/* Everything libbacktrace holds for one purpose. Zero is an empty arena; ppa_bt_drop ends it. */
struct ppa_bt_arena {
	struct ppa_bt_block *blocks;
};

/* From enter to leave libbacktrace may be called, and what it allocates is a's. One thread at a
 * time: enter waits. Context: server. */
void ppa_bt_enter(struct ppa_bt_arena *a) PPA_CTX_SERVER;
void ppa_bt_leave(void) PPA_CTX_SERVER;

/* Free all that the arena holds; not between enter and leave. Context: server. */
void ppa_bt_drop(struct ppa_bt_arena *a) PPA_CTX_SERVER;

/* Forget a thread that was inside. Context: child. */
void ppa_bt_reset(void) PPA_CTX_CHILD;

struct backtrace_state;
typedef void (*backtrace_error_callback)(void *data, const char *message, int errnum);

/* A growing array. The layout is libbacktrace's: base, bytes used, bytes free behind them. */
struct backtrace_vector {
	void *base;
	size_t size;
	size_t alc;
};

/* A block, or NULL after error_callback (which may be NULL). Context: server. */
void *backtrace_alloc(struct backtrace_state *state, size_t size, backtrace_error_callback error_callback,
		      void *data) PPA_CTX_SERVER;

/* Context: server. */
void backtrace_free(struct backtrace_state *state, void *mem, size_t size, backtrace_error_callback error_callback,
		    void *data) PPA_CTX_SERVER;

/* size more bytes at the end of the vector, NULL on failure. Context: server. */
void *backtrace_vector_grow(struct backtrace_state *state, size_t size, backtrace_error_callback error_callback,
			    void *data, struct backtrace_vector *vec) PPA_CTX_SERVER;

/* The finished array, which becomes the caller's; the vector is empty again. Context: server. */
void *backtrace_vector_finish(struct backtrace_state *state, struct backtrace_vector *vec,
			      backtrace_error_callback error_callback, void *data) PPA_CTX_SERVER;

/* Give back what is not used. 1, or 0 on failure. Context: server. */
int backtrace_vector_release(struct backtrace_state *state, struct backtrace_vector *vec,
			     backtrace_error_callback error_callback, void *data) PPA_CTX_SERVER;

#endif
