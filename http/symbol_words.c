/* SPDX-License-Identifier: Apache-2.0
 *
 * Words as Go's strconv.ParseUint(word, 0, 64) reads them: 0x, 0o, 0b and a plain 0 choose the base. One leniency:
 * blanks and line ends around a word do not spoil it, so that `echo 0x1234 | curl -d @-` gets an answer. Zero and
 * everything else that is no address yields nothing. */
#include "http/symbol_words.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static bool parse(const char *word, size_t len, uint64_t *address)
{
	uint64_t base = 10, n = 0;

	if (len > 1 && word[0] == '0') {
		char kind = (char)(word[1] | 0x20);

		base = kind == 'x' ? 16 : kind == 'b' ? 2 : 8;
		word += base == 8 && kind != 'o' ? 1 : 2;
		len -= base == 8 && kind != 'o' ? 1 : 2;
	}
	if (len == 0)
		return false;
	for (; len > 0; word++, len--) {
		uint64_t digit = (uint64_t)digit_of(*word);

		if (digit >= base || n > (UINT64_MAX - digit) / base)
			return false;
		n = n * base + digit;
	}
	*address = n;
	return n != 0;
}

bool ppa_symbol_words_last(struct ppa_symbol_words *s, uint64_t *address)
{
	size_t len = s->len;

	s->len = 0;
	if (len > sizeof(s->word))
		return false;
	while (len > 0 && is_blank(s->word[len - 1]))
		len--;
	return parse(s->word, len, address);
}

bool ppa_symbol_words_next(struct ppa_symbol_words *s, const char **at, const char *end, uint64_t *address)
{
	while (*at < end) {
		char c = *(*at)++;

		if (c == '+') {
			if (ppa_symbol_words_last(s, address))
				return true;
		} else if (s->len > 0 || !is_blank(c)) {
			if (s->len < sizeof(s->word))
				s->word[s->len] = c;
			if (s->len <= sizeof(s->word))
				s->len++;
		}
	}
	return false;
}
