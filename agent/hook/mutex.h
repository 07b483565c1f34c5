/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PPA_HOOK_MUTEX_H
#define PPA_HOOK_MUTEX_H

#include "agent/base/attr.h"

/* Waiting is measured from the start: have the hook of pthread_mutex_lock try the mutex without a jump before (mutex_x86_64.h). It
 * does what it is told by the rates all the same, later on, too. Context: init. */
void ppa_mutex_attempt_at_once(void) PPA_CTX_INIT;

#endif
