/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/module/maps.c
/* Promise: no text makes the parser of maps read beyond it, loop, or hand out a mapping that ends before it starts. */
#include <stdint.h>
#include <stdlib.h>

#include "unwind/module/maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *pos = text;
	size_t skipped = 0, lines = 0;
	struct ppa_map m;

	while (ppa_maps_next(&pos, text + size, &m, &skipped)) {
		lines++;
		if (m.start >= m.end || m.path < text || m.path + m.path_len > text + size)
			abort();
	}
	if (pos != text + size || lines + skipped > size)
		abort();
	return 0;
}
