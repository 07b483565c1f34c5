/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the README's table of settings as agent/config.c describes it. Built and run by
 * scripts/readme-settings together with config.c alone; the log functions that config.c names are
 * empty here, because describing reads no environment and so has nothing to say. */
#include <stdio.h>

#include "agent/base/log.h"
#include "agent/config.h"

void ppa_log(const char *fmt, ...)
{
	(void)fmt;
}

void ppa_log_set_quiet(bool quiet)
{
	(void)quiet;
}

int main(void)
{
	static char row[4096];
	int len;

	puts("| Variable | Default | Meaning |\n|---|---|---|");
	for (unsigned i = 0; (len = ppa_config_describe(i, row, sizeof(row))) != 0; i++) {
		if (len < 0 || (size_t)len >= sizeof(row)) {
			fprintf(stderr, "settings-table: row %u does not fit\n", i);
			return 1;
		}
		puts(row);
	}
	return fflush(stdout) ? 1 : 0;
}
