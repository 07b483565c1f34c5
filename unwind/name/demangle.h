/* SPDX-License-Identifier: Apache-2.0
 *
 * What libiberty's demanglers call instead of libc: the archive's malloc, realloc, free, xmalloc,
 * xrealloc, sprintf and snprintf are renamed to these when it is built. Every block belongs to the
 * name being demangled and dies with it, so that leaving the demangler by a jump loses nothing; the
 * x-variants jump instead of ending the process. Outside ppa_symbols_demangle nobody may call
 * them. */
#ifndef PPA_UNWIND_NAME_DEMANGLE_H
#define PPA_UNWIND_NAME_DEMANGLE_H

#include <stddef.h>

#include "agent/base/attr.h"

/* As malloc(3); NULL also when the name's budget is spent. Context: server, inside ppa_symbols_demangle. */
void *ppa_demangle_malloc(size_t bytes) PPA_CTX_SERVER;
void *ppa_demangle_realloc(void *p, size_t bytes) PPA_CTX_SERVER;
void ppa_demangle_free(void *p) PPA_CTX_SERVER;

/* Never return NULL: when there is no memory they give the name up. Context: server, inside ppa_symbols_demangle. */
void *ppa_demangle_xmalloc(size_t bytes) PPA_CTX_SERVER;
void *ppa_demangle_xrealloc(void *p, size_t bytes) PPA_CTX_SERVER;

/* What the fortified printing functions become. They count, because a Rust name of ten bytes can
 * ask for 2^64 numbers to be printed: past a limit they give the name up. Context: server, inside
 * ppa_symbols_demangle. */
int ppa_demangle_snprintf_chk(char *s, size_t n, int flag, size_t cap, const char *format, ...)
	PPA_PRINTF(5, 6) PPA_CTX_SERVER;
int ppa_demangle_sprintf_chk(char *s, int flag, size_t cap, const char *format, ...) PPA_PRINTF(4, 5) PPA_CTX_SERVER;

/* Give the demangler's stack back to the kernel. Context: server. */
void ppa_demangle_trim(void) PPA_CTX_SERVER;

/* Forget a demangling another thread had begun. Context: child. */
void ppa_demangle_reset(void) PPA_CTX_CHILD;

#endif
