/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparing: both sides are padded to the same length and compared as a whole, so neither where the first wrong byte is
 * nor how long the token is changes what is executed. Only the length of what the client itself sent does.
 *
 * The file: regular, not for everybody to read (an unprivileged neighbour would have the token) and not for a group to
 * write. A group may read it, because that is how an orchestrator hands a secret to a program that is not root. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "http/token.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "agent/base/log.h"
#include "agent/base/sys.h"
#include "http/net.h"

enum { PATH_MAX_BYTES = 512, FILE_MAX = 2 * PPA_TOKEN_MAX };

static struct {
	/* set by the keeper before any worker exists */
	bool is_required;
	char path[PATH_MAX_BYTES];
	/* what was last said about the file, a static text; NULL: nothing is wrong */
	_Atomic(const char *) said;
} state;

/* ---- pure parts ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

size_t ppa_token_parse(const char *text, size_t len, const char **token, const char **why)
{
	while (len > 0 && is_blank(text[len - 1]))
		len--;
	while (len > 0 && is_blank(*text)) {
		text++;
		len--;
	}
	*token = text;
	*why = len == 0 ? "is empty" : "holds a token of more than 256 bytes";
	if (len == 0 || len > PPA_TOKEN_MAX)
		return 0;
	for (size_t i = 0; i < len; i++) {
		if (text[i] <= ' ' || text[i] > '~') {
			*why = "holds more than one word of ASCII";
			return 0;
		}
	}
	return len;
}

bool ppa_token_equals(const char *given, size_t given_len, const char *token, size_t token_len)
{
	char a[PPA_TOKEN_MAX] = "", b[PPA_TOKEN_MAX] = "";
	/* volatile: the compiler must not find out that one difference is enough. */
	volatile unsigned char differs = given_len != token_len;

	memcpy(a, given, given_len);
	memcpy(b, token, token_len);
	for (size_t i = 0; i < PPA_TOKEN_MAX; i++)
		differs = (unsigned char)(differs | (a[i] ^ b[i]));
	return !differs;
}

static int base64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decode text into what follows its first ':', the password. Its length, 0 if it is no base64 or does not fit. */
static size_t password_of(const char *text, char *buf)
{
	bool is_password = false;
	uint32_t bits = 0;
	unsigned nbits = 0;
	size_t n = 0;
	int digit;

	for (; (digit = base64_digit(*text)) >= 0; text++) {
		char c;

		bits = bits << 6 | (uint32_t)digit;
		nbits += 6;
		if (nbits < 8)
			continue;
		nbits -= 8;
		c = (char)(bits >> nbits & 0xff);
		if (is_password && n == PPA_TOKEN_MAX)
			return 0;
		if (is_password)
			buf[n++] = c;
		is_password |= c == ':';
	}
	while (*text == '=' || is_blank(*text))
		text++;
	return *text ? 0 : n;
}

/* What follows the scheme, NULL if it is another one. */
static const char *after_scheme(const char *header, const char *scheme)
{
	while (*scheme && (*header | 0x20) == *scheme) {
		header++;
		scheme++;
	}
	if (*scheme || *header != ' ')
		return NULL;
	while (*header == ' ')
		header++;
	return header;
}

size_t ppa_token_offered(const char *authorization, char buf[static PPA_TOKEN_MAX])
{
	const char *bearer = after_scheme(authorization, "bearer"), *basic = after_scheme(authorization, "basic");
	size_t len;

	if (basic)
		return password_of(basic, buf);
	if (!bearer)
		return 0;
	len = strlen(bearer);
	while (len > 0 && is_blank(bearer[len - 1]))
		len--;
	if (len > PPA_TOKEN_MAX)
		return 0;
	memcpy(buf, bearer, len);
	return len;
}

/* ---- the file ---- */

static const char *fault_of(int fd)
{
	struct stat st;

	if (fd == -ENOENT)
		return "does not exist";
	if (fd < 0)
		return ppa_net_error_text(-fd);
	if (ppa_syscall(SYS_fstat, fd, (long)&st, 0, 0, 0, 0))
		return "cannot be looked at";
	if (!S_ISREG(st.st_mode))
		return "is no regular file";
	if (st.st_mode & (S_IRWXO | S_IWGRP))
		return "is open to everybody (chmod 600, or 640 for a group)";
	return NULL;
}

/* The token's length and, in buf, the token; 0 with a reason in *why. */
static size_t read_token(char buf[static FILE_MAX], const char **token, const char **why)
{
	long n;
	int fd;

	*why = "is no absolute path";
	if (state.path[0] != '/')
		return 0;
	fd = ppa_net_adopt(ppa_sys_open_read(state.path));
	*why = fault_of(fd);
	n = *why ? 0 : ppa_sys_pread(fd, buf, FILE_MAX, 0);
	if (fd >= 0)
		ppa_sys_close(fd);
	if (*why)
		return 0;
	*why = "cannot be read";
	return n < 0 ? 0 : ppa_token_parse(buf, (size_t)n, token, why);
}

/* Say what is wrong with the file, unless that was the last word about it. */
static void say(const char *why)
{
	if (atomic_exchange_explicit(&state.said, why, memory_order_relaxed) == why)
		return;
	if (why)
		ppa_log("PPROF_TOKEN_FILE=%.200s: %s; nobody is let in", state.path, why);
	else
		ppa_log("PPROF_TOKEN_FILE=%.200s: can be used again", state.path);
}

void ppa_token_set_file(const char *path)
{
	char buf[FILE_MAX];
	const char *token, *why;
	size_t len = strlen(path);

	memset(&state, 0, sizeof(state));
	state.is_required = len > 0;
	if (len < sizeof(state.path))
		memcpy(state.path, path, len + 1);
	if (state.is_required && !read_token(buf, &token, &why))
		say(why);
}

bool ppa_token_admits(const char *authorization)
{
	char file[FILE_MAX], offered[PPA_TOKEN_MAX];
	const char *token, *why = NULL;
	size_t len, n;

	if (!state.is_required)
		return true;
	len = read_token(file, &token, &why);
	say(len ? NULL : why);
	n = authorization ? ppa_token_offered(authorization, offered) : 0;
	return len > 0 && n > 0 && ppa_token_equals(offered, n, token, len);
}
