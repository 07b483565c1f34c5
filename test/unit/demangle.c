/* SPDX-License-Identifier: Apache-2.0 */
// link: unwind/name/demangle.c agent/base/sys.c agent/base/vendor.c test/fakes/vheap.c @iberty
/* Promise: C++, Rust and D names read without parameter lists and hashes; anything else stays as it
 * is.
 * Promise: no name costs a small stack, an endless time, a block of memory or a byte beyond the
 * buffer. */
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "test/fakes/vheap.h"
#include "unwind/name/demangle.h"
#include "unwind/name/symbols.h"

enum { LONGEST = 4096, SMALL_STACK = 64 << 10 };

static void known_names_read_as_people_write_them(void **state)
{
	static const char *const cases[][2] = {
		{"main", "main"},
		{"", ""},
		{"_Z", "_Z"},
		{"_R", "_R"},
		{"_D", "_D"},
		{"_DYNAMIC", "_DYNAMIC"},
		{"_Dx", "_Dx"},
		{"_Z3foov", "foo"},
		{"_Z3fooIiEvT_", "foo<int>"},
		{"_Z3foov.cold", "foo"},
		{"_Z3foo", "foo"},
		{"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back"},
		{"_ZN3shr3BoxIlE4spinEl", "shr::Box<long>::spin"},
		{"_ZN1AC1Ev", "A::A"},
		{"_ZN1AD0Ev", "A::~A"},
		{"_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()"},
		{"_ZNK3FoocvbEv", "Foo::operator bool"},
		{"_ZN4core3fmt9Formatter3pad17h05af221e174051e9E", "core::fmt::Formatter::pad"},
		{"_ZN3foo3bar17h05af221e174051e9E.llvm.123", "foo::bar"},
		{"_ZN4$LT$u$u20$as$u20$x$GT$1f17h05af221e174051e9E",
		 "_ZN4$LT$u$u20$as$u20$x$GT$1f17h05af221e174051e9E"},
		{"_ZN38_$LT$T$u20$as$u20$core..fmt..Debug$GT$3fmt17h05af221e174051e9E", "<T as core::fmt::Debug>::fmt"},
		{"_RNvC6_123foo3bar", "123foo::bar"},
		{"_RNvMs_NtCs123_5crate4impl_NtB4_4Type6method", "_RNvMs_NtCs123_5crate4impl_NtB4_4Type6method"},
		{"_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>"},
		{"_D8demangle4testFiZv", "demangle.test"},
		{"_D8demangle3foo3barMFiZv", "demangle.foo.bar"},
		{"_D8demangle22__T4testVAyaa3_616263Z1xFiZv", "demangle.test!(\"abc\").x"},
		{"_Z3foov@plt", "foo@plt"},
		{"puts@plt", "puts@plt"},
	};
	char buf[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t len = ppa_symbols_demangle(cases[i][0], buf, sizeof(buf));

		assert_string_equal(buf, cases[i][1]);
		assert_int_equal(len, strlen(buf));
		assert_int_equal(fake_vheap_live, 0);
	}
}

static void a_small_buffer_gets_the_beginning(void **state)
{
	static const char *const names[] = {"_ZNSt6vectorIiSaIiEE9push_backERKi", "_D8demangle4testFiZv",
					    "_ZN4core3fmt9Formatter3pad17h05af221e174051e9E", "a_c_function"};
	char whole[256], buf[256];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		ppa_symbols_demangle(names[i], whole, sizeof(whole));
		for (size_t cap = 0; cap < strlen(whole) + 2; cap++) {
			size_t len;

			memset(buf, '#', sizeof(buf));
			len = ppa_symbols_demangle(names[i], buf, cap);
			assert_int_equal(buf[cap], '#');
			if (!cap) {
				assert_int_equal(len, 0);
				continue;
			}
			assert_int_equal(len, cap - 1 < strlen(whole) ? cap - 1 : strlen(whole));
			assert_int_equal(strncmp(buf, whole, len), 0);
			assert_int_equal(buf[len], 0);
		}
		assert_int_equal(fake_vheap_live, 0);
	}
}

static void characters_are_cut_whole(void **state)
{
	char whole[64], buf[64];
	size_t n = ppa_symbols_demangle("_RNvC5crateu8gdel_5qa", whole, sizeof(whole));

	(void)state;
	assert_string_equal(whole, "crate::gödel");
	for (size_t cap = 1; cap <= n; cap++) {
		size_t len = ppa_symbols_demangle("_RNvC5crateu8gdel_5qa", buf, cap);

		assert_true(len == cap - 1 || (len == cap - 2 && (unsigned char)whole[len] == 0xc3));
	}
	/* Names are whatever bytes the file has; broken ones are not ours to mend. */
	assert_int_equal(ppa_symbols_demangle("\x80\x80\x80\x80\x80\x80", buf, 4), 3);
	assert_int_equal(ppa_symbols_demangle("ab\xc3", buf, 4), 2);
}

