// link: agent/base/image.c
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: the image's read-only pages leave the page tables and come back with the same bytes; a page that somebody has written
 * to stays. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/base/image.h"

enum { PAGE = 4096, PAGES = 32 };

/* In .rodata. */
static const char constants[PAGES * PAGE] = {[5] = 42, [20 * PAGE] = 7};

static int pagemap = -1;

/* How many of the pages are mapped; counting touches none of them. */
static int present(void)
{
	uint64_t entries[PAGES - 1];
	int n = 0;

	if (pread(pagemap, entries, sizeof(entries), (off_t)((uintptr_t)constants / PAGE * sizeof(*entries))) !=
	    sizeof(entries))
		return -1;
	for (int i = 0; i < PAGES - 1; i++)
		n += entries[i] >> 63 != 0;
	return n;
}

static int touch(void)
{
	int sum = 0;

	for (int i = 0; i < PAGES; i++) {
		const char *page = constants + i * PAGE;

		__asm__ volatile("" : "+r"(page)); /* the compiler knows what stands there */
		sum += page[0] + page[5];
	}
	return sum;
}

static void pages_go_and_come_back(void **state)
{
	int left;

	(void)state;
	assert_int_equal(touch(), 49);
	assert_int_equal(present(), PAGES - 1);
	ppa_image_release();
	left = present();
	assert_int_equal(left, 0);
	assert_int_equal(touch(), 49);
}

static void what_was_written_to_stays(void **state)
{
	char *page = (char *)(((uintptr_t)constants + 8 * PAGE) & ~(uintptr_t)(PAGE - 1));

	(void)state;
	assert_int_equal(touch(), 49);
	assert_int_equal(mprotect(page, PAGE, PROT_READ | PROT_WRITE), 0);
	page[9] = 77;
	assert_int_equal(mprotect(page, PAGE, PROT_READ), 0);
	ppa_image_release();
	/* It alone. */
	assert_int_equal(present(), 1);
	assert_int_equal(page[9], 77);
	assert_int_equal(touch(), 49);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_go_and_come_back),
		cmocka_unit_test(what_was_written_to_stays),
	};

	pagemap = open("/proc/self/pagemap", O_RDONLY);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
