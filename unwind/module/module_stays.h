/* SPDX-License-Identifier: Apache-2.0
 *
 * Which modules can never be unloaded: the program, and what was loaded for it. The loader never unloads the closure of
 * DT_NEEDED from the program (and from us, who were preloaded), whenever we first look at it; everything else may have
 * been dlopened. Used by module_table.c at its first table. */
#ifndef PPA_UNWIND_MODULE_MODULE_STAYS_H
#define PPA_UNWIND_MODULE_MODULE_STAYS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"
#include "unwind/module/module_scan.h"

/* Set at_startup in the nodes that contain one of the addresses in roots (0 is none), in the vdso, and in what these
 * need, directly or not. A needed name that two modules answer to (dlmopen) is left out. Out of memory leaves it at the
 * roots. Context: server. */
void ppa_module_decide_stays(struct ppa_module_node *const *nodes, size_t nnodes, const uintptr_t *roots,
			     size_t nroots) PPA_CTX_SERVER;

#endif
