/* SPDX-License-Identifier: Apache-2.0
 *
 * The exported functions of a loaded module, from its own memory: the last resort when its file is
 * gone, replaced or out of reach (deleted by an upgrade, another mount namespace, a chroot). Memory
 * is read with process_vm_readv and bounded by the module's extent, so an unload at the same moment
 * costs names and nothing else. */
#ifndef PPA_UNWIND_NAME_DYNSYMS_H
#define PPA_UNWIND_NAME_DYNSYMS_H

#include "agent/base/attr.h"
#include "unwind/module/modules.h"

struct ppa_symtab_builder;

/* Add what DT_SYMTAB of the module lists. 0, or -ENOENT when there is no readable dynamic section,
 * -EFBIG, -ENOMEM. Context: server. */
int ppa_dynsyms_add(struct ppa_symtab_builder *b, const struct ppa_module *m) PPA_CTX_SERVER;

#endif
