/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a module's symbols come from: its file, the debug file of the same build id, the mini debug
 * information in it, or, when none of these can be had, its own memory. */
#ifndef PPA_UNWIND_NAME_SYMLOAD_H
#define PPA_UNWIND_NAME_SYMLOAD_H

#include "agent/base/attr.h"
#include "unwind/module/modules.h"

struct ppa_symtab;

/* Collect every function of the module into *out, to be freed with ppa_symtab_free. 0 (the table
 * may be empty), -EFBIG beyond the cap, -ENOMEM; *out is empty then. Context: server. */
int ppa_symload(const struct ppa_module *m, struct ppa_symtab *out) PPA_CTX_SERVER;

/* Why functions of the module may be without names, for people; NULL: there is no reason but that nobody lists them. Opens
 * files. Context: server. */
const char *ppa_symload_gap(const struct ppa_module *m) PPA_CTX_SERVER;

/* Where a section of the module's file is mapped: its runtime address and length. 0, or -ENOENT when the file or the
 * section cannot be had, or lies outside the module. Context: server. */
int ppa_symload_section(const struct ppa_module *m, const char *name, uintptr_t *at, size_t *len) PPA_CTX_SERVER;

#endif
