/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of the label "thread": thread names with runs of digits collapsed, so that a pool of a thousand workers is
 * one series in a time-series database and not a thousand. At most PPA_LABELS_MAX distinct values a profile; further
 * ones become "other". */
#ifndef PPA_PROFILE_LABELS_H
#define PPA_PROFILE_LABELS_H

#include <stdint.h>

#include "agent/base/attr.h"

enum { PPA_LABELS_MAX = 32, PPA_LABEL_BYTES = 16, PPA_LABEL_NONE = UINT32_MAX };

struct ppa_labels {
	uint32_t n;
	char values[PPA_LABELS_MAX][PPA_LABEL_BYTES];
};

/* "worker-17" -> "worker-#". in need not be terminated within its 16 bytes. Context: any. */
void ppa_labels_collapse(const char in[static PPA_LABEL_BYTES], char out[static PPA_LABEL_BYTES]) PPA_CTX_ANY;

/* Index of the value for a thread name; the last index stands for "other" once the table is full. Context: server. */
uint32_t ppa_labels_intern(struct ppa_labels *l, const char name[static PPA_LABEL_BYTES]) PPA_CTX_SERVER;

#endif
