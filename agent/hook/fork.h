/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PPA_HOOK_FORK_H
#define PPA_HOOK_FORK_H

#include "agent/base/attr.h"

/* What to do in the child before fork returns to the target. Context: init. */
void ppa_fork_on_child(void (*handler)(void)) PPA_CTX_INIT;

#endif