/* Names that nest, as long as they may be: head, unit as often as fits, middle, tail as often as there are units. */
static const struct {
	const char *head, *unit, *middle, *tail_each, *tail;
} nests[] = {
	{"_Z1fI", "P", "i", "", "Ev"},
	{"_Z1fI", "A_", "i", "", "Ev"},
	{"_Z1fI", "KPK", "i", "", "Ev"},
	{"_Z1fI", "M1a", "i", "", "Ev"},
	{"_Z1fI", "Dp", "i", "", "Ev"},
	{"_Z1fIF", "F", "v", "E", "E"},
	{"_Z1fIX", "ng", "Li1E", "", "EEv"},
	{"_ZN", "1a", "1b", "", "Ev"},
	{"_Z", "Z", "1fv", "E1gv", ""},
	{"_Z1f", "I1f", "Ii", "E", "E"},
	{"_Z1fIJ", "J", "i", "E", "EEvv"},
	{"_Z1fI", "i", "i", "", "Ev"},
	{"_RINvC1a1f", "T", "u", "E", "E"},
	{"_R", "Nv", "C1a", "1f", ""},
	{"_RINvC1a1f", "INtC1a1b", "u", "E", "E"},
	{"_D1aF", "P", "i", "", "Zv"},
	{"_D1aF", "DF", "i", "Zv", "Zv"},
	{"_D1aF", "Hi", "i", "", "Zv"},
};

static char deep_name[LONGEST + 2];
static char deep_text[1 << 16];

static void *demangle_deep(void *arg)
{
	(void)arg;
	ppa_symbols_demangle(deep_name, deep_text, sizeof(deep_text));
	return NULL;
}

static void fill_deep(size_t i, size_t len)
{
	size_t fixed = strlen(nests[i].head) + strlen(nests[i].middle) + strlen(nests[i].tail);
	size_t units = (len - fixed) / (strlen(nests[i].unit) + strlen(nests[i].tail_each));

	strcpy(deep_name, nests[i].head);
	for (size_t k = 0; k < units; k++)
		strcat(deep_name, nests[i].unit);
	strcat(deep_name, nests[i].middle);
	for (size_t k = 0; k < units; k++)
		strcat(deep_name, nests[i].tail_each);
	strcat(deep_name, nests[i].tail);
}

static void nesting_needs_no_stack_of_ours(void **state)
{
	pthread_attr_t attr;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_attr_init(&attr), 0);
	assert_int_equal(pthread_attr_setstacksize(&attr, SMALL_STACK), 0);
	for (size_t i = 0; i < sizeof(nests) / sizeof(nests[0]); i++) {
		for (size_t len = 64; len <= LONGEST; len += len < 4000 ? 501 : 32) {
			fill_deep(i, len);
			assert_int_equal(pthread_create(&thread, &attr, demangle_deep, NULL), 0);
			assert_int_equal(pthread_join(thread, NULL), 0);
			assert_int_equal(fake_vheap_live, 0);
		}
	}
	/* One byte too long: as it is. */
	memset(deep_name, 'P', LONGEST + 1);
	memcpy(deep_name, "_Z1fI", 5);
	demangle_deep(NULL);
	assert_string_equal(deep_text, deep_name);
	pthread_attr_destroy(&attr);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Every level names the one before it twice: 2^60 words if it were printed whole. */
static void names_that_explode_end_at_the_buffer(void **state)
{
	static char name[LONGEST] = "_Z1fI1aIii", ref[16], buf[4096];
	double begin = seconds();

	(void)state;
	for (int i = 0; i < 25; i++) {
		snprintf(ref, sizeof(ref), "E1bIS%c_S%c_", i ? "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i - 1] : '_',
			 i ? "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i - 1] : '_');
		strcat(name, ref);
	}
	strcat(name, "EEvv");
	assert_true(ppa_symbols_demangle(name, buf, sizeof(buf)) < sizeof(buf));
	assert_true(seconds() - begin < 1.0);
	assert_int_equal(fake_vheap_live, 0);
}

/* A binder of 2^47 lifetimes in a path that is parsed but not shown: no text ever reaches the buffer's end. */
static void endless_work_without_text_is_given_up(void **state)
{
	static const char name[] = "_RNvMINvC1a1fFGzzzzzzzz_EuEu1g";
	double begin = seconds();
	char buf[256];

	(void)state;
	ppa_symbols_demangle(name, buf, sizeof(buf));
	assert_string_equal(buf, name);
	assert_true(seconds() - begin < 1.0);
}

static void refused_memory_gives_the_linkers_name(void **state)
{
	static const char *const names[] = {"_D8demangle4testFiZv", "_RNvC5crateu8gdel_5qa"};
	char buf[256];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		for (long budget = 0; budget < 20; budget++) {
			fake_vheap_budget = budget;
			ppa_symbols_demangle(names[i], buf, sizeof(buf));
			fake_vheap_budget = -1;
			assert_true(buf[0] == '_' || buf[0] == 'd' || buf[0] == 'c');
			assert_int_equal(fake_vheap_live, 0);
		}
		assert_int_not_equal(buf[0], '_');
	}
	fake_vheap_budget = 0;
	ppa_symbols_demangle(names[0], buf, sizeof(buf));
	fake_vheap_budget = -1;
	assert_string_equal(buf, names[0]);
}

static void works_again_after_trim_and_reset(void **state)
{
	char buf[64];

	(void)state;
	ppa_demangle_trim();
	ppa_demangle_reset();
	ppa_symbols_demangle("_Z3foov", buf, sizeof(buf));
	assert_string_equal(buf, "foo");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_names_read_as_people_write_them),
		cmocka_unit_test(a_small_buffer_gets_the_beginning),
		cmocka_unit_test(characters_are_cut_whole),
		cmocka_unit_test(nesting_needs_no_stack_of_ours),
		cmocka_unit_test(names_that_explode_end_at_the_buffer),
		cmocka_unit_test(endless_work_without_text_is_given_up),
		cmocka_unit_test(refused_memory_gives_the_linkers_name),
		cmocka_unit_test(works_again_after_trim_and_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
