/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be changed while the program runs, as a table; the server reads and writes it. Values begin as the environment
 * set them (agent/config.h). A change weighs nothing recorded before anew: every sample keeps the rate that made it. */
#ifndef PPA_SNAPSHOT_SETTINGS_H
#define PPA_SNAPSHOT_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_setting {
	const char *name; /* the variable's, without PPROF_ and in lower case */
	const char *help; /* one line of text */
	int64_t min, max;
	int64_t (*get)(void);
	void (*set)(int64_t value); /* one caller at a time */
};

/* The settings by name; NULL after the last. Context: any. */
const struct ppa_setting *ppa_settings_at(size_t i) PPA_CTX_ANY;

#endif
