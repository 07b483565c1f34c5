/* SPDX-License-Identifier: Apache-2.0 */
// link: http/address.c
/* Promise: no text for PPROF_ADDR makes the parser read or write where it must not; what it accepts it can expand
 * within any buffer. The last two bytes choose the buffer's size and the process id. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ppa_address a;
	const char *why = NULL;
	char *text, *buf;
	size_t cap;

	if (size < 2)
		return 0;
	cap = (size_t)data[size - 1] + 1;
	text = malloc(size - 1);
	buf = malloc(cap);
	memcpy(text, data, size - 2);
	text[size - 2] = '\0';
	if (ppa_address_parse(text, &a, &why)) {
		if (!why || !*why)
			abort();
	} else {
		ppa_address_is_loopback(&a);
		if (a.kind == PPA_ADDRESS_UNIX) {
			int n = ppa_address_expand(a.pattern, "pro/gram", data[size - 2], buf, cap);

			if (n >= 0 && ((size_t)n >= cap || strlen(buf) != (size_t)n || buf[0] != '/'))
				abort();
		}
	}
	free(text);
	free(buf);
	return 0;
}
