/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/jit/jit.c unwind/jit/jit_words.c unwind/jit/codemap.c unwind/jit/perfmap.c unwind/jit/jitdump.c unwind/module/maps.c unwind/module/maps_read.c agent/base/sys.c test/fakes/vheap.c
/* Promise: perf maps and jit dumps are read as they grow, each byte once; the newest word counts; a line or record that is
 * being written waits.
 * Promise: a file that is not our user's own, a link or no regular file is not looked into.
 * Promise: a file that is cut or replaced while it is read costs names, no more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "test/fakes/vheap.h"
#include "unwind/jit/codemap.h"
#include "unwind/jit/jit.h"
#include "unwind/jit/jitdump.h"
#include "unwind/jit/perfmap.h"

static char buf[PPA_JIT_WORDS_BYTES], path[64];
static struct ppa_jit_words words;
static uintptr_t start;

static const char *symbol(uintptr_t pc)
{
	return ppa_jit_find(pc, buf, sizeof(buf), &words, &start) ? words.symbol : "";
}

static void append(const char *text, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	close(fd);
}

static int clean(void **state)
{
	(void)state;
	unlink(path);
	ppa_jit_trim();
	return fake_vheap_live != 0;
}

static int name_map(void **state)
{
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	return clean(state);
}

/* ---- words ---- */

