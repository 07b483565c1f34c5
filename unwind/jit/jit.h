/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of code that the program generated itself, from what its runtime tells perf: /tmp/perf-PID.map (node
 * --perf-basic-prof, python -X perf, JVM agents and jcmd) and jit-PID.dump (node --perf-prof, JVM agents).
 *
 * The perf map's PID is the process's as it sees itself, in its innermost namespace; the dump is found because its writer
 * maps its first page executable, to be seen by perf. Either is used only if it is a regular file of our own user and no
 * symbolic link, because anybody may put a file into /tmp: perf's rule, too. Files only grow; what was read is not read
 * again before ppa_jit_trim. One that was replaced is read anew, and with it all others.
 *
 * One meaning of an address at a time: the newest. */
#ifndef PPA_UNWIND_JIT_JIT_H
#define PPA_UNWIND_JIT_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/jit/jit_words.h"

/* Bytes that names may take, at most; full: see codemap.h. Context: init. */
void ppa_jit_set_limit(uint64_t bytes) PPA_CTX_INIT;

/* Read what the runtimes have told since the last time, unless that was less than max_age_ns ago: a few system calls and
 * /proc/self/maps if there is nothing new. Context: server. */
void ppa_jit_refresh(uint64_t max_age_ns) PPA_CTX_SERVER;

/* What is known of generated code at an address outside every library, as of the last refresh. buf holds the words,
 * PPA_JIT_WORDS_BYTES for whole ones; *start is the first byte of the code. false: nothing. Context: server. */
bool ppa_jit_find(uintptr_t pc, char *buf, size_t cap, struct ppa_jit_words *out, uintptr_t *start) PPA_CTX_SERVER;

/* What of the files is not known, for the profile's comments. */
struct ppa_jit_gaps {
	uint64_t forgotten;   /* pieces of code, for want of room */
	uint64_t passed_over; /* bytes at the beginning of a perf map too large to be read */
	bool is_foreign;      /* there is a perf map, but it is not our user's own regular file */
};
void ppa_jit_gaps(struct ppa_jit_gaps *out) PPA_CTX_SERVER;

/* Bytes held now. Context: server. */
uint64_t ppa_jit_bytes(void) PPA_CTX_SERVER;

/* Drop it all; the next refresh reads the files from the beginning. Context: server. */
void ppa_jit_trim(void) PPA_CTX_SERVER;

/* Forget lock and memory in the child of a fork. Context: child. */
void ppa_jit_reset(void) PPA_CTX_CHILD;

#endif
