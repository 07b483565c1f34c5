// link: agent/base/crew.c agent/base/sys.c -lpthread
/* SPDX-License-Identifier: Apache-2.0
 *
 * Promise: every item is done exactly once, by hands that are never shared, however late helpers come, and none is at
 * work when the job is over. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "agent/base/crew.h"
#include "agent/base/thread.h"

enum { ITEMS = 1000, ROUNDS = 300 };

static struct {
	_Atomic int done[ITEMS];
	_Atomic int at_work[PPA_CREW_MAX];
	_Atomic int by_hand[PPA_CREW_MAX];
	_Atomic int wrong;
} seen;
static _Atomic int running; /* helpers */
static int spawns_left;
static long late_ns;

static void nap(long ns)
{
	struct timespec t = {0, ns};

	if (ns)
		nanosleep(&t, NULL);
}

struct helper {
	void *(*fn)(void *);
	long late_ns;
};

static struct helper helpers[ROUNDS * PPA_CREW_MAX];
static int nhelpers;

static void *helper(void *p)
{
	struct helper *h = p;

	nap(h->late_ns);
	h->fn(NULL);
	running--;
	return NULL;
}

/* In place of the agent's. */
int ppa_thread_spawn(void *(*fn)(void *), void *arg, size_t stack_bytes, const char *name)
{
	struct helper *h = &helpers[nhelpers++];
	pthread_t t;

	(void)arg;
	(void)stack_bytes;
	assert_true(strlen(name) < 16);
	if (!spawns_left)
		return -EAGAIN;
	spawns_left--;
	running++;
	*h = (struct helper){fn, late_ns};
	assert_int_equal(pthread_create(&t, NULL, helper, h), 0);
	pthread_detach(t);
	return 0;
}

static void work(void *arg, unsigned hand, size_t item)
{
	if (arg != &seen || hand >= PPA_CREW_MAX || item >= ITEMS) {
		seen.wrong++;
		return;
	}
	seen.wrong += seen.at_work[hand]++ != 0;
	seen.done[item]++;
	seen.by_hand[hand]++;
	if (item % 100 == 0)
		nap(20000);
	seen.at_work[hand]--;
}

static void run(size_t nitems, size_t take, unsigned want)
{
	struct ppa_crew_job job = {.work = work, .arg = &seen, .nitems = nitems, .take = take};

	memset(&seen, 0, sizeof(seen));
	ppa_crew_run(&job, want);
	for (unsigned i = 0; i < PPA_CREW_MAX; i++)
		assert_int_equal(seen.at_work[i], 0);
	for (size_t i = 0; i < ITEMS; i++)
		assert_int_equal(seen.done[i], i < nitems);
	assert_int_equal(seen.wrong, 0);
}

static void reset(int spawns, long late)
{
	while (running)
		nap(100000);
	nhelpers = 0;
	spawns_left = spawns;
	late_ns = late;
}

static void each_item_once(void **state)
{
	int helped = 0;

	(void)state;
	reset(1 << 20, 0);
	for (int i = 0; i < ROUNDS; i++) {
		run(i % 10 == 9 ? (size_t)i % 7 : ITEMS, 1 + (size_t)i % 9, PPA_CREW_MAX - 1);
		helped += seen.by_hand[1] + seen.by_hand[2] + seen.by_hand[3] > 0;
	}
	assert_true(helped > 0);
}

/* They come when their job is over, to the next, or to none. */
static void helpers_come_late(void **state)
{
	(void)state;
	reset(1 << 20, 300000);
	for (int i = 0; i < ROUNDS; i++)
		run(ITEMS, 4, PPA_CREW_MAX - 1);
}

static void alone(void **state)
{
	(void)state;
	reset(0, 0);
	run(ITEMS, 4, PPA_CREW_MAX - 1);
	run(ITEMS, ITEMS, 0);
	run(0, 4, 0);
	assert_int_equal(seen.by_hand[0], 0);
	reset(1, 0);
	run(ITEMS, 4, PPA_CREW_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_item_once),
		cmocka_unit_test(helpers_come_late),
		cmocka_unit_test(alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