static void runtimes_lines_become_fields(void **state)
{
	static const struct {
		const char *text, *symbol, *name, *file;
		int64_t line;
	} cases[] = {
		{"JS:*middle /srv/app.js:12:17", NULL, "middle", "/srv/app.js", 12},
		{"JS:~get size node:internal/url:100:5", NULL, "get size", "node:internal/url", 100},
		{"JS:^f /a dir/b c.js:1:2", NULL, "f", "/a dir/b c.js", 1},
		{"JS:+'g file:///x/y.mjs:7:1", NULL, "g", "file:///x/y.mjs", 7},
		{"LazyCompile:*h lib.js:3:4", NULL, "h", "lib.js", 3},
		{"JS:~ /srv/app.js:1:1", NULL, "(anonymous)", "/srv/app.js", 1},
		{"Script:~ /srv/app.js:1:1", NULL, "(anonymous)", "/srv/app.js", 1},
		{"JS:*f", NULL, "JS:*f", "", 0},
		{"JS::1:2", NULL, "JS::1:2", "", 0},
		{"JS:5:17", NULL, "JS:5:17", "", 0},
		{"JS:*f /x.js:99999999999:1", NULL, "JS:*f /x.js:99999999999:1", "", 0},
		{"Builtin:ArrayMap", NULL, "Builtin:ArrayMap", "", 0},
		{"py::busy:/srv/app.py", NULL, "py::busy", "/srv/app.py", 0},
		{"py::A.<lambda>:/srv/app.py", NULL, "py::A.<lambda>", "/srv/app.py", 0},
		{"py::<module>:<frozen os>", NULL, "py::<module>", "<frozen os>", 0},
		{"py::f:rel.py", NULL, "py::f", "rel.py", 0},
		{"py::", NULL, "py::", "", 0},
		{"double shop.Cart.total(int, java.util.List)", NULL, "shop.Cart.total", "", 0},
		{"StubRoutines (1)", NULL, "StubRoutines (1)", "", 0},
		{"void (int)", NULL, "void (int)", "", 0},
		{"a.b.C::f(int) [x]", NULL, "a.b.C::f(int) [x]", "", 0},
		{"py::f", NULL, "py::f", "", 0},
		{"Lcom/foo/Bar;::run", NULL, "Lcom/foo/Bar;::run", "", 0},
		{"run\1/src/Bar.java\1"
		 "41",
		 "run", "run", "/src/Bar.java", 41},
		{"run\1/src/Bar.java", "run", "run", "", 0},
		{"JS:*f /x.js:1:2\1/y.js\1"
		 "9",
		 "JS:*f /x.js:1:2", "f", "/x.js", 1},
		{"", NULL, "", "", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ppa_jit_words(cases[i].text, buf, sizeof(buf), &words);
		assert_string_equal(words.symbol, cases[i].symbol ? cases[i].symbol : cases[i].text);
		assert_string_equal(words.name, cases[i].name);
		assert_string_equal(words.file, cases[i].file);
		assert_int_equal(words.line, cases[i].line);
		for (size_t cap = 0; cap < 80; cap++) { /* short of room: cut, and never beyond it */
			char *small = malloc(cap ? cap : 1);

			ppa_jit_words(cases[i].text, small, cap, &words);
			assert_true(strlen(words.symbol) + strlen(words.name) + strlen(words.file) <= cap);
			free(small);
		}
	}
}

/* ---- perf maps ---- */

static void a_map_is_read_as_it_grows(void **state)
{
	static const char first[] = "1000 20 one\n0x2000 0x10 two\r\nnonsense\n\n3000 10\n4000 zz x\n5000 10 fi";
	static const char rest[] = "ve and more\n1000 20 another\n";

	(void)state;
	append(first, sizeof(first) - 1);
	ppa_jit_refresh(0);
	assert_string_equal(symbol(0x1000), "one");
	assert_string_equal(symbol(0x201f), "");
	assert_string_equal(symbol(0x200f), "two");
	assert_int_equal(start, 0x2000);
	assert_string_equal(symbol(0x3000), "");
	assert_string_equal(symbol(0x4000), "");
	assert_string_equal(symbol(0x5000), "");
	append(rest, sizeof(rest) - 1);
	ppa_jit_refresh(UINT64_C(3600) * 1000000000); /* not yet */
	assert_string_equal(symbol(0x5000), "");
	ppa_jit_refresh(0);
	assert_string_equal(symbol(0x5000), "five and more");
	assert_string_equal(symbol(0x101f), "another");
	assert_true(ppa_jit_bytes() > 0);
	ppa_jit_trim();
	assert_string_equal(symbol(0x1000), "");
	assert_int_equal(ppa_jit_bytes(), 0);
	ppa_jit_refresh(0);
	assert_string_equal(symbol(0x101f), "another");
}

static void a_replaced_or_cut_map_is_read_anew(void **state)
{
	(void)state;
	append("1000 20 one\n2000 20 two\n", 24);
	ppa_jit_refresh(0);
	assert_int_equal(truncate(path, 0), 0);
	append("3000 10 new\n", 12);
	ppa_jit_refresh(0);
	assert_string_equal(symbol(0x1000), "");
	assert_string_equal(symbol(0x3000), "new");
	assert_int_equal(rename(path, "/tmp/ppa-test-jit.old"), 0);
	ppa_jit_refresh(0); /* gone: what was known stays */
	assert_string_equal(symbol(0x3000), "new");
	append("4000 10 newer than that, and longer\n", 36);
	ppa_jit_refresh(0);
	assert_string_equal(symbol(0x3000), "");
	assert_string_equal(symbol(0x4000), "newer than that, and longer");
	unlink("/tmp/ppa-test-jit.old");
}

static void only_an_own_regular_file_is_used(void **state)
{
	struct ppa_jit_gaps gaps;

	(void)state;
	ppa_jit_refresh(0);
	ppa_jit_gaps(&gaps);
	assert_false(gaps.is_foreign);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	ppa_jit_refresh(0);
	ppa_jit_gaps(&gaps);
	assert_true(gaps.is_foreign);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0); /* must not wait for a writer */
	ppa_jit_refresh(0);
	ppa_jit_gaps(&gaps);
	assert_true(gaps.is_foreign);
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	ppa_jit_refresh(0);
	rmdir(path);
	if (geteuid() == 0) {
		append("1000 10 somebody else's\n", 24);
		assert_int_equal(chown(path, 12345, 12345), 0);
		ppa_jit_refresh(0);
		ppa_jit_gaps(&gaps);
		assert_true(gaps.is_foreign);
		assert_string_equal(symbol(0x1000), "");
		assert_int_equal(chown(path, 0, 0), 0);
		ppa_jit_refresh(0);
		assert_string_equal(symbol(0x1000), "somebody else's");
	}
}

