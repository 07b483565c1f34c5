/* SPDX-License-Identifier: Apache-2.0
 *
 * Every index in a snapshot leads into its arrays: asked by the encoders before they follow one. A collector's bug may
 * cost a request, never the target. */
#ifndef PPA_PROTO_SOUND_H
#define PPA_PROTO_SOUND_H

#include <stdbool.h>

#include "agent/base/attr.h"

struct ppa_snapshot;

/* Context: server; pure. */
bool ppa_sound_check(const struct ppa_snapshot *s) PPA_CTX_SERVER;

#endif
