/* SPDX-License-Identifier: Apache-2.0
 *
 * Every setting, from one table in config.c: parser, defaults and the README's table come from it. The environment is
 * read once, in the constructor, and nowhere else. */
#ifndef PPA_CONFIG_H
#define PPA_CONFIG_H

#include <stdbool.h>

#include "agent/base/attr.h"

enum { PPA_CONFIG_TEXT_MAX = 512 };

enum ppa_symbols_level { PPA_LEVEL_NONE, PPA_LEVEL_NAMES, PPA_LEVEL_LINES };

struct ppa_config {
	char addr[PPA_CONFIG_TEXT_MAX];	      /* PPROF_ADDR, or the variable PPROF_ADDR_VAR names; "" is off */
	char addr_file[PPA_CONFIG_TEXT_MAX];  /* PPROF_ADDR_FILE; "" is none */
	char token_file[PPA_CONFIG_TEXT_MAX]; /* PPROF_TOKEN_FILE; "" is none */
	char skip[PPA_CONFIG_TEXT_MAX];	      /* PPROF_SKIP: programs that do not listen, comma separated */
	int cpu_hz;			      /* PPROF_CPU_HZ */
	int heap_rate;			      /* PPROF_HEAP_RATE, bytes */
	int mutex_fraction;		      /* PPROF_MUTEX_FRACTION */
	int block_rate;			      /* PPROF_BLOCK_RATE, ns */
	int block_io;			      /* PPROF_BLOCK_IO, 0 or 1 */
	int max_memory_mib;		      /* PPROF_MAX_MEMORY */
	int trace_buffer_s;		      /* PPROF_TRACE_BUFFER, seconds */
	int settings;			      /* PPROF_SETTINGS, 0 or 1 */
	int symbols;			      /* PPROF_SYMBOLS, enum ppa_symbols_level */
	int symbols_memory_mib;		      /* PPROF_SYMBOLS_MEMORY */
	bool quiet;			      /* PPROF_LOG=quiet */
};

/* Is the agent to stay off: no address, an empty one, or "0"? Reads nothing else and touches nothing. Context: init. */
bool ppa_config_is_off(char *const *envp) PPA_CTX_INIT;

/* Read envp into *out; a bad value is one line through ppa_log and the default. Context: init. */
void ppa_config_read(char *const *envp, struct ppa_config *out) PPA_CTX_INIT;

/* Is the program named (a base name) on the comma separated list? Context: any. */
bool ppa_config_lists(const char *list, const char *program) PPA_CTX_ANY;

/* The README's table of settings, row by row: fills at most cap bytes, returns the length, 0 after the last row.
 * Context: any. */
int ppa_config_describe(unsigned row, char *buf, int cap) PPA_CTX_ANY;

#endif
