/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole of /proc/self/maps at once. The thread's own entry is asked first: the process's shows the main thread's
 * memory, which is gone when that thread has ended before the others. */
#include <stdatomic.h>

#include "agent/base/sys.h"
#include "agent/base/vheap.h"
#include "unwind/module/maps.h"

enum { MAPS_FIRST_BYTES = 128 << 10, MAPS_MAX_BYTES = 64 << 20 };

char *ppa_maps_read(size_t *len)
{
	static _Atomic size_t last; /* bytes that were enough the last time: a thousand stacks are many lines */
	size_t first = atomic_load_explicit(&last, memory_order_relaxed);
	int fd = ppa_sys_open_read("/proc/thread-self/maps");
	char *text = NULL;
	long n = 0;

	if (fd < 0)
		fd = ppa_sys_open_read("/proc/self/maps");
	if (fd < 0)
		return NULL;
	for (size_t cap = first ? first : MAPS_FIRST_BYTES; cap <= MAPS_MAX_BYTES; cap *= 2) {
		char *more = ppa_vheap_malloc(cap);

		ppa_vheap_free(text);
		text = more;
		/* From the start again: one reading, so that no line is cut between two states of the list. */
		n = text ? ppa_sys_pread(fd, text, cap, 0) : 0;
		if (n <= 0 || (size_t)n < cap)
			break;
	}
	ppa_sys_close(fd);
	if (n <= 0) {
		ppa_vheap_free(text);
		return NULL;
	}
	for (first = MAPS_FIRST_BYTES; first <= (size_t)n; first *= 2)
		;
	atomic_store_explicit(&last, first, memory_order_relaxed);
	*len = (size_t)n;
	return text;
}
