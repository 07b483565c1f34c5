/* SPDX-License-Identifier: Apache-2.0
 *
 * The Host check must not be talked round by near misses: the text is split into host and port first, then the host as a
 * whole must be a literal ("127.0.0.1.example.org" is a name) or localhost, in any case, with or without the root's dot.
 *
 * Sec-Fetch-Site: "same-site" is refused as well, because it disregards the port: another program's page on this machine
 * is the same site. A value that does not exist yet is refused. */
#include "http/access.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>

enum { LITERAL_MAX = 48 };

static bool is_port(const char *p)
{
	if (*p == '\0')
		return true;
	if (*p++ != ':')
		return false;
	while (*p >= '0' && *p <= '9')
		p++;
	return *p == '\0';
}

static bool is_localhost(const char *text)
{
	static const char name[] = "localhost";
	size_t i = 0;

	while (name[i] && (text[i] | 0x20) == name[i])
		i++;
	return !name[i] && (text[i] == '\0' || (text[i] == '.' && text[i + 1] == '\0'));
}

bool ppa_access_host_is_allowed(const char *host)
{
	uint8_t ip[16];
	char text[LITERAL_MAX];
	size_t len;

	if (!host || !*host)
		return true;
	if (*host == '[') {
		len = strcspn(++host, "]");
		if (len >= sizeof(text) || host[len] != ']' || !is_port(host + len + 1))
			return false;
		memcpy(text, host, len);
		text[len] = '\0';
		return inet_pton(AF_INET6, text, ip) == 1;
	}
	len = strcspn(host, ":");
	if (len >= sizeof(text) || !is_port(host + len))
		return false;
	memcpy(text, host, len);
	text[len] = '\0';
	return is_localhost(text) || inet_pton(AF_INET, text, ip) == 1;
}

static char lower(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

static bool is_same(const char *a, const char *b)
{
	while (*a && lower(*a) == lower(*b)) {
		a++;
		b++;
	}
	return lower(*a) == lower(*b);
}

bool ppa_access_origin_is_allowed(const char *fetch_site, const char *origin, const char *host)
{
	if (fetch_site)
		return is_same(fetch_site, "same-origin") || is_same(fetch_site, "none");
	if (!origin)
		return true;
	if (!strncmp(origin, "http://", 7))
		origin += 7;
	else if (!strncmp(origin, "https://", 8))
		origin += 8;
	else
		return false;
	return host && is_same(origin, host);
}
