/* SPDX-License-Identifier: Apache-2.0
 *
 * The request language of /debug/pprof/symbol: addresses joined by '+', in C notation. A pure, incremental parser: a
 * body of megabytes passes through it in pieces of any size. */
#ifndef PPA_HTTP_SYMBOL_WORDS_H
#define PPA_HTTP_SYMBOL_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/attr.h"

enum { PPA_SYMBOL_WORD_MAX = 80 };

struct ppa_symbol_words {
	char word[PPA_SYMBOL_WORD_MAX];
	size_t len; /* may exceed the word's size: then it is no number */
};

/* Take the next piece from *at up to end. True: *address is a word's value, call again with the same end; false: the
 * piece is used up (*at == end). Words that are no number are passed over. Start with a zeroed struct. Context: any. */
bool ppa_symbol_words_next(struct ppa_symbol_words *s, const char **at, const char *end, uint64_t *address) PPA_CTX_ANY;

/* After the last piece: the word that no '+' ended. Context: any. */
bool ppa_symbol_words_last(struct ppa_symbol_words *s, uint64_t *address) PPA_CTX_ANY;

#endif
