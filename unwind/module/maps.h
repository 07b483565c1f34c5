/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of /proc/<pid>/maps, line by line. Pure: text in, fields out, nothing copied. Lines that are not as the
 * kernel writes them are skipped and counted, so a future kernel costs modules, not crashes. */
#ifndef PPA_UNWIND_MODULE_MAPS_H
#define PPA_UNWIND_MODULE_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

/* One mapping. */
struct ppa_map {
	uintptr_t start, end;
	uint64_t offset;   /* in the file */
	uint64_t dev, ino; /* dev as stat(2) gives it; ino 0: no file */
	const char *path;  /* in the text, not terminated; "" if none; " (deleted)" cut off */
	size_t path_len;
	bool readable, writable, executable;
	bool deleted;
};

/* Parse the next good line of [*pos, end) and move *pos past it. False at the end of the text. Bad lines are added to
 * *skipped. Context: server. */
bool ppa_maps_next(const char **pos, const char *end, struct ppa_map *out, size_t *skipped) PPA_CTX_SERVER;

/* The text for this process, *len bytes in the private heap, to be freed there; NULL: cannot be read. Context: server. */
char *ppa_maps_read(size_t *len) PPA_CTX_SERVER;

/* dev_t of stat(2) from the two numbers of maps; libc's makedev is a function in some libcs. */
static inline uint64_t ppa_maps_dev(uint32_t major, uint32_t minor)
{
	return (uint64_t)(major & 0xfffff000) << 32 | (uint64_t)(major & 0xfff) << 8 |
	       (uint64_t)(minor & 0xffffff00) << 12 | (minor & 0xff);
}

#endif
