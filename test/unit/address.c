/* SPDX-License-Identifier: Apache-2.0 */
// link: http/address.c
/* Promise: every documented form of PPROF_ADDR means what the documentation says; everything else is refused with a
 * reason, and never read as a shorter address.
 * Promise: a socket path is expanded within its buffer or not at all. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "http/address.h"

static struct ppa_address parsed(const char *text)
{
	struct ppa_address a;
	const char *why = "";

	if (ppa_address_parse(text, &a, &why))
		fail_msg("%s refused: %s", text, why);
	return a;
}

static void is_ip4(const char *text, uint32_t ip, uint16_t port)
{
	struct ppa_address a = parsed(text);

	assert_int_equal(a.kind, PPA_ADDRESS_IP4);
	assert_int_equal((uint32_t)a.ip[0] << 24 | a.ip[1] << 16 | a.ip[2] << 8 | a.ip[3], ip);
	assert_int_equal(a.port, port);
}

static void loopback_forms(void **state)
{
	(void)state;
	is_ip4("6060", 0x7f000001, 6060);
	is_ip4("127.0.0.1:6060", 0x7f000001, 6060);
	is_ip4("localhost:6060", 0x7f000001, 6060);
	is_ip4("127.0.0.1:0", 0x7f000001, 0);
	is_ip4("http://127.0.0.1:6060/", 0x7f000001, 6060);
	is_ip4("http://localhost:65535", 0x7f000001, 65535);
	is_ip4("6060/", 0x7f000001, 6060);
	is_ip4("0.0.0.0:80", 0, 80);
	is_ip4("10.1.2.3:00080", 0x0a010203, 80);
}

static void ip6_and_every_interface(void **state)
{
	struct ppa_address a = parsed("[::1]:6060");

	(void)state;
	assert_int_equal(a.kind, PPA_ADDRESS_IP6);
	assert_int_equal(a.ip[15], 1);
	assert_int_equal(parsed("[fe80::1:2]:1").ip[0], 0xfe);
	assert_int_equal(parsed(":6060").kind, PPA_ADDRESS_ANY);
	assert_int_equal(parsed(":6060").port, 6060);
	assert_int_equal(parsed(":0").port, 0);
	assert_int_equal(parsed("http://:6060/").kind, PPA_ADDRESS_ANY);
	assert_int_equal(parsed("[::]:6060").kind, PPA_ADDRESS_ANY);
}

static void unix_paths(void **state)
{
	struct ppa_address a = parsed("unix:/run/%e-%p.%%sock");

	(void)state;
	assert_int_equal(a.kind, PPA_ADDRESS_UNIX);
	assert_string_equal(a.pattern, "/run/%e-%p.%%sock");
}

static void the_rest_is_refused_with_a_reason(void **state)
{
	static const char *const bad[] = {
		"",
		"/",
		" ",
		"nonsense",
		":",
		":66000",
		":65536",
		":-1",
		":+1",
		":60 60",
		":6060 ",
		" :6060",
		"65536",
		"999999",
		"6060x",
		"0x50",
		"127.0.0.1",
		"127.0.0.1:",
		"127.0.0.1:x",
		"127.0.0.1:6060x",
		"127.0.0.1:6060:1",
		"127.1:6060",
		"1.2.3.4.5:80",
		"256.0.0.1:80",
		"host:80",
		"host name:80",
		"LOCALHOST.:1",
		"::1:6060",
		"[::1]",
		"[::1]:",
		"[::1]6060",
		"[::1:6060",
		"[]:1",
		"[127.0.0.1]:1",
		"[fe80::1%eth0]:1",
		"[::g]:1",
		"https://127.0.0.1:1",
		"http://",
		"http:///",
		"http://127.0.0.1:1/x",
		"127.0.0.1:1//",
		"*:80",
		"unix:",
		"unix:relative",
		"unix:/",
		"unix:/dir/",
		"unix:/a%",
		"unix:/a%x",
		"unix:@name",
		"http://unix:/x",
		"127.0.0.1:\n80",
	};
	struct ppa_address a;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		const char *why = NULL;

		if (!ppa_address_parse(bad[i], &a, &why))
			fail_msg("accepted: \"%s\"", bad[i]);
		assert_non_null(why);
		assert_true(strlen(why) > 5);
	}
	assert_int_equal(ppa_address_parse("x", &a, NULL), -EINVAL);
}

static void very_long_texts_are_refused(void **state)
{
	char text[5001];
	struct ppa_address a;
	const char *why;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(ppa_address_parse(text, &a, &why), -EINVAL);
	memcpy(text, "unix:/", 6);
	assert_int_equal(ppa_address_parse(text, &a, &why), -EINVAL);
	memcpy(text, "[", 1);
	memcpy(text + 4990, "]:80", 5);
	assert_int_equal(ppa_address_parse(text, &a, &why), -EINVAL);
	memcpy(text, "1", 1);
	memcpy(text + 4990, ":80", 4);
	assert_int_equal(ppa_address_parse(text, &a, &why), -EINVAL);
}

static bool is_loopback(const char *text)
{
	struct ppa_address a = parsed(text);

	return ppa_address_is_loopback(&a);
}

static void loopback_is_told_from_the_network(void **state)
{
	(void)state;
	assert_true(is_loopback("6060"));
	assert_true(is_loopback("127.3.2.1:1"));
	assert_true(is_loopback("[::1]:1"));
	assert_true(is_loopback("[::ffff:127.0.0.1]:1"));
	assert_true(is_loopback("unix:/x"));
	assert_false(is_loopback(":6060"));
	assert_false(is_loopback("0.0.0.0:1"));
	assert_false(is_loopback("128.0.0.1:1"));
	assert_false(is_loopback("[::2]:1"));
	assert_false(is_loopback("[1::1]:1"));
	assert_false(is_loopback("[::ffff:10.0.0.1]:1"));
}

static void paths_expand_within_the_buffer(void **state)
{
	char buf[16];

	(void)state;
	assert_int_equal(ppa_address_expand("/%e-%p%%", "redis", 42, buf, sizeof(buf)), 10);
	assert_string_equal(buf, "/redis-42%");
	assert_int_equal(ppa_address_expand("/%e", "a/b", 1, buf, sizeof(buf)), 4);
	assert_string_equal(buf, "/a_b");
	assert_int_equal(ppa_address_expand("/34567890123456", "", 1, buf, sizeof(buf)), 15);
	assert_int_equal(ppa_address_expand("/345678901234567", "", 1, buf, sizeof(buf)), -ENAMETOOLONG);
	assert_int_equal(ppa_address_expand("/%e", "a very long program name", 1, buf, sizeof(buf)), -ENAMETOOLONG);
	assert_int_equal(ppa_address_expand("", "", 1, buf, sizeof(buf)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loopback_forms),
		cmocka_unit_test(ip6_and_every_interface),
		cmocka_unit_test(unix_paths),
		cmocka_unit_test(the_rest_is_refused_with_a_reason),
		cmocka_unit_test(very_long_texts_are_refused),
		cmocka_unit_test(loopback_is_told_from_the_network),
		cmocka_unit_test(paths_expand_within_the_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
