/* SPDX-License-Identifier: Apache-2.0
 *
 * See vheap.h. Threads may use it; only which of them a budget hits is chance. */
#include "test/fakes/vheap.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/vheap.h"

_Atomic long fake_vheap_live;
_Atomic long fake_vheap_budget = -1;

static bool is_refused(void)
{
	if (fake_vheap_budget == 0) {
		errno = ENOMEM;
		return true;
	}
	if (fake_vheap_budget > 0)
		fake_vheap_budget--;
	return false;
}

void *ppa_vheap_malloc(size_t bytes)
{
	void *p = is_refused() ? NULL : malloc(bytes);

	fake_vheap_live += p != NULL;
	return p;
}

void *ppa_vheap_calloc(size_t n, size_t bytes)
{
	void *p = is_refused() ? NULL : calloc(n, bytes);

	fake_vheap_live += p != NULL;
	return p;
}

void *ppa_vheap_realloc(void *p, size_t bytes)
{
	void *q = is_refused() ? NULL : realloc(p, bytes);

	fake_vheap_live += !p && q;
	return q;
}

void ppa_vheap_free(void *p)
{
	fake_vheap_live -= p != NULL;
	free(p);
}

char *ppa_vheap_strdup(const char *s)
{
	char *p = ppa_vheap_malloc(strlen(s) + 1);

	return p ? strcpy(p, s) : NULL;
}

uint64_t ppa_vheap_mapped_bytes(void)
{
	return 0;
}

void ppa_vheap_trim(void)
{
}

void ppa_vheap_reset(void)
{
}
