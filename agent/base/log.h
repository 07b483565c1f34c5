/* SPDX-License-Identifier: Apache-2.0
 *
 * One line on the target's standard error: "pprofagent: " + message + newline, in a single write. Keeps errno.
 * At most 500 bytes; longer text is cut. PPROF_LOG=quiet silences all but nothing else changes. */
#ifndef PPA_BASE_LOG_H
#define PPA_BASE_LOG_H

#include <stdbool.h>

#include "agent/base/attr.h"

/* Context: any, server, init, child; not signal. On our own threads, whose descriptor table is private, the target's
 * descriptor 2 is reached through pidfd_getfd or /proc. */
void ppa_log(const char *fmt, ...) PPA_PRINTF(1, 2) PPA_CTX_ANY;

/* Remember which file descriptor 2 is now, so that a later line never lands in whatever the target has put there since,
 * and whether to be silent. Until then nothing is written. Context: init. */
void ppa_log_init(void) PPA_CTX_INIT;
void ppa_log_set_quiet(bool quiet) PPA_CTX_INIT;

#endif
