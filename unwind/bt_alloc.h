/* SPDX-License-Identifier: Apache-2.0
 *
 * libbacktrace's memory, ours instead of its mmap.c: the same five functions on the private heap, where everything can
 * be freed and counted. The linker takes these first and never opens the archive's own. Declared here in full, because
 * libbacktrace's internal.h is installed by no package and its backtrace.h lies where only gcc looks. */
#ifndef PPA_UNWIND_BT_ALLOC_H
#define PPA_UNWIND_BT_ALLOC_H

#include <stddef.h>

#include "agent/base/attr.h"

enum { PPA_BT_MAX_BYTES = 64 << 20 }; /* one block's */

struct backtrace_state;
typedef void (*backtrace_error_callback)(void *data, const char *message, int errnum);

/* A growing array. The layout is libbacktrace's: base, bytes used, bytes free behind them. */
struct backtrace_vector {
	void *base;
	size_t size;
	size_t alc;
};

/* A block, or NULL after error_callback (which may be NULL). Context: server. */
void *backtrace_alloc(struct backtrace_state *state, size_t size, backtrace_error_callback error_callback, void *data)
	PPA_CTX_SERVER;

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
