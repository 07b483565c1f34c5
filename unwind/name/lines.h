/* SPDX-License-Identifier: Apache-2.0
 *
 * Files, lines and inlined calls of addresses: the answers of the DWARF reader, kept by file, and the thread that asks it.
 *
 * A request says which addresses of a module it has and until when it would wait. What is not known yet is read by a thread
 * of ours, which exists only while there is something to read; who does not want to wait any longer goes without, and the
 * answers are there for the next request. Answers are dropped by ppa_lines_trim, and when they outgrow the limit. */
#ifndef PPA_UNWIND_NAME_LINES_H
#define PPA_UNWIND_NAME_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/module/modules.h"
#include "unwind/name/dwarf.h"

/* What was not to be had, added up over several calls. */
struct ppa_lines_report {
	uint32_t nlate;	    /* addresses that are still being looked for */
	bool has_split;	    /* functions of some units are in .dwo files */
	bool has_no_memory; /* the limit was reached */
	bool is_too_large;  /* compressed sections beyond the limit */
	bool is_unreadable; /* compressed in a way that we do not know */
};

/* How much answers may take, and as much again compressed sections while they are read. Context: init. */
void ppa_lines_set_limit(size_t bytes) PPA_CTX_INIT;

/* Find pcs (runtime addresses in m) and call found for each that something is known of, under the lock of this module: it may
 * not come back. deadline_ns is of CLOCK_MONOTONIC. Context: server. */
void ppa_lines_resolve(const struct ppa_module *m, const uintptr_t *pcs, size_t n, uint64_t deadline_ns,
		       void (*found)(void *arg, size_t i, const struct ppa_line_frame *frames, uint32_t nframes),
		       void *arg, struct ppa_lines_report *report) PPA_CTX_SERVER;

/* Bytes held now. Context: server. */
uint64_t ppa_lines_cached_bytes(void) PPA_CTX_SERVER;

/* Drop all answers; those that are being read as soon as they are there. Context: server. */
void ppa_lines_trim(void) PPA_CTX_SERVER;

/* Forget all in the child of a fork. Context: child. */
void ppa_lines_reset(void) PPA_CTX_CHILD;

#endif
