/* SPDX-License-Identifier: Apache-2.0
 *
 * What libiberty's demanglers allocate with. The archive's malloc, realloc, free, xmalloc and xrealloc are renamed to
 * these when it is built. They differ from the private heap's in two ways: every block belongs to the name being
 * demangled and dies with it, so that leaving the demangler by a jump loses nothing; and the x-variants jump instead
 * of ending the process. Outside ppa_symbols_demangle nobody may call them. */
#ifndef PPA_UNWIND_DEMANGLE_H
#define PPA_UNWIND_DEMANGLE_H

#include <stddef.h>

#include "agent/base/attr.h"

/* As malloc(3); NULL also when the name's budget is spent. Context: server, inside ppa_symbols_demangle. */
void *ppa_demangle_malloc(size_t bytes) PPA_CTX_SERVER;
void *ppa_demangle_realloc(void *p, size_t bytes) PPA_CTX_SERVER;
void ppa_demangle_free(void *p) PPA_CTX_SERVER;

/* Never return NULL: when there is no memory they give the name up. Context: server, inside ppa_symbols_demangle. */
void *ppa_demangle_xmalloc(size_t bytes) PPA_CTX_SERVER;
void *ppa_demangle_xrealloc(void *p, size_t bytes) PPA_CTX_SERVER;

/* Give the demangler's stack back to the kernel. Context: server. */
void ppa_demangle_trim(void) PPA_CTX_SERVER;

/* Forget a demangling another thread had begun. Context: child. */
void ppa_demangle_reset(void) PPA_CTX_CHILD;

#endif
