/* SPDX-License-Identifier: Apache-2.0 */
// link: agent/hook/mmap.c agent/heap/mmap.c agent/heap/mmap_lock.c agent/heap/mmap_callers.c agent/heap/mmap_check.c agent/heap/regions.c unwind/module/maps.c test/fakes/sites.c
/* The hooks stand in this program, so its own calls of mmap pass through them.
 *
 * Promise: after any sequence of mmap, munmap and mremap, MAP_FIXED and partial ones included, each site has exactly the
 * bytes that a page-by-page model gives it, and nothing is lost.
 * Promise: what was unmapped behind our back is dropped by a check, and nothing else. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/heap/mmap.h"
#include "test/fakes/sites.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static int begin(void **state)
{
	(void)state;
	return ppa_mmap_start();
}

/* Free pages far below where the kernel puts what has no address of its own: nobody else's mapping falls into the holes. */
static char *window(size_t pages)
{
	void *const below = (void *)(UINT64_C(1) << 42);
	void *p = (void *)syscall(SYS_mmap, below, pages * PAGE, PROT_NONE, ANON | MAP_NORESERVE, -1, 0);

	assert_true(p != MAP_FAILED);
	syscall(SYS_munmap, p, pages * PAGE);
	return p;
}

/* ---- one by one ---- */

static void lives_and_dies(void **state)
{
	char *p;

	(void)state;
	fake_here = 1;
	p = mmap(NULL, 3 * PAGE + 1, RW, ANON, -1, 0);
	fake_is(1, 1, 4);
	assert_int_equal(munmap(p, 3 * PAGE + 1), 0);
	fake_is(1, 0, 0);
	/* Failures are no events. */
	assert_true(mmap(NULL, 0, RW, ANON, -1, 0) == MAP_FAILED && errno == EINVAL);
	assert_true(mmap(NULL, PAGE, RW, MAP_PRIVATE, -1, 0) == MAP_FAILED && errno == EBADF);
	p = fake_map(1, 2);
	assert_true(munmap(p + 1, PAGE) == -1 && errno == EINVAL);
	fake_is(1, 1, 2);
	munmap(p, 2 * PAGE);
	assert_int_equal(fake_sites[1].label, PPA_MMAP_ANONYMOUS);
	fake_is_sound();
}

static void cut_to_pieces(void **state)
{
	char *p = fake_map(2, 10);

	(void)state;
	munmap(p, 2 * PAGE);
	fake_is(2, 1, 8);
	munmap(p + 8 * PAGE, 2 * PAGE);
	fake_is(2, 1, 6);
	munmap(p + 4 * PAGE, PAGE);
	fake_is(2, 2, 5);
	munmap(p, 10 * PAGE);
	fake_is(2, 0, 0);
}

static void fixed_replaces(void **state)
{
	char *p = fake_map(3, 10);

	(void)state;
	fake_here = 4;
	assert_ptr_equal(mmap(p + 3 * PAGE, 2 * PAGE, PROT_NONE, ANON | MAP_FIXED, -1, 0), p + 3 * PAGE);
	fake_is(3, 2, 8);
	fake_is(4, 1, 2);
	munmap(p, 10 * PAGE);
	fake_is(3, 0, 0);
	fake_is(4, 0, 0);
}

