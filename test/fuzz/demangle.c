/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/name/demangle.c agent/base/sys.c agent/base/vendor.c test/fakes/vheap.c @iberty
/* Promise: no name makes the demangler fault, overrun its stack, leak, write beyond the buffer or
 * run for a second. The first byte chooses the language and the buffer's size. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test/fakes/vheap.h"
#include "unwind/name/demangle.h"
#include "unwind/name/symbols.h"

enum { NAME_MAX_BYTES = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char prefixes[][4] = {"_Z", "_R", "_D1", "_ZN"};
	static const size_t caps[] = {1, 7, 64, 4096};
	char *name, *buf;
	size_t cap, len;

	if (!size || size > NAME_MAX_BYTES)
		return 0;
	cap = caps[data[0] / 4 % 4];
	name = malloc(size + 4);
	strcpy(name, prefixes[data[0] % 4]);
	len = strlen(name);
	for (size_t i = 1; i < size && data[i]; i++)
		name[len++] = (char)data[i];
	name[len] = '\0';
	buf = malloc(cap);
	len = ppa_symbols_demangle(name, buf, cap);
	if (len >= cap || buf[len] || strlen(buf) != len || fake_vheap_live)
		abort();
	free(buf);
	free(name);
	return 0;
}
