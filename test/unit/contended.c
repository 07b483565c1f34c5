/* SPDX-License-Identifier: Apache-2.0 */
// link: agent/lock/contended.c
/* Promise: the waiting for a lock is cut into pieces that each belong to one releaser, all of it and none of it twice;
 * with more locks than entries, after a fork, and with threads that wait and release as they like. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "agent/lock/contended.h"

static char locks[4096 * 8];

static int start_over(void **unused)
{
	(void)unused;
	ppa_contended_reset();
	return 0;
}

static void release(const void *lock, ppa_stamp now, ppa_holder who, uint64_t expected)
{
	struct ppa_release r;
	struct ppa_debt d;

	assert_true(ppa_contended_release(lock, now, &r));
	assert_int_equal(r.time, expected);
	ppa_contended_settle(&r, who, 1, &d);
	assert_int_equal(d.whose, PPA_DEBT_NONE);
}

static void leave(const struct ppa_stay *s, ppa_stamp now, ppa_holder who, uint64_t expected)
{
	struct ppa_debt d;

	ppa_contended_leave(s, now, true, &d);
	assert_int_equal(d.whose, PPA_DEBT_HOLDER);
	assert_int_equal(d.holder, who);
	assert_int_equal(d.waiters, 1);
	assert_int_equal(d.time, expected);
}

static void a_wait_is_cut_at_releases(void **unused)
{
	struct ppa_stay a, b;
	struct ppa_release r;

	(void)unused;
	assert_false(ppa_contended_is_watched(locks));
	ppa_contended_enter(locks, 100, &a);
	assert_true(ppa_contended_is_watched(locks));
	ppa_contended_enter(locks, 150, &b);
	release(locks, 200, 7, 100 + 50);
	leave(&a, 230, 7, 30);
	release(locks, 260, 8, 60);
	leave(&b, 265, 8, 5);
	assert_false(ppa_contended_is_watched(locks));
	assert_false(ppa_contended_release(locks, 300, &r));
}

static void who_is_faster_than_the_releaser_leaves_a_debt(void **unused)
{
	struct ppa_stay a, b;
	struct ppa_release first, second;
	struct ppa_debt d;

	(void)unused;
	ppa_contended_enter(locks, 100, &a);
	ppa_contended_enter(locks, 100, &b);
	assert_true(ppa_contended_release(locks, 200, &first));
	ppa_contended_leave(&a, 210, true, &d);
	assert_int_equal(d.whose, PPA_DEBT_NONE);
	/* And releases it again before the first releaser has a stack. */
	assert_true(ppa_contended_release(locks, 220, &second));
	ppa_contended_settle(&second, 2, 3, &d);
	assert_int_equal(d.whose, PPA_DEBT_NONE);
	ppa_contended_settle(&first, 1, 5, &d);
	assert_int_equal(d.whose, PPA_DEBT_HOLDER);
	assert_int_equal(d.holder, 1);
	assert_int_equal(d.scale, 5);
	assert_int_equal(d.waiters, 1);
	assert_int_equal(d.time, 10);
	leave(&b, 225, 2, 5);
}

static void without_a_release_nobody_is_blamed(void **unused)
{
	struct ppa_stay a;
	struct ppa_debt d;

	(void)unused;
	ppa_contended_enter(locks, 100, &a);
	ppa_contended_leave(&a, 140, true, &d);
	assert_int_equal(d.whose, PPA_DEBT_UNKNOWN);
	assert_int_equal(d.time, 40);
	/* Nor for a wait in vain: somebody else has it. */
	ppa_contended_enter(locks, 200, &a);
	release(locks, 250, 9, 50);
	ppa_contended_leave(&a, 300, false, &d);
	assert_int_equal(d.whose, PPA_DEBT_UNKNOWN);
	assert_int_equal(d.time, 50);
}

static void more_locks_than_entries(void **unused)
{
	static struct ppa_stay stays[4096];
	uint64_t total = 0;
	struct ppa_debt d;
	int registered = 0;

	(void)unused;
	for (int i = 0; i < 4096; i++)
		ppa_contended_enter(&locks[8 * i], 100, &stays[i]);
	for (int i = 0; i < 4096; i++) {
		struct ppa_release r;

		registered += stays[i].at != NULL;
		if (ppa_contended_release(&locks[8 * i], 200, &r)) {
			total += r.time;
			ppa_contended_settle(&r, 1, 1, &d);
		}
		ppa_contended_leave(&stays[i], 250, true, &d);
		total += d.time;
	}
	assert_in_range(registered, 512, 1024);
	assert_int_equal(total, 4096 * 150);
	/* The entries serve other locks afterwards. */
	ppa_contended_enter(locks, 300, &stays[0]);
	assert_non_null(stays[0].at);
	release(locks, 310, 4, 10);
	leave(&stays[0], 311, 4, 1);
}

static void a_fork_child_has_no_waiters(void **unused)
{
	struct ppa_stay a;
	struct ppa_debt d;

	(void)unused;
	ppa_contended_enter(locks, 100, &a);
	ppa_contended_reset();
	assert_false(ppa_contended_is_watched(locks));
	ppa_contended_leave(&a, 200, true, &d);
	assert_int_equal(d.whose, PPA_DEBT_NONE);
	assert_false(ppa_contended_is_watched(locks));
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 60000 };

static _Atomic uint64_t clock_now = 1, waited, charged, nwaited, ncharged;

static void count(const struct ppa_debt *d)
{
	charged += d->time * (d->whose != PPA_DEBT_NONE);
	ncharged += d->waiters * (d->whose != PPA_DEBT_NONE);
}

static pthread_mutex_t real[3] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static void *wait_and_release(void *p)
{
	for (int i = 0; i < ROUNDS; i++) {
		int n = (int)((i + (uintptr_t)p) % 3);
		struct ppa_release r;
		struct ppa_stay s;
		struct ppa_debt d;
		uint64_t end;
		bool is_kept;

		ppa_contended_enter(&locks[8 * n], ++clock_now, &s);
		pthread_mutex_lock(&real[n]);
		end = ++clock_now;
		ppa_contended_leave(&s, end, true, &d);
		count(&d);
		waited += end - s.begin;
		nwaited++;
		is_kept = ppa_contended_release(&locks[8 * n], ++clock_now, &r);
		pthread_mutex_unlock(&real[n]);
		if (!is_kept)
			continue;
		charged += r.time;
		ppa_contended_settle(&r, 1, 1, &d);
		count(&d);
	}
	return NULL;
}

/* But for what a late releaser's debt is lost with, when four others came and went meanwhile, and for a clock read before
 * a release that took another's for earlier: next to nothing. */
static void threads_agree(void **unused)
{
	pthread_t t[THREADS];

	(void)unused;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, wait_and_release, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	assert_in_range(ncharged, nwaited - nwaited / 1000, nwaited);
	assert_in_range(charged, waited - waited / 100, waited + waited / 100);
	for (int i = 0; i < 3; i++)
		assert_false(ppa_contended_is_watched(&locks[8 * i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_wait_is_cut_at_releases, start_over),
		cmocka_unit_test_setup(who_is_faster_than_the_releaser_leaves_a_debt, start_over),
		cmocka_unit_test_setup(without_a_release_nobody_is_blamed, start_over),
		cmocka_unit_test_setup(more_locks_than_entries, start_over),
		cmocka_unit_test_setup(a_fork_child_has_no_waiters, start_over),
		cmocka_unit_test_setup(threads_agree, start_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
