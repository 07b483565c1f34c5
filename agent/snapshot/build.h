/* SPDX-License-Identifier: Apache-2.0
 *
 * From a closed session to a snapshot: addresses become locations, functions and mappings. */
#ifndef PPA_SNAPSHOT_BUILD_H
#define PPA_SNAPSHOT_BUILD_H

#include "agent/base/attr.h"

struct ppa_session;
struct ppa_snapshot;

/* 0, and *out is the caller's (ppa_snapshot_free); or -ENOMEM. Context: server. */
int ppa_build_cpu(const struct ppa_session *s, struct ppa_snapshot **out) PPA_CTX_SERVER;

#endif
