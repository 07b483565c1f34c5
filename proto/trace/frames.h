/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks as viewers of traces want them: inlined functions unfolded, libc's frames below a thread's start routine cut off, all
 * stacks of a thread ending in the same function, no frame without a name, a file and a line, 128 frames at most. */
#ifndef PPA_PROTO_TRACE_FRAMES_H
#define PPA_PROTO_TRACE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "agent/snapshot/trace_input.h"

enum {
	PPA_TRACE_MAX_FRAMES = 128,
	/* Instead of a stack id: one frame that stands for our own threads, and for a start routine nobody knows. */
	PPA_TRACE_STACK_AGENT = UINT32_MAX,
	PPA_TRACE_STACK_UNKNOWN = UINT32_MAX - 1,
};

/* Texts are never empty, and live as long as the input. */
struct ppa_trace_frame {
	uint64_t pc; /* unique for the other three, never 0 */
	const char *function, *file;
	uint64_t line;	  /* at least 1 */
	uint32_t mapping; /* index into stacks->mappings, or PPA_SNAPSHOT_NO_MAPPING */
};

/* The frames of a stack, innermost first, into frames[PPA_TRACE_MAX_FRAMES]; returns how many, 0 for stack 0. root: the stack whose
 * first frame is the start routine of the thread that the stack is of; 0: unknown. Context: server. */
size_t ppa_trace_frames(const struct ppa_trace_input *in, uint32_t stack, uint32_t root,
			struct ppa_trace_frame *frames) PPA_CTX_SERVER;

/* Into frames[0] the last frame alone of what ppa_trace_frames gives, or of root if stack is 0; the other places are
 * written to, too. 0 or 1. Context: server. */
size_t ppa_trace_frames_root(const struct ppa_trace_input *in, uint32_t stack, uint32_t root,
			     struct ppa_trace_frame *frames) PPA_CTX_SERVER;

/* May the writers begin: does the window have a length, does every index within the stacks lead somewhere?
 * Context: server. */
bool ppa_trace_is_sound(const struct ppa_trace_input *in) PPA_CTX_SERVER;

#endif
