/* SPDX-License-Identifier: Apache-2.0
 *
 * What is loaded where. The server thread reads /proc/self/maps (no loader call, no loader lock; dl_iterate_phdr only
 * where /proc cannot be read), publishes an immutable table, and handlers search it without a lock. A table in use by
 * a handler is not freed before that handler is done.
 *
 * Around dlclose, whose victim is not known beforehand, handlers see only the modules that can never be unloaded and ask the loader's lock-free _dl_find_object, where glibc has it, for the rest.
 *
 * dlopen is not wrapped but only marked: the loader resolves RUNPATH by its caller's address, so the real one must be
 * reached by a tail call. The next refresh finds the new module; until then _dl_find_object serves. */
#ifndef PPA_UNWIND_MODULE_MODULES_H
#define PPA_UNWIND_MODULE_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

enum { PPA_BUILD_ID_MAX = 32 }; /* bytes; SHA-1 ids have 20 */

/* A loaded ELF object. Immutable once published, kept for ever by whoever holds a table reference. */
struct ppa_module {
	uint64_t serial;	/* never reused: a module that is unloaded and loaded again has a new one */
	const char *path;	/* as in maps, " (deleted)" removed; "[vdso]"; never NULL */
	bool deleted;		/* the path no longer names the mapped file */
	bool is_main;		/* the file of /proc/self/exe */
	bool is_agent;		/* this library */
	bool at_startup;	/* loaded for the program or for us: never unloaded */
	uint64_t dev, ino;	/* of the mapped file; 0 for the vdso */
	uintptr_t bias;		/* load address - link address: runtime pc = bias + symbol value */
	uintptr_t lo, hi;	/* extent of all its segments */
	uintptr_t eh_frame_hdr; /* runtime address; 0 if none */
	size_t eh_frame_hdr_len;
	uint8_t build_id[PPA_BUILD_ID_MAX];
	size_t build_id_len; /* 0 if the file has none */
};

/* One executable mapping, as /proc/self/maps shows it. */
struct ppa_text_segment {
	uintptr_t start, end;
	uint64_t file_offset;
	const struct ppa_module *module; /* never NULL */
};

/* An immutable picture. segs is sorted by start and does not overlap. */
struct ppa_module_table {
	uint64_t layout; /* grows whenever a module went away: equal layouts never give one address two meanings */
	size_t nsegs;
	const struct ppa_text_segment *segs;
};

/* Read the maps and publish, if anything changed since the last time. Cheap when nothing was marked and force is
 * false. Returns 0 or -errno (the old table stays). Context: server. */
int ppa_modules_refresh(bool force) PPA_CTX_SERVER;

/* The next refresh must look: a dlopen or an unknown pc was seen. Context: signal. */
void ppa_modules_mark(void) PPA_CTX_SIGNAL;

/* Hold the current table (never NULL after the first successful refresh) until release. Modules stay valid for as
 * long as any table that names them is held. Context: server. */
const struct ppa_module_table *ppa_modules_hold(void) PPA_CTX_SERVER;
void ppa_modules_release(const struct ppa_module_table *t) PPA_CTX_SERVER;

/* Keep the tables of layouts that end, for names of addresses that are remembered longer: those for which wanted says
 * yes when asked, on a server thread and under the table's lock; at most PPA_MODULES_PAST_MAX, the oldest dropped.
 * Context: init. */
enum { PPA_MODULES_PAST_MAX = 64 };
void ppa_modules_keep_past(bool (*wanted)(void)) PPA_CTX_INIT;

/* A table, and from when until when, by ppa_modules_unloads, it was seen to be true. */
struct ppa_module_era {
	const struct ppa_module_table *table;
	uint64_t from, until;
};

/* Hold the current table and the kept ones, newest first, to be released one by one; how many. Context: server. */
size_t ppa_modules_hold_all(struct ppa_module_era out[static 1 + PPA_MODULES_PAST_MAX]) PPA_CTX_SERVER;

/* The segment of a held table that contains pc, or NULL. Context: server. */
const struct ppa_text_segment *ppa_modules_lookup(const struct ppa_module_table *t, uintptr_t pc) PPA_CTX_SERVER;

/* What the walker needs to know of the code at a pc. Valid until ppa_modules_read_end. */
struct ppa_code {
	uintptr_t lo, hi; /* text segment around pc */
	uintptr_t eh_frame_hdr;
	size_t eh_frame_hdr_len;  /* may be more than the section: the loader does not say its end */
	uintptr_t cfi_lo, cfi_hi; /* readable extent of the module around eh_frame_hdr; .eh_frame lies inside */
	uint64_t serial;	  /* of the module; 0 when only the loader knows it */
	uint64_t epoch; /* what is learnt of pc holds as long as ppa_modules_epochs says so; 0: do not cache */
	bool stays;	/* never unloaded: [cfi_lo, cfi_hi) may be loaded from directly */
};

/* The epochs that code is known under now: of the modules that stay, of the rest (0 while an unload is not yet seen
 * through), and of what only the loader knows so far (0 while an unload runs). One address never has two meanings in one
 * epoch, so (pc, epoch) is a key for a cache that needs no module search. */
struct ppa_epochs {
	uint64_t stays, rest, loader;
};

/* Context: signal, inside the bracket. */
struct ppa_epochs ppa_modules_epochs(void) PPA_CTX_SIGNAL;

/* Bracket of every walk: between them no table is freed. Nest never. Context: signal. */
unsigned ppa_modules_read_begin(void) PPA_CTX_SIGNAL;
void ppa_modules_read_end(unsigned token) PPA_CTX_SIGNAL;

/* Find the code at pc; false if nobody knows it (the table is then marked). Context: signal, inside the bracket. */
bool ppa_modules_find(uintptr_t pc, struct ppa_code *out) PPA_CTX_SIGNAL;

/* Is pc in the text of a module of the table? Unlike find, asks nobody else and marks nothing: for numbers that are
 * probably no addresses. Context: signal, inside the bracket. */
bool ppa_modules_is_text(uintptr_t pc) PPA_CTX_SIGNAL;

/* Is pc in an executable mapping of the table that is no module's: generated code? Context: signal, inside the bracket. */
bool ppa_modules_is_foreign(uintptr_t pc) PPA_CTX_SIGNAL;

/* A clock of unloading: grows with every dlclose, before and after; even while one runs, unless several do.
 * Context: signal. */
uint64_t ppa_modules_unloads(void) PPA_CTX_SIGNAL;

/* Before and after the real dlclose. Any thread; nests. Before waits up to 10 ms for running walks. Context: any. */
void ppa_modules_unload_begin(void) PPA_CTX_ANY;
void ppa_modules_unload_end(void) PPA_CTX_ANY;

/* Forget other threads' holds and brackets in the child of a fork. Context: child. */
void ppa_modules_reset(void) PPA_CTX_CHILD;

#endif
