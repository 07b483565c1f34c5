/* SPDX-License-Identifier: Apache-2.0
 *
 * Go's query rules, without building a map: each lookup walks the string once. Queries here have a handful of pairs.
 * Keys and values are decoded as they are compared or copied, so no buffer limits the length of a foreign pair. */
#include "http/query.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int ppa_query_hex_byte(const char *two)
{
	int high = hex_digit(two[0]), low = high < 0 ? -1 : hex_digit(two[1]);

	return low < 0 ? -1 : high << 4 | low;
}

/* Does Go's parser keep the pair at all? Both halves must decode and no ';' may stand in it. */
static bool pair_is_valid(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (p[i] == ';')
			return false;
		if (p[i] != '%')
			continue;
		if (len - i < 3 || ppa_query_hex_byte(p + i + 1) < 0)
			return false;
		i += 2;
	}
	return true;
}

/* The next decoded byte of a valid escape sequence; moves *at past it. */
static char decode_next(const char *p, size_t *at)
{
	char c = p[(*at)++];

	if (c == '+')
		return ' ';
	if (c != '%')
		return c;
	c = (char)ppa_query_hex_byte(p + *at);
	*at += 2;
	return c;
}

static bool decodes_to(const char *p, size_t len, const char *key)
{
	size_t at = 0, n = strlen(key), i = 0;

	while (at < len) {
		if (decode_next(p, &at) != (i < n ? key[i] : '\0') || i >= n)
			return false;
		i++;
	}
	return i == n;
}

static int copy_decoded(const char *p, size_t len, char *buf, size_t cap)
{
	size_t at = 0, n = 0;

	while (at < len) {
		char c = decode_next(p, &at);

		if (n + 1 >= cap)
			return -E2BIG;
		buf[n++] = c;
	}
	if (n == 0)
		return -ENOENT;
	buf[n] = '\0';
	return (int)n;
}

int ppa_query_get(const char *query, const char *key, char *buf, size_t cap)
{
	const char *p = query ? query : "";

	while (*p) {
		size_t len = strcspn(p, "&");
		const char *equals = memchr(p, '=', len);
		size_t key_len = equals ? (size_t)(equals - p) : len;

		if (len > 0 && pair_is_valid(p, len) && decodes_to(p, key_len, key)) {
			if (!equals)
				return -ENOENT;
			return copy_decoded(equals + 1, len - key_len - 1, buf, cap);
		}
		p += len;
		if (*p == '&')
			p++;
	}
	return -ENOENT;
}

int ppa_query_parse_int(const char *text, int64_t *out)
{
	bool is_negative = text[0] == '-';
	uint64_t limit = is_negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX, n = 0;
	bool is_too_big = false;

	if (text[0] == '-' || text[0] == '+')
		text++;
	if (!*text)
		return -EINVAL;
	for (; *text; text++) {
		uint64_t digit = (uint64_t)(unsigned char)*text - '0';

		if (*text < '0' || *text > '9')
			return -EINVAL;
		if (n > (limit - digit) / 10)
			is_too_big = true;
		else
			n = n * 10 + digit;
	}
	if (is_too_big)
		return -ERANGE;
	*out = is_negative ? (int64_t)(0 - n) : (int64_t)n;
	return 0;
}

int ppa_query_get_int(const char *query, const char *key, int64_t *out)
{
	char text[64];
	int n = ppa_query_get(query, key, text, sizeof(text));

	if (n == -E2BIG)
		return -EINVAL;
	if (n < 0)
		return n;
	/* "5%00" is five bytes of number and a NUL to Go: not a number. */
	if (strlen(text) != (size_t)n)
		return -EINVAL;
	return ppa_query_parse_int(text, out);
}

/* ---- seconds ---- */

/* mantissa * 10^exponent; digits beyond what mantissa holds are only counted. */
struct decimal {
	uint64_t mantissa;
	int64_t exponent;
	bool is_negative, has_digits;
};

static const char *read_digits(const char *text, struct decimal *d, bool is_fraction)
{
	enum { EXPONENT_MAX = 1000000 };

	for (; *text >= '0' && *text <= '9'; text++) {
		bool is_kept = d->mantissa < UINT64_MAX / 10 - 1;

		d->has_digits = true;
		if (is_kept)
			d->mantissa = 10 * d->mantissa + (uint64_t)(*text - '0');
		if (is_kept == is_fraction && d->exponent > -EXPONENT_MAX && d->exponent < EXPONENT_MAX)
			d->exponent += is_fraction ? -1 : 1;
	}
	return text;
}

static int read_decimal(const char *text, struct decimal *d)
{
	int64_t e;

	d->is_negative = *text == '-';
	text += *text == '-' || *text == '+';
	text = read_digits(text, d, false);
	if (*text == '.')
		text = read_digits(text + 1, d, true);
	if (!d->has_digits)
		return -EINVAL;
	if (*text == 'e' || *text == 'E') {
		int err = ppa_query_parse_int(text + 1, &e);

		if (err == -EINVAL)
			return err;
		if (err || e > INT32_MAX || e < INT32_MIN)
			e = text[1] == '-' ? INT32_MIN : INT32_MAX;
		d->exponent += e;
		text = "";
	}
	return *text ? -EINVAL : 0;
}

static int to_ns(struct decimal d, int64_t *ns)
{
	enum { NS_DIGITS = 9 };

	for (d.exponent += NS_DIGITS; d.exponent > 0 && d.mantissa; d.exponent--)
		if (__builtin_mul_overflow(d.mantissa, 10, &d.mantissa))
			return -ERANGE;
	for (; d.exponent < 0 && d.mantissa; d.exponent++)
		d.mantissa /= 10;
	if (d.mantissa > INT64_MAX)
		return -ERANGE;
	*ns = d.is_negative ? -(int64_t)d.mantissa : (int64_t)d.mantissa;
	return 0;
}

int ppa_query_get_seconds(const char *query, const char *key, int64_t *ns)
{
	struct decimal d = {0, 0, false, false};
	char text[64];
	int n = ppa_query_get(query, key, text, sizeof(text)), err;

	if (n == -E2BIG)
		return -EINVAL;
	if (n < 0)
		return n;
	if (strlen(text) != (size_t)n)
		return -EINVAL;
	err = read_decimal(text, &d);
	return err ? err : to_ns(d, ns);
}
