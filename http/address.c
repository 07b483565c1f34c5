/* SPDX-License-Identifier: Apache-2.0
 *
 * Parser of listening addresses. Each form is recognised by its shape alone, left to right, and anything left over is
 * an error: "127.0.0.1:6060x" must not quietly open port 6060. Literals go through inet_pton, which accepts neither
 * octal nor short forms, allocates nothing and knows no locale. An IPv6 zone ("%eth0") is refused: turning it into an
 * index asks the kernel through a socket of the target's. */
#include "http/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { LITERAL_MAX = 48 };

static const char not_understood[] = "expected host:port, :port, port or unix:/path";

/* All of text[0..len) is a port number. */
static int parse_port(const char *text, size_t len, uint16_t *port, const char **why)
{
	uint32_t n = 0;

	*why = "bad port number";
	if (len == 0 || len > 5)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -EINVAL;
		n = n * 10 + (uint32_t)(text[i] - '0');
	}
	*why = "port number above 65535";
	if (n > 65535)
		return -EINVAL;
	*port = (uint16_t)n;
	return 0;
}

static int parse_unix(const char *path, struct ppa_address *out, const char **why)
{
	size_t len = strlen(path);

	out->kind = PPA_ADDRESS_UNIX;
	*why = "a socket path must be absolute";
	if (path[0] != '/')
		return -EINVAL;
	*why = "socket path too long";
	if (len >= sizeof(out->pattern))
		return -EINVAL;
	*why = "a socket path cannot end in /";
	if (path[len - 1] == '/')
		return -EINVAL;
	*why = "in a socket path, % must be followed by p, e or %";
	for (size_t i = 0; i < len; i++) {
		if (path[i] != '%')
			continue;
		i++;
		if (path[i] != 'p' && path[i] != 'e' && path[i] != '%')
			return -EINVAL;
	}
	memcpy(out->pattern, path, len + 1);
	return 0;
}

/* host is what stands before the port's colon, brackets removed. */
static int parse_host(const char *host, size_t len, bool in_brackets, struct ppa_address *out, const char **why)
{
	static const uint8_t zero[16];
	char literal[LITERAL_MAX];

	*why = "host is not an IP address (names are not looked up)";
	if (len >= sizeof(literal))
		return -EINVAL;
	memcpy(literal, host, len);
	literal[len] = '\0';
	if (in_brackets) {
		if (inet_pton(AF_INET6, literal, out->ip) != 1) {
			*why = "bad IPv6 address in brackets";
			return -EINVAL;
		}
		out->kind = memcmp(out->ip, zero, sizeof(zero)) ? PPA_ADDRESS_IP6 : PPA_ADDRESS_ANY;
		return 0;
	}
	if (len == 0) {
		out->kind = PPA_ADDRESS_ANY;
		return 0;
	}
	out->kind = PPA_ADDRESS_IP4;
	return inet_pton(AF_INET, strcmp(literal, "localhost") ? literal : "127.0.0.1", out->ip) == 1 ? 0 : -EINVAL;
}

static int parse_tcp(const char *text, size_t len, struct ppa_address *out, const char **why)
{
	const char *end = text + len, *colon;

	if (len > 0 && text[0] == '[') {
		const char *close = memchr(text, ']', len);

		*why = "expected [address]:port";
		if (!close || close + 1 == end || close[1] != ':')
			return -EINVAL;
		if (parse_port(close + 2, (size_t)(end - close - 2), &out->port, why))
			return -EINVAL;
		return parse_host(text + 1, (size_t)(close - text - 1), true, out, why);
	}
	colon = memchr(text, ':', len);
	if (!colon) {
		if (parse_port(text, len, &out->port, why)) {
			*why = not_understood;
			return -EINVAL;
		}
		return parse_host("localhost", 9, false, out, why);
	}
	*why = "an IPv6 address needs brackets: [::1]:6060";
	if (memchr(colon + 1, ':', (size_t)(end - colon - 1)))
		return -EINVAL;
	if (parse_port(colon + 1, (size_t)(end - colon - 1), &out->port, why))
		return -EINVAL;
	return parse_host(text, (size_t)(colon - text), false, out, why);
}

int ppa_address_parse(const char *text, struct ppa_address *out, const char **why)
{
	const char *unused;
	size_t len;

	if (!why)
		why = &unused;
	memset(out, 0, sizeof(*out));
	if (!strncmp(text, "unix:", 5))
		return parse_unix(text + 5, out, why);
	if (!strncmp(text, "http://", 7))
		text += 7;
	len = strlen(text);
	if (len > 0 && text[len - 1] == '/')
		len--;
	if (len == 0) {
		*why = not_understood;
		return -EINVAL;
	}
	return parse_tcp(text, len, out, why);
}

bool ppa_address_is_loopback(const struct ppa_address *a)
{
	static const uint8_t one[16] = {[15] = 1};
	static const uint8_t mapped[13] = {[10] = 0xff, [11] = 0xff, [12] = 127};

	switch (a->kind) {
	case PPA_ADDRESS_IP4:
		return a->ip[0] == 127;
	case PPA_ADDRESS_IP6:
		return !memcmp(a->ip, one, sizeof(one)) || !memcmp(a->ip, mapped, sizeof(mapped));
	case PPA_ADDRESS_ANY:
		return false;
	case PPA_ADDRESS_UNIX:
		return true;
	}
	return false;
}

int ppa_address_expand(const char *pattern, const char *program, pid_t pid, char *buf, size_t cap)
{
	char number[16];
	size_t n = 0;

	snprintf(number, sizeof(number), "%d", (int)pid);
	for (const char *p = pattern; *p; p++) {
		const char *part = p;
		size_t len = 1;

		if (p[0] == '%' && p[1]) {
			p++;
			part = *p == 'p' ? number : *p == 'e' ? program : p;
			len = part == p ? 1 : strlen(part);
		}
		if (len >= cap || n >= cap - len)
			return -ENAMETOOLONG;
		for (size_t i = 0; i < len; i++)
			buf[n++] = part == program && part[i] == '/' ? '_' : part[i];
	}
	buf[n] = '\0';
	return (int)n;
}
