/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging from the bottom up, to and fro between two arrays. */
#include "proto/order.h"

struct ppa_order *ppa_order_sort(struct ppa_order *list, struct ppa_order *room, size_t n)
{
	struct ppa_order *from = list, *to = room;

	for (size_t width = 1; width < n; width *= 2) {
		struct ppa_order *swap = from;

		for (size_t i = 0; i < n; i += 2 * width) {
			size_t middle = n - i < width ? n : i + width, end = n - i < 2 * width ? n : i + 2 * width;
			size_t left = i, right = middle;

			for (size_t k = i; k < end; k++)
				to[k] = right == end || (left < middle && from[left].key >= from[right].key)
						? from[left++]
						: from[right++];
		}
		from = to;
		to = swap;
	}
	return from;
}
