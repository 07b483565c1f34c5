/* SPDX-License-Identifier: Apache-2.0
 *
 * What the process is, for the heads of pages: a few facts as the kernel has them now. */
#ifndef PPA_HTTP_PROCESS_H
#define PPA_HTTP_PROCESS_H

#include <stdint.h>

#include "agent/base/attr.h"

struct ppa_process {
	char path[512];	     /* of the program; "" if the kernel does not tell */
	const char *program; /* its last part, or "?" */
	int pid;
	uint64_t uptime_ns, cpu_ns; /* since the program's start, in kernel ticks; 0 if unknown */
	uint64_t rss_bytes, rss_peak_bytes;
};

/* Context: server. */
void ppa_process_look(struct ppa_process *p) PPA_CTX_SERVER;

/* The number after key ("VmRSS:") in a text of /proc/PID/status, 0 if it is not there. Context: any; pure. */
uint64_t ppa_process_status_number(const char *status, const char *key) PPA_CTX_ANY;

/* Field number n (from 3 on, as in proc(5)) of a text of /proc/PID/stat, whose second field may hold anything.
 * Context: any; pure. */
uint64_t ppa_process_stat_field(const char *stat, int n) PPA_CTX_ANY;

#endif
