/* SPDX-License-Identifier: Apache-2.0
 *
 * See varint.h. */
#include "proto/trace/varint.h"

size_t ppa_trace_varint(uint8_t *to, uint64_t v)
{
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		to[n++] = (uint8_t)(v | 0x80);
	to[n++] = (uint8_t)v;
	return n;
}
