/* SPDX-License-Identifier: Apache-2.0
 *
 * Synthetic frames: what a sample is charged to when it has no stack of its own. As in Go's runtime, each is a real
 * function that nobody calls, so that its address is unique, non-zero, and lies in a mapping of the profile. */
#ifndef PPA_PROFILE_MARKER_H
#define PPA_PROFILE_MARKER_H

#include <stdint.h>

#include "agent/base/attr.h"

enum ppa_marker {
	PPA_MARKER_BLOCKED,	    /* CPU time with our signal blocked */
	PPA_MARKER_EXIT,	    /* CPU time of ended threads between their last sample and their end */
	PPA_MARKER_NOT_SAMPLED,	    /* CPU time of threads without a timer */
	PPA_MARKER_LOST,	    /* samples dropped in the agent */
	PPA_MARKER_OTHER,	    /* stacks beyond the memory limit */
	PPA_MARKER_AGENT,	    /* nothing but frames of the agent: the cost of profiling itself */
	PPA_MARKER_UNKNOWN_HOLDER,  /* waiting for a lock whose release was not seen */
	PPA_MARKER_RUNNING,	    /* a thread that ran and could not be asked where */
	PPA_MARKER_NO_STACK,	    /* a thread that the kernel shows nothing of */
	PPA_MARKER_MAIN,	    /* creator of the first thread */
	PPA_MARKER_UNKNOWN_CREATOR, /* of threads that no call we saw created */
	PPA_MARKER_IO,		    /* waiting for something else than a lock */
	PPA_MARKER_COUNT
};

uintptr_t ppa_marker_address(enum ppa_marker m) PPA_CTX_SIGNAL;

/* "[lost samples]" for a marker's address, NULL for any other. Context: any. */
const char *ppa_marker_name(uintptr_t address) PPA_CTX_ANY;

#endif
