/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's own counters and gauges under the names that Prometheus shall have them by. What profiles say in their
 * comments about one window stands here for the whole life of the process. */
#ifndef PPA_SNAPSHOT_METERS_H
#define PPA_SNAPSHOT_METERS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_meter {
	const char *name;   /* without "pprofagent_" */
	const char *labels; /* as key="value", NULL for none */
	const char *help;   /* one line of text */
	bool is_counter;    /* else a gauge */
	bool is_ns;	    /* value is nanoseconds, to be shown in seconds */
	uint64_t value;
};

/* Visit all of them; those of one name follow each other. Context: server. */
void ppa_meters_each(void (*visit)(const struct ppa_meter *m, void *arg), void *arg) PPA_CTX_SERVER;

#endif
