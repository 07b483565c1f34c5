// link: agent/snapshot/allocators.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: a heap profile's leaf is who wanted memory; functions that merely sound like allocators are left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "agent/snapshot/allocators.h"

static void allocators_are_known(void **state)
{
	static const char *const names[][2] = {
		{"malloc", "malloc"},
		{"__strdup", "__strdup"},
		{"posix_memalign", "posix_memalign"},
		{"_Znwm", "operator new"},
		{"_ZnamSt11align_val_t", "operator new[]"},
		{"_ZnwmRKSt9nothrow_t", "operator new"},
		{"__rust_alloc", "__rust_alloc"},
		{"_ZN5alloc5alloc15exchange_malloc17h0123456789abcdefE", "alloc::alloc::exchange_malloc"},
		{"_ZN63_$LT$alloc..alloc..Global$u20$as$u20$core..alloc..Allocator$GT$8allocate17h0E",
		 "<alloc::alloc::Global as core::alloc::Allocator>::allocate"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!ppa_allocators_have(names[i][0], names[i][1]))
			fail_msg("not known: %s", names[i][0]);
}

static void others_are_not(void **state)
{
	static const char *const names[][2] = {
		{"", "[unknown code]"},
		{"", ""},
		{"xmalloc", "xmalloc"},
		{"mallocate", "mallocate"},
		{"_ZN3FoonwEm", "Foo::operator new"},
		{"_ZN5alloc3vec12Vec", "alloc::vec::Vec"},
		{"strdup_printf", "strdup_printf"},
		{"_PyObject_Malloc", "_PyObject_Malloc"},
		{"_ZN9allocator5alloc5thingE", "allocator::alloc::thing"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (ppa_allocators_have(names[i][0], names[i][1]))
			fail_msg("taken for an allocator: %s", names[i][1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allocators_are_known),
		cmocka_unit_test(others_are_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