/* The reader by itself: an endless line, a huge file of which the end counts, a size that was true a moment ago. */
static void a_map_may_be_anything(void **state)
{
	struct ppa_codemap m = {.max_bytes = 8 << 20};
	struct ppa_perfmap p = {.at = 0};
	int fd = memfd_create("map", 0);
	char *line = malloc(200000);
	uint64_t at;

	(void)state;
	memset(line, 'a', 200000);
	assert_int_equal(write(fd, line, 200000), 200000);
	assert_int_equal(write(fd, "\n10 10 x\n", 9), 9);
	assert_int_equal(ppa_perfmap_read(&p, fd, 200009, &m), 0);
	assert_int_equal(p.at, 200009);
	assert_int_equal(ppa_codemap_settle(&m), 0);
	assert_string_equal(ppa_codemap_find(&m, 0x10, &at), "x");
	assert_int_equal(ftruncate(fd, 100), 0);
	assert_int_equal(ppa_perfmap_read(&p, fd, 300000, &m), 0); /* it is not */
	ppa_codemap_clear(&m);
	memset(&p, 0, sizeof(p));
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, "10 10 first\n", 12, 0), 12);
	assert_int_equal(pwrite(fd, "20 10 middle\n30 10 last\n", 24, (256 << 20) - 24), 24);
	assert_int_equal(ppa_perfmap_read(&p, fd, 256 << 20, &m), 0);
	assert_int_equal(ppa_codemap_settle(&m), 0);
	assert_null(ppa_codemap_find(&m, 0x10, &at));
	assert_null(ppa_codemap_find(&m, 0x20, &at)); /* its line began with the hole's zeros */
	assert_string_equal(ppa_codemap_find(&m, 0x30, &at), "last");
	assert_int_equal(p.passed_over, (256 << 20) - PPA_PERFMAP_MAX_BYTES);
	ppa_codemap_clear(&m);
	close(fd);
	free(line);
}

/* ---- jit dumps ---- */

static char dump[4096];
static size_t dump_len;

static void put(const void *bytes, size_t len)
{
	memcpy(dump + dump_len, bytes, len);
	dump_len += len;
}

static void put32(uint32_t x)
{
	put(&x, 4);
}

static void put64(uint64_t x)
{
	put(&x, 8);
}

static void put_head(void)
{
	dump_len = 0;
	put32(0x4A695444);
	put32(1);
	put32(40);
	put32(62);
	put32(0);
	put32((uint32_t)getpid());
	put64(1);
	put64(0);
}

static void put_load(uint64_t address, uint64_t size, const char *name)
{
	put32(0);
	put32((uint32_t)(16 + 40 + strlen(name) + 1 + size));
	put64(2);
	put32(1);
	put32(1);
	put64(address);
	put64(address);
	put64(size);
	put64(7);
	put(name, strlen(name) + 1);
	dump_len += size;
}

static void put_move(uint64_t from, uint64_t to, uint64_t size)
{
	put32(1);
	put32(16 + 48);
	put64(3);
	put32(1);
	put32(1);
	put64(to);
	put64(from);
	put64(to);
	put64(size);
	put64(7);
}

static void put_debug(uint64_t address, uint32_t line, const char *file)
{
	put32(2);
	put32((uint32_t)(16 + 16 + 16 + strlen(file) + 1));
	put64(2);
	put64(address);
	put64(1);
	put64(address);
	put32(line);
	put32(0);
	put(file, strlen(file) + 1);
}

