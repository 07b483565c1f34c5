/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses to names, by our own reader of .symtab, .dynsym, .gnu_debugdata (through libbacktrace's LZMA decoder) and
 * the vdso in memory. On server threads only; files are read with pread into the private heap, never mapped (a file
 * truncated meanwhile would be SIGBUS in the target). Tables are cached by build id (else dev and ino) and dropped by
 * ppa_symbols_trim. Corrupt input gives fewer names, never a fault. */
#ifndef PPA_UNWIND_NAME_SYMBOLS_H
#define PPA_UNWIND_NAME_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/module/modules.h"

/* A symbol that contains an address. */
struct ppa_symbol {
	const char *name;  /* linker name (mangled); valid until ppa_symbols_trim */
	uintptr_t address; /* runtime address of its first byte */
	uint64_t size;	   /* bytes; 0 if the table does not say */
};

/* The function of module m that contains pc (a lookup address: exact leaf or return address - 1). Loads the module's
 * table on first use. 0, or -ENOENT when nothing names it, or -errno of the reader. Context: server. */
int ppa_symbols_lookup(const struct ppa_module *m, uintptr_t pc, struct ppa_symbol *out) PPA_CTX_SERVER;

/* Off: every lookup ends with -ENOENT, and no file is read. On until told otherwise. Context: any. */
void ppa_symbols_set_on(bool on) PPA_CTX_ANY;
bool ppa_symbols_are_on(void) PPA_CTX_ANY;

/* Name for people: C++, Rust (legacy without its hash, and v0) and D names demangled without parameter lists, template
 * arguments kept; anything else as it is. Writes at most cap bytes with the final NUL; returns the length, cut if
 * need be. Context: server. */
size_t ppa_symbols_demangle(const char *linker_name, char *buf, size_t cap) PPA_CTX_SERVER;

/* "libfoo.so+0x1234": basename of the module and the address as its file counts it (pc - bias). Returns the length.
 * Context: server. */
size_t ppa_symbols_fallback(const struct ppa_module *m, uintptr_t pc, char *buf, size_t cap) PPA_CTX_SERVER;

/* Bytes the cache holds now. Context: server. */
uint64_t ppa_symbols_cached_bytes(void) PPA_CTX_SERVER;

/* Drop every cached table; pointers from lookups die. The caller sees to it that nobody else is looking up. Context: server. */
void ppa_symbols_trim(void) PPA_CTX_SERVER;

/* Forget locks and caches in the child of a fork. Context: child. */
void ppa_symbols_reset(void) PPA_CTX_CHILD;

#endif
