/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a function begins, from the unwind tables: they describe every function, static ones of stripped binaries too,
 * which no symbol names any more. One made-up name for all addresses of such a function keeps a flame graph whole where
 * a name for each address would split it. */
#include <string.h>

#include "agent/base/vheap.h"
#include "unwind/walk/cfi.h"
#include "unwind/walk/unwind.h"

uintptr_t ppa_unwind_function_start(uintptr_t pc)
{
	/* Both are far larger than a server thread's stack likes. */
	struct ppa_unwind_buf *buf = ppa_vheap_malloc(sizeof(*buf));
	struct ppa_cfi *cfi = ppa_vheap_malloc(sizeof(*cfi));
	struct ppa_memory mem;
	struct ppa_code code;
	uintptr_t start = 0;
	unsigned token;

	if (buf && cfi) {
		ppa_memory_init(&mem, buf);
		token = ppa_modules_read_begin();
		if (ppa_modules_find(pc, &code) && ppa_cfi_find(cfi, &code, &mem, pc) == 0 && cfi->start <= pc)
			start = cfi->start;
		ppa_modules_read_end(token);
	}
	ppa_vheap_free(cfi);
	ppa_vheap_free(buf);
	return start;
}