static void a_dump_is_found_by_its_mapping(void **state)
{
	size_t half;
	void *seen;
	int fd;

	snprintf(path, sizeof(path), "/tmp/jit-%d.dump", (int)getpid());
	clean(state);
	put_head();
	put_load(0x1000, 32, "one");
	put_debug(0x2000, 41, "/src/two.c");
	put_load(0x2000, 32, "two");
	put_load(0x4000, 32, "four");
	half = dump_len - 40; /* in the middle of a record */
	append(dump, half);
	ppa_jit_refresh(0);
	assert_string_equal(symbol(0x1000), ""); /* nobody has it mapped */
	fd = open(path, O_RDONLY);
	seen = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_true(seen != MAP_FAILED);
	close(fd);
	ppa_jit_refresh(0);
	assert_string_equal(symbol(0x1000), "one");
	assert_string_equal(words.file, "");
	assert_string_equal(symbol(0x201f), "two");
	assert_string_equal(words.file, "/src/two.c");
	assert_int_equal(words.line, 41);
	assert_string_equal(symbol(0x4000), "");
	append(dump + half, dump_len - half);
	dump_len = 0;
	put_move(0x1000, 0x3000, 32);
	append(dump, dump_len);
	ppa_jit_refresh(0);
	assert_string_equal(symbol(0x4000), "four");
	assert_string_equal(words.file, "");
	assert_string_equal(symbol(0x1000), "");
	assert_string_equal(symbol(0x3010), "one");
	munmap(seen, 4096);
	ppa_jit_refresh(0);
	assert_string_equal(symbol(0x3010), "one");
	unlink(path);
	name_map(state);
}

static void a_dump_may_be_anything(void **state)
{
	struct ppa_codemap m = {.max_bytes = 8 << 20};
	struct ppa_jitdump d;
	int fd = memfd_create("dump", 0);
	uint64_t at;

	(void)state;
	put_head();
	put_load(0x1000, 32, "one");
	for (size_t i = 0; i < dump_len; i++) {
		char was = dump[i];

		dump[i] = (char)(was ^ 0x55);
		assert_int_equal(pwrite(fd, dump, dump_len, 0), dump_len);
		memset(&d, 0, sizeof(d));
		ppa_jitdump_read(&d, fd, dump_len, &m);
		dump[i] = was;
	}
	memset(&d, 0, sizeof(d));
	assert_int_equal(pwrite(fd, dump, dump_len, 0), dump_len);
	for (size_t size = 0; size <= dump_len; size++)
		assert_int_equal(ppa_jitdump_read(&d, fd, size, &m), 0);
	assert_int_equal(d.at, dump_len);
	assert_int_equal(ppa_codemap_settle(&m), 0);
	assert_string_equal(ppa_codemap_find(&m, 0x1000, &at), "one");
	ppa_codemap_clear(&m);
	assert_int_equal(ftruncate(fd, 45), 0); /* the size was true a moment ago */
	memset(&d, 0, sizeof(d));
	assert_int_equal(ppa_jitdump_read(&d, fd, dump_len, &m), 0);
	assert_int_equal(pwrite(fd, "no dump", 7, 0), 7);
	memset(&d, 0, sizeof(d));
	assert_int_not_equal(ppa_jitdump_read(&d, fd, dump_len, &m), 0);
	assert_true(d.is_broken);
	ppa_codemap_clear(&m);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runtimes_lines_become_fields),
		cmocka_unit_test_setup_teardown(a_map_is_read_as_it_grows, name_map, clean),
		cmocka_unit_test_setup_teardown(a_replaced_or_cut_map_is_read_anew, name_map, clean),
		cmocka_unit_test_setup_teardown(only_an_own_regular_file_is_used, name_map, clean),
		cmocka_unit_test(a_map_may_be_anything),
		cmocka_unit_test(a_dump_is_found_by_its_mapping),
		cmocka_unit_test(a_dump_may_be_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
