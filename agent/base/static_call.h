/* SPDX-License-Identifier: Apache-2.0
 *
 * Static calls: places where a hook either takes a detour or goes on to the genuine function through a pointer. That is
 * two jumps, and where the first was ever taken the branch predictor spends a cycle on it and another one on the second.
 * Patched, the common way is one direct jump, conditional, straight into the genuine function; it costs what the jump
 * of a hook without any condition costs. Linux does the same for its own indirect calls and calls it by this name.
 *
 * A site is made by PPA_ARCH_STATIC_CALL. The code is right in both forms: nothing depends on patching but speed. */
#ifndef PPA_BASE_STATIC_CALL_H
#define PPA_BASE_STATIC_CALL_H

#include "agent/base/attr.h"

/* Patch all sites for the pointers' present values, for good: who changes a pointer later is not heard any more.
 *
 * Only while the process has one thread, so that nobody runs what is being written. It is written through
 * /proc/self/mem, which makes the page a private one (4 KiB) as a debugger's breakpoint would, and never needs memory
 * that is writable and executable. Where that is not allowed, where the genuine function is too far away, or where the
 * compiler has made something else of a site, it stays as it is. The number of sites patched, or -errno.
 * Context: init. */
int ppa_static_calls_patch(void) PPA_CTX_INIT;

/* The same for entries: functions that begin with a jump through a pointer, which is left out from now on. What stands
 * behind it must be right whatever is switched on or off later. Context: init. */
int ppa_static_entries_patch(void) PPA_CTX_INIT;

#endif
