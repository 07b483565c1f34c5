/* SPDX-License-Identifier: Apache-2.0
 *
 * What a thread does, in words that people know. */
#ifndef PPA_DUMP_STATE_H
#define PPA_DUMP_STATE_H

#include <stddef.h>

#include "agent/base/attr.h"

struct ppa_look;
struct ppa_parked_copy;

/* Write the words: what it waits for, and in brackets where in the kernel, if that is known. letter: the state of
 * /proc/TID/stat; parked: what it told itself, or NULL; channel: of /proc/TID/wchan, "" if unknown. Context: any. */
void ppa_state_describe(const struct ppa_look *look, char letter, const struct ppa_parked_copy *parked,
			const char *channel, char *out, size_t cap) PPA_CTX_ANY;

#endif
