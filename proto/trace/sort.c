/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging runs of doubling length between two arrays. */
#include "proto/trace/sort.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/vheap.h"

typedef struct ppa_trace_key (*key_fn)(const void *item);

static bool is_after(struct ppa_trace_key a, struct ppa_trace_key b)
{
	return a.first != b.first ? a.first > b.first : a.second > b.second;
}

static bool is_sorted(const void **items, size_t n, key_fn key_of)
{
	for (size_t i = 1; i < n; i++)
		if (is_after(key_of(items[i - 1]), key_of(items[i])))
			return false;
	return true;
}

static void merge(const void **to, const void **a, size_t na, const void **b, size_t nb, key_fn key_of)
{
	while (na && nb) {
		if (is_after(key_of(*a), key_of(*b))) {
			*to++ = *b++;
			nb--;
		} else {
			*to++ = *a++;
			na--;
		}
	}
	memcpy(to, na ? a : b, (na + nb) * sizeof(*to));
}

int ppa_trace_sort(const void **items, size_t n, key_fn key_of)
{
	const void **from = items, **to, **spare, **swap;

	if (is_sorted(items, n, key_of))
		return 0;
	spare = to = ppa_vheap_malloc(n * sizeof(*items));
	if (!spare)
		return -ENOMEM;
	for (size_t run = 1; run < n; run *= 2) {
		for (size_t i = 0; i < n; i += 2 * run) {
			size_t na = n - i < run ? n - i : run, nb = n - i - na < run ? n - i - na : run;

			merge(to + i, from + i, na, from + i + na, nb, key_of);
		}
		swap = from;
		from = to;
		to = swap;
	}
	if (from != items)
		memcpy(items, from, n * sizeof(*items));
	ppa_vheap_free(spare);
	return 0;
}
