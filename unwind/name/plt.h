/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for linkage stubs, which no symbol table lists: "puts@plt". */
#ifndef PPA_UNWIND_NAME_PLT_H
#define PPA_UNWIND_NAME_PLT_H

#include "agent/base/attr.h"

struct ppa_elf_file;
struct ppa_symtab_builder;

/* Add the stubs in .plt, .plt.sec and .plt.got of a file with section headers. 0 (also where there
 * are none), -EFBIG, -ENOMEM. Context: server. */
int ppa_plt_add(struct ppa_symtab_builder *b, const struct ppa_elf_file *f) PPA_CTX_SERVER;

#endif
