/* SPDX-License-Identifier: Apache-2.0
 *
 * What the audit writes, mapped shared by whom it audits, and report.c reads. */
#ifndef TEST_PRELOAD_AUDIT_REPORT_H
#define TEST_PRELOAD_AUDIT_REPORT_H

#include <stdatomic.h>

enum { AUDIT_NAMES = 64, AUDIT_NAME_BYTES = 32 };

struct audit_report {
	/* threads the agent created; what libc called of the malloc family meanwhile */
	_Atomic long threads, calls, bytes;
	atomic_flag busy; /* protects the names */
	struct {
		char name[AUDIT_NAME_BYTES];
		long calls;
	} bad[AUDIT_NAMES];
};

#endif