static void remapped(void **state)
{
	char *p = fake_map(5, 4), *q, *room = window(64);

	(void)state;
	fake_here = 6;
	q = mremap(p, 4 * PAGE, 2 * PAGE, 0);
	fake_is(5, 1, 2);
	q = mremap(q, 2 * PAGE, 9 * PAGE, MREMAP_MAYMOVE);
	fake_is(5, 1, 9);
	q = mremap(q, 9 * PAGE, 9 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room);
	assert_ptr_equal(q, room);
	fake_is(5, 1, 9);
	q = mremap(q, 9 * PAGE, 12 * PAGE, 0); /* nothing is behind it */
	assert_ptr_equal(q, room);
	fake_is(5, 1, 12);
	/* A part moves out of the middle and shrinks. */
	p = mremap(q + 4 * PAGE, 3 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room + 32 * PAGE);
	assert_ptr_equal(p, room + 32 * PAGE);
	fake_is(5, 3, 11);
	assert_true(mremap(q + 1, PAGE, PAGE, 0) == MAP_FAILED && errno == EINVAL);
	fake_is(6, 0, 0);
	/* A second mapping belongs to whoever made it. */
	p = mremap(p, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	if (p != MAP_FAILED) {
		fake_is(5, 3, 11);
		fake_is(6, 1, 2);
		munmap(p, 2 * PAGE);
	}
	fake_here = 7;
	p = mmap(NULL, 3 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	fake_here = 6;
	q = mremap(p, 0, 3 * PAGE, MREMAP_MAYMOVE);
	assert_true(q != MAP_FAILED && q != p);
	fake_is(6, 1, 3);
	fake_is(7, 1, 3);
	munmap(p, 3 * PAGE);
	munmap(q, 3 * PAGE);
	munmap(room, 64 * PAGE);
	for (int i = 5; i < 8; i++)
		fake_is(i, 0, 0);
	fake_is_sound();
}

static void behind_our_back(void **state)
{
	/* Holes too small for what a check maps for itself. */
	char *p = fake_map(8, 20);
	uint64_t dropped = ppa_mmap_get_state().dropped;

	(void)state;
	fake_here = 9;
	mmap(p + 10 * PAGE, 5 * PAGE, PROT_NONE, ANON | MAP_FIXED, -1, 0);
	assert_int_equal(ppa_mmap_check(), 0);
	fake_is(8, 2, 15);
	fake_is(9, 1, 5);
	syscall(SYS_munmap, p + 2 * PAGE, 3 * PAGE);
	syscall(SYS_munmap, p + 10 * PAGE, 5 * PAGE);
	assert_int_equal(ppa_mmap_check(), 0);
	fake_is(8, 3, 12);
	fake_is(9, 0, 0);
	assert_int_equal(ppa_mmap_get_state().dropped - dropped, 8 * PAGE);
	munmap(p, 20 * PAGE);
	fake_is(8, 0, 0);
}

static void before_and_after(void **state)
{
	char *p = fake_map(8, 4);
	uint64_t before = ppa_mmap_now();

	(void)state;
	/* The kernel freed the addresses, another thread has mapped them since, and only then comes the event. */
	fake_here = 9;
	mmap(p + PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0);
	ppa_mmap_unmapped((uintptr_t)p, 4 * PAGE, before);
	fake_is(8, 0, 0);
	fake_is(9, 1, 1);
	munmap(p, 4 * PAGE);
	fake_is(9, 0, 0);
}

/* Another thread maps where something has just moved away from, before we hear that it has. */
static void moved_and_reused(void **state)
{
	char *p = fake_map(8, 4), *room = window(8);
	struct ppa_mmap_move m;

	(void)state;
	ppa_mmap_move_begin(&m, (uintptr_t)p, 4 * PAGE);
	syscall(SYS_mremap, p, 4 * PAGE, 6 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room);
	fake_here = 9;
	assert_ptr_equal(mmap(p, 4 * PAGE, RW, ANON | MAP_FIXED, -1, 0), p);
	ppa_mmap_move_end(&m, (uintptr_t)room, 6 * PAGE);
	fake_is(8, 1, 6);
	fake_is(9, 1, 4);
	munmap(p, 4 * PAGE);
	munmap(room, 6 * PAGE);
	fake_is(8, 0, 0);
	fake_is(9, 0, 0);
}

/* More pieces than are remembered. */
static void moved_in_many_pieces(void **state)
{
	enum { PIECES = 3 * PPA_MMAP_PIECES };
	char *p = fake_map(8, PIECES), *room = window(PIECES);

	(void)state;
	for (int i = 0; i < PIECES; i++) {
		fake_here = 10 + (uintptr_t)i;
		mmap(p + i * PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0);
	}
	/* One mapping to the kernel. */
	assert_ptr_equal(mremap(p, PIECES * PAGE, PIECES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room), room);
	for (int i = 0; i < PIECES; i++)
		fake_is(10 + i, 1, 1);
	munmap(room + PAGE, (PIECES - 2) * PAGE);
	fake_is(10, 1, 1);
	fake_is(11, 0, 0);
	munmap(room, PIECES * PAGE);
	fake_is_sound();
}

/* ---- against a model ---- */

enum { PAGES = 4000, STEPS = 20000 };
static unsigned char owner[PAGES + 64]; /* site, 0: none */
static char *room;

static bool page_is_mapped(size_t page)
{
	unsigned char vec;

	return !syscall(SYS_mincore, room + page * PAGE, PAGE, &vec);
}

/* A call failed: what it had already unmapped only the kernel knows. */
static void after_failure(size_t page, size_t n)
{
	assert_int_equal(ppa_mmap_check(), 0);
	for (size_t i = page; i < page + n; i++)
		if (!page_is_mapped(i))
			owner[i] = 0;
}

static void step_mremap(size_t from, size_t n, size_t to, size_t len)
{
	unsigned char moved[64];
	bool fixed = fake_random(2);
	char *p = mremap(room + from * PAGE, n * PAGE, len * PAGE, fixed ? MREMAP_MAYMOVE | MREMAP_FIXED : 0,
			 room + to * PAGE);

	if (p == MAP_FAILED) {
		after_failure(from, n);
		after_failure(to, len);
		return;
	}
	to = (size_t)(p - room) / PAGE;
	memcpy(moved, owner + from, n);
	if (to != from)
		memset(owner + from, 0, n);
	for (size_t i = len; i < n && to == from; i++)
		owner[from + i] = 0;
	for (size_t i = 0; i < len; i++)
		owner[to + i] = moved[i < n ? i : n - 1];
}

static void compare(void)
{
	int64_t pages[SITES] = {0};

	for (size_t i = 0; i < PAGES + 64; i++) {
		pages[owner[i]]++;
		assert_int_equal(page_is_mapped(i), owner[i] != 0);
	}
	for (int i = 1; i < SITES; i++)
		assert_int_equal(fake_values(i).bytes, pages[i] * PAGE);
	fake_is_sound();
}

static void as_the_model(void **state)
{
	uint64_t lost = ppa_mmap_get_state().lost;
	int moves = 0;

	(void)state;
	room = window(PAGES + 64);
	for (int i = 0; i < STEPS; i++) {
		size_t n = 1 + fake_random(40), page = fake_random(PAGES - n), len = 1 + fake_random(40);
		char *p = room + page * PAGE;

		fake_here = 10 + fake_random(SITES - 10);
		switch (fake_random(4)) {
		case 0:
			assert_int_equal(munmap(p, n * PAGE), 0);
			memset(owner + page, 0, n);
			break;
		case 1:
			while (n > 1 && !owner[page])
				page++, n--;
			while (n > 1 && memchr(owner + page, 0, n))
				n--;
			step_mremap(page, n, fake_random(PAGES - len), fake_random(3) ? n : len);
			moves++;
			break;
		default:
			/* Protections differ, so that few neighbours become one mapping of the kernel's. */
			assert_ptr_equal(mmap(p, n * PAGE, fake_random(2) ? RW : PROT_READ, ANON | MAP_FIXED, -1, 0),
					 p);
			memset(owner + page, (int)fake_here, n);
		}
		if (i % 256 == 0)
			compare();
	}
	compare();
	assert_true(moves > 1000);
	assert_int_equal(ppa_mmap_get_state().lost, lost);
	munmap(room, (PAGES + 64) * PAGE);
	for (int i = 1; i < SITES; i++)
		fake_is(i, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lives_and_dies),   cmocka_unit_test(cut_to_pieces),
		cmocka_unit_test(fixed_replaces),   cmocka_unit_test(remapped),
		cmocka_unit_test(behind_our_back),  cmocka_unit_test(before_and_after),
		cmocka_unit_test(moved_and_reused), cmocka_unit_test(moved_in_many_pieces),
		cmocka_unit_test(as_the_model),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
