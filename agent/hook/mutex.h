/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PPA_HOOK_MUTEX_H
#define PPA_HOOK_MUTEX_H

#include "agent/base/attr.h"

/* Waiting is measured from the start: have the hook of pthread_mutex_lock try the mutex at once, from now on (mutex_x86_64.h). What
 * is measured stays what the rates say, later on, too. Context: init. */
void ppa_mutex_attempt_at_once(void) PPA_CTX_INIT;

#endif
