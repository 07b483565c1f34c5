/* SPDX-License-Identifier: Apache-2.0 */
// link: http/symbol_words.c
/* Promise: the words of a body come out the same whatever pieces it arrives in, and no byte of it is read twice or left
 * out. The first byte is the size of the pieces. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/symbol_words.h"

enum { WORDS_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t split(const uint8_t *data, size_t size, size_t piece, uint64_t *words)
{
	struct ppa_symbol_words s = {.len = 0};
	size_t n = 0;

	for (size_t i = 0; i < size; i += piece) {
		size_t len = size - i < piece ? size - i : piece;
		char *copy = malloc(len); /* of the exact size, so that reading beyond it is seen */
		const char *at = copy;

		memcpy(copy, data + i, len);
		while (n < WORDS_MAX - 1 && ppa_symbol_words_next(&s, &at, copy + len, &words[n]))
			n++;
		free(copy);
	}
	return n + ppa_symbol_words_last(&s, &words[n]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint64_t whole[WORDS_MAX], pieces[WORDS_MAX];
	size_t n;

	if (size < 2 || size > WORDS_MAX)
		return 0;
	n = split(data + 1, size - 1, size, whole);
	if (split(data + 1, size - 1, (size_t)data[0] + 1, pieces) != n || memcmp(whole, pieces, n * sizeof(*whole)))
		abort();
	for (size_t i = 0; i < n; i++) {
		if (whole[i] == 0)
			abort();
	}
	return 0;
}
