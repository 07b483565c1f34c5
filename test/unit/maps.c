/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/module/maps.c
/* Promise: every line the kernel writes is understood, paths with blanks included.
 * Promise: any other line is skipped and counted, and never read beyond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <cmocka.h>

#include "unwind/module/maps.h"

/* The text in memory of exactly its size, so that a sanitizer sees a byte too far. */
static struct ppa_map parse(const char *text, int *lines, size_t *skipped)
{
	size_t len = strlen(text), bad = 0;
	char *copy = malloc(len + 1), *path;
	const char *pos = copy;
	struct ppa_map m, first = {0};

	*lines = 0;
	memcpy(copy, text, len);
	copy = realloc(copy, len ? len : 1);
	pos = copy;
	while (ppa_maps_next(&pos, copy + len, &m, &bad))
		if (!(*lines)++)
			first = m;
	if (*lines) {
		path = calloc(1, first.path_len + 1);
		memcpy(path, first.path, first.path_len);
		first.path = path;
	}
	*skipped = bad;
	free(copy);
	return first;
}

static struct ppa_map one(const char *text)
{
	int lines;
	size_t skipped;
	struct ppa_map m = parse(text, &lines, &skipped);

	assert_int_equal(lines, 1);
	assert_int_equal(skipped, 0);
	return m;
}

static void none(const char *text, size_t bad)
{
	int lines;
	size_t skipped;

	parse(text, &lines, &skipped);
	assert_int_equal(lines, 0);
	assert_int_equal(skipped, bad);
}

static void a_file(void **state)
{
	struct ppa_map m = one("7f0012345000-7f0012367000 r-xp 00022000 fe:01 1234567                    "
			       "/usr/lib/x86_64-linux-gnu/libc.so.6\n");

	(void)state;
	assert_true(m.start == 0x7f0012345000 && m.end == 0x7f0012367000 && m.offset == 0x22000);
	assert_true(m.readable && !m.writable && m.executable && !m.deleted);
	assert_true(m.ino == 1234567 && m.dev == makedev(0xfe, 1));
	assert_string_equal(m.path, "/usr/lib/x86_64-linux-gnu/libc.so.6");
	free((char *)m.path);
}

static void a_deleted_file_with_blanks(void **state)
{
	struct ppa_map m = one("1000-2000 rw-s 00000000 00:2f 9 /tmp/a file (deleted) (deleted)");

	(void)state;
	assert_true(m.deleted && m.readable && m.writable && !m.executable);
	assert_string_equal(m.path, "/tmp/a file (deleted)");
	free((char *)m.path);
}

static void no_file(void **state)
{
	struct ppa_map m = one("00400000-00401000 ---p 00000000 00:00 0 \n"), v;

	(void)state;
	assert_true(m.ino == 0 && m.path_len == 0 && !m.readable);
	free((char *)m.path);
	m = one("1000-2000 r-xp 00000000 00:00 0");
	assert_int_equal(m.path_len, 0);
	free((char *)m.path);
	v = one("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n");
	assert_string_equal(v.path, "[vsyscall]");
	assert_true(v.executable && !v.readable);
	free((char *)v.path);
}

static void bad_lines_are_skipped(void **state)
{
	int lines;
	size_t skipped;
	struct ppa_map m;

	(void)state;
	none("", 0);
	none("\n\n", 2);
	none("1000-1000 r-xp 00000000 00:00 0\n", 1); /* empty */
	none("2000-1000 r-xp 00000000 00:00 0\n", 1);
	none("1000-2000 r-x", 1);
	none("1000-2000 r-xq 0 0:0 0", 1);
	none("1000-2000 q-xp 0 0:0 0", 1);
	none("1000-20000000000000000 r-xp 0 0:0 0", 1); /* more than 64 bits */
	none("1000-2000 r-xp 0 1ffffffff:0 0", 1);
	none("1000-2000 r-xp 0 0:0 12x", 1);
	none("1000-2000 r-xp 0 0:0 18446744073709551616", 1);
	none("-1000-2000 r-xp 0 0:0 0", 1);
	m = parse("garbage\n1000-2000 r-xp 0 0:0 0 x\nmore", &lines, &skipped);
	assert_true(lines == 1 && skipped == 2 && m.start == 0x1000);
	free((char *)m.path);
}

static void devices_are_numbered_as_stat_does(void **state)
{
	(void)state;
	for (unsigned major = 0; major < 0x20000; major = major * 3 + 1)
		for (unsigned minor = 0; minor < 0x2000000; minor = minor * 5 + 1)
			assert_true(ppa_maps_dev(major, minor) == makedev(major, minor));
}

/* Our own maps: nothing skipped, sorted, and the code of this function in an executable mapping. */
static void the_kernels_own_text(void **state)
{
	static char text[1 << 20];
	FILE *f = fopen("/proc/self/maps", "r");
	size_t len = fread(text, 1, sizeof(text), f), skipped = 0;
	const char *pos = text;
	uintptr_t last = 0;
	struct ppa_map m;
	int found = 0;

	(void)state;
	fclose(f);
	while (ppa_maps_next(&pos, text + len, &m, &skipped)) {
		assert_true(m.start >= last);
		last = m.end;
		if ((uintptr_t)&the_kernels_own_text >= m.start && (uintptr_t)&the_kernels_own_text < m.end)
			found += m.executable;
	}
	assert_int_equal(skipped, 0);
	assert_int_equal(found, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file),
		cmocka_unit_test(a_deleted_file_with_blanks),
		cmocka_unit_test(no_file),
		cmocka_unit_test(bad_lines_are_skipped),
		cmocka_unit_test(devices_are_numbered_as_stat_does),
		cmocka_unit_test(the_kernels_own_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
