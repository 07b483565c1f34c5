/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/profile/labels.h"

#include <stdbool.h>
#include <string.h>

/* Bytes that are not UTF-8 would make the profile unreadable to protobuf parsers; thread names may hold any. */
static char printable(char c)
{
	return c >= ' ' && c < 127 ? c : '?';
}

void ppa_labels_collapse(const char in[static PPA_LABEL_BYTES], char out[static PPA_LABEL_BYTES])
{
	size_t n = 0;
	bool in_digits = false;

	for (size_t i = 0; i < PPA_LABEL_BYTES - 1 && in[i]; i++) {
		bool digit = in[i] >= '0' && in[i] <= '9';

		if (!digit)
			out[n++] = printable(in[i]);
		else if (!in_digits)
			out[n++] = '#';
		in_digits = digit;
	}
	memset(out + n, 0, PPA_LABEL_BYTES - n);
}

uint32_t ppa_labels_intern(struct ppa_labels *l, const char name[static PPA_LABEL_BYTES])
{
	char value[PPA_LABEL_BYTES];

	ppa_labels_collapse(name, value);
	for (uint32_t i = 0; i < l->n; i++)
		if (memcmp(l->values[i], value, PPA_LABEL_BYTES) == 0)
			return i;
	if (l->n == PPA_LABELS_MAX)
		return PPA_LABELS_MAX - 1;
	if (l->n == PPA_LABELS_MAX - 1)
		strcpy(value, "other");
	memcpy(l->values[l->n], value, PPA_LABEL_BYTES);
	return l->n++;
}
