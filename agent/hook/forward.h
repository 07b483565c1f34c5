/* SPDX-License-Identifier: Apache-2.0
 *
 * The forwarder: stands before the target's handler for a number that was ours before the target asked for it, drops
 * timer signals of ours that were still on their way, and passes everything else on unchanged. */
#ifndef PPA_HOOK_FORWARD_H
#define PPA_HOOK_FORWARD_H

#include <signal.h>

#include "agent/base/attr.h"

/* sigaction(2) for such a number: same result, same errno, same view of the old action. Context: any. */
int ppa_forward_action(int sig, const struct sigaction *act, struct sigaction *old) PPA_CTX_ANY;

#endif
