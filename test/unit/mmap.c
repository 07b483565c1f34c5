/* SPDX-License-Identifier: Apache-2.0 */
// link: agent/hook/mmap.c agent/heap/mmap.c agent/heap/mmap_lock.c agent/heap/mmap_callers.c agent/heap/mmap_check.c agent/heap/regions.c unwind/maps.c
/* The hooks stand in this program, so its own calls of mmap pass through them; a site is a number that the test chooses.
 *
 * Promise: after any sequence of mmap, munmap and mremap, MAP_FIXED and partial ones included, each site has exactly the
 * bytes that a page-by-page model gives it, and nothing is lost.
 * Promise: the same with four threads that reuse each other's addresses, and with signal handlers that map.
 * Promise: what was unmapped behind our back is dropped by a check, and nothing else.
 * Promise: the child of a fork goes on with the parent's regions; the child of a raw one records nothing.
 * Promise: a lock that is never released costs one wait and some events, no more. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/heap/mmap.h"
#include "agent/heap/mmap_lock.h"
#include "agent/thread/stack_here.h"

enum { SITES = 64, PAGE = 4096, ANON = MAP_PRIVATE | MAP_ANONYMOUS, RW = PROT_READ | PROT_WRITE };

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

/* ---- in place of stacks and sites ---- */

static struct ppa_site sites[SITES];
static __thread uintptr_t here; /* number of the site that maps */

int ppa_stack_init(void)
{
	return 0;
}

void ppa_stack_take(uintptr_t caller, struct ppa_stack_here *out)
{
	(void)caller;
	*out = (struct ppa_stack_here){.pcs = &here, .npcs = 1};
}

void ppa_stack_drop(struct ppa_stack_here *s)
{
	(void)s;
}

int ppa_sites_init(struct ppa_sites *t)
{
	(void)t;
	return 0;
}

struct ppa_site *ppa_sites_find(struct ppa_sites *t, const uintptr_t *pcs, uint32_t npcs, uint64_t origin,
				uint64_t label)
{
	(void)t;
	(void)npcs;
	(void)origin;
	sites[*pcs].label = label;
	return &sites[*pcs];
}

void ppa_sites_each(struct ppa_sites *t, void (*visit)(const struct ppa_site *s, void *arg), void *arg)
{
	(void)t;
	for (int i = 0; i < SITES; i++)
		visit(&sites[i], arg);
}

/* ---- helpers ---- */

static uint64_t rnd(uint64_t below)
{
	static __thread uint64_t x;

	if (!x)
		x = 88172645463325252u + (uintptr_t)&x;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x % below;
}

static struct ppa_mmap_values values(int site)
{
	return ppa_mmap_read(&sites[site]);
}

static void is(int site, int64_t maps, int64_t pages)
{
	assert_int_equal(values(site).maps, maps);
	assert_int_equal(values(site).bytes, pages * PAGE);
}

/* Sites and set agree; nothing was lost. */
static void is_sound(void)
{
	struct ppa_mmap_state st = ppa_mmap_get_state();
	int64_t maps = 0, bytes = 0;

	for (int i = 0; i < SITES; i++) {
		struct ppa_mmap_values v = values(i);

		assert_true(v.maps >= 0 && v.bytes >= 0);
		maps += v.maps;
		bytes += v.bytes;
	}
	assert_int_equal(maps, st.regions);
	assert_int_equal(bytes, st.bytes);
}

static char *map(int site, size_t pages)
{
	char *p;

	here = (uintptr_t)site;
	p = mmap(NULL, pages * PAGE, RW, ANON, -1, 0);
	assert_true(p != MAP_FAILED);
	return p;
}

static int begin(void **state)
{
	(void)state;
	memset(sites, 0, sizeof(sites));
	return ppa_mmap_start();
}

/* Addresses that nobody else uses. */
static char *window(size_t pages)
{
	void *p = (void *)syscall(SYS_mmap, NULL, pages * PAGE, PROT_NONE, ANON | MAP_NORESERVE, -1, 0);

	assert_true(p != MAP_FAILED);
	syscall(SYS_munmap, p, pages * PAGE);
	return p;
}

/* ---- one by one ---- */

static void lives_and_dies(void **state)
{
	char *p;

	(void)state;
	here = 1;
	p = mmap(NULL, 3 * PAGE + 1, RW, ANON, -1, 0);
	is(1, 1, 4);
	assert_int_equal(munmap(p, 3 * PAGE + 1), 0);
	is(1, 0, 0);
	/* Failures are no events. */
	assert_true(mmap(NULL, 0, RW, ANON, -1, 0) == MAP_FAILED && errno == EINVAL);
	assert_true(mmap(NULL, PAGE, RW, MAP_PRIVATE, -1, 0) == MAP_FAILED && errno == EBADF);
	p = map(1, 2);
	assert_true(munmap(p + 1, PAGE) == -1 && errno == EINVAL);
	is(1, 1, 2);
	munmap(p, 2 * PAGE);
	assert_int_equal(sites[1].label, PPA_MMAP_ANONYMOUS);
	is_sound();
}

static void cut_to_pieces(void **state)
{
	char *p = map(2, 10);

	(void)state;
	munmap(p, 2 * PAGE);
	is(2, 1, 8);
	munmap(p + 8 * PAGE, 2 * PAGE);
	is(2, 1, 6);
	munmap(p + 4 * PAGE, PAGE);
	is(2, 2, 5);
	munmap(p, 10 * PAGE);
	is(2, 0, 0);
}

static void fixed_replaces(void **state)
{
	char *p = map(3, 10);

	(void)state;
	here = 4;
	assert_ptr_equal(mmap(p + 3 * PAGE, 2 * PAGE, PROT_NONE, ANON | MAP_FIXED, -1, 0), p + 3 * PAGE);
	is(3, 2, 8);
	is(4, 1, 2);
	munmap(p, 10 * PAGE);
	is(3, 0, 0);
	is(4, 0, 0);
}

static void remapped(void **state)
{
	char *p = map(5, 4), *q, *room = window(64);

	(void)state;
	here = 6;
	q = mremap(p, 4 * PAGE, 2 * PAGE, 0);
	is(5, 1, 2);
	q = mremap(q, 2 * PAGE, 9 * PAGE, MREMAP_MAYMOVE);
	is(5, 1, 9);
	q = mremap(q, 9 * PAGE, 9 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room);
	assert_ptr_equal(q, room);
	is(5, 1, 9);
	q = mremap(q, 9 * PAGE, 12 * PAGE, 0); /* nothing is behind it */
	assert_ptr_equal(q, room);
	is(5, 1, 12);
	/* A part moves out of the middle and shrinks. */
	p = mremap(q + 4 * PAGE, 3 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room + 32 * PAGE);
	assert_ptr_equal(p, room + 32 * PAGE);
	is(5, 3, 11);
	assert_true(mremap(q + 1, PAGE, PAGE, 0) == MAP_FAILED && errno == EINVAL);
	is(6, 0, 0);
	/* A second mapping belongs to whoever made it. */
	p = mremap(p, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	if (p != MAP_FAILED) {
		is(5, 3, 11);
		is(6, 1, 2);
		munmap(p, 2 * PAGE);
	}
	here = 7;
	p = mmap(NULL, 3 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	here = 6;
	q = mremap(p, 0, 3 * PAGE, MREMAP_MAYMOVE);
	assert_true(q != MAP_FAILED && q != p);
	is(6, 1, 3);
	is(7, 1, 3);
	munmap(p, 3 * PAGE);
	munmap(q, 3 * PAGE);
	munmap(room, 64 * PAGE);
	for (int i = 5; i < 8; i++)
		is(i, 0, 0);
	is_sound();
}

static void behind_our_back(void **state)
{
	/* Holes too small for what a check maps for itself. */
	char *p = map(8, 20);
	uint64_t dropped = ppa_mmap_get_state().dropped;

	(void)state;
	here = 9;
	mmap(p + 10 * PAGE, 5 * PAGE, PROT_NONE, ANON | MAP_FIXED, -1, 0);
	assert_int_equal(ppa_mmap_check(), 0);
	is(8, 2, 15);
	is(9, 1, 5);
	syscall(SYS_munmap, p + 2 * PAGE, 3 * PAGE);
	syscall(SYS_munmap, p + 10 * PAGE, 5 * PAGE);
	assert_int_equal(ppa_mmap_check(), 0);
	is(8, 3, 12);
	is(9, 0, 0);
	assert_int_equal(ppa_mmap_get_state().dropped - dropped, 8 * PAGE);
	munmap(p, 20 * PAGE);
	is(8, 0, 0);
}

static void before_and_after(void **state)
{
	char *p = map(8, 4);
	uint64_t before = ppa_mmap_now();

	(void)state;
	/* The kernel freed the addresses, another thread has mapped them since, and only then comes the event. */
	here = 9;
	mmap(p + PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0);
	ppa_mmap_unmapped((uintptr_t)p, 4 * PAGE, before);
	is(8, 0, 0);
	is(9, 1, 1);
	munmap(p, 4 * PAGE);
	is(9, 0, 0);
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
	bool fixed = rnd(2);
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
		assert_int_equal(values(i).bytes, pages[i] * PAGE);
	is_sound();
}

static void as_the_model(void **state)
{
	uint64_t lost = ppa_mmap_get_state().lost;
	int moves = 0;

	(void)state;
	room = window(PAGES + 64);
	for (int i = 0; i < STEPS; i++) {
		size_t n = 1 + rnd(40), page = rnd(PAGES - n), len = 1 + rnd(40);
		char *p = room + page * PAGE;

		here = 10 + rnd(SITES - 10);
		switch (rnd(4)) {
		case 0:
			assert_int_equal(munmap(p, n * PAGE), 0);
			memset(owner + page, 0, n);
			break;
		case 1:
			while (n > 1 && !owner[page])
				page++, n--;
			while (n > 1 && memchr(owner + page, 0, n))
				n--;
			step_mremap(page, n, rnd(PAGES - len), rnd(3) ? n : len);
			moves++;
			break;
		default:
			/* Protections differ, so that few neighbours become one mapping of the kernel's. */
			assert_ptr_equal(mmap(p, n * PAGE, rnd(2) ? RW : PROT_READ, ANON | MAP_FIXED, -1, 0), p);
			memset(owner + page, (int)here, n);
		}
		if (i % 256 == 0)
			compare();
	}
	compare();
	assert_true(moves > 1000);
	assert_int_equal(ppa_mmap_get_state().lost, lost);
	munmap(room, (PAGES + 64) * PAGE);
	for (int i = 1; i < SITES; i++)
		is(i, 0, 0);
}

/* ---- several at once ---- */

enum { THREADS = 4, ROUNDS = 20000, HELD = 16 };

static void *churn(void *arg)
{
	size_t len[HELD] = {0};
	char *held[HELD] = {NULL};

	here = (uintptr_t)arg;
	for (int i = 0; i < ROUNDS; i++) {
		size_t k = rnd(HELD), n = (1 + rnd(8)) * PAGE;

		if (!held[k]) {
			held[k] = mmap(NULL, n, RW, ANON, -1, 0);
			len[k] = n;
		} else if (rnd(3)) {
			munmap(held[k], len[k]);
			held[k] = NULL;
		} else {
			held[k] = mremap(held[k], len[k], n, MREMAP_MAYMOVE);
			len[k] = n;
		}
	}
	for (int k = 1; k < HELD; k++)
		if (held[k])
			munmap(held[k], len[k]);
	if (!held[0])
		held[0] = mmap(NULL, len[0] = PAGE, RW, ANON, -1, 0);
	held[0] = mremap(held[0], len[0], ((uintptr_t)arg + 1) * PAGE, MREMAP_MAYMOVE);
	return held[0];
}

static atomic_int handled;

static void map_in_handler(int sig)
{
	uintptr_t before = here;
	int saved = errno;
	char *p;

	(void)sig;
	here = 60;
	p = mmap(NULL, 2 * PAGE, RW, ANON, -1, 0);
	munmap(p, 2 * PAGE);
	here = before;
	errno = saved;
	handled++;
}

static void threads_and_handlers(void **state)
{
	struct itimerval every = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
	uint64_t lost = ppa_mmap_get_state().lost;
	pthread_t t[THREADS];
	void *left[THREADS];

	(void)state;
	signal(SIGALRM, map_in_handler);
	setitimer(ITIMER_REAL, &every, NULL);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, churn, (void *)(20 + i)), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], &left[i]);
	setitimer(ITIMER_REAL, &never, NULL);
	for (int i = 0; i < THREADS; i++)
		is(20 + i, 1, 21 + i);
	is(60, 0, 0);
	assert_true(handled > 10);
	assert_int_equal(ppa_mmap_get_state().lost, lost);
	for (size_t i = 0; i < THREADS; i++)
		munmap(left[i], (21 + i) * PAGE);
	is_sound();
}

/* ---- fork ---- */

static atomic_bool stop;

static void *map_on(void *arg)
{
	here = (uintptr_t)arg;
	while (!stop)
		munmap(mmap(NULL, PAGE, RW, ANON, -1, 0), PAGE);
	return NULL;
}

static int child(char *p)
{
	struct ppa_mmap_values other;

	munmap(p + PAGE, PAGE);
	map(31, 5);
	ppa_mmap_check();
	other = values(32);
	/* The other thread's last page may or may not be there. */
	return values(30).maps == 2 && values(30).bytes == 3 * PAGE && values(31).bytes == 5 * PAGE &&
			       other.bytes >= 0 && other.bytes <= PAGE && ppa_mmap_get_state().lost == 0
		       ? 0
		       : 1;
}

static void forked(void **state)
{
	char *p = map(30, 4);
	pthread_t t;
	int status;

	(void)state;
	stop = false;
	pthread_create(&t, NULL, map_on, (void *)32);
	for (int i = 0; i < 50; i++) {
		bool before = ppa_mmap_before_fork();
		pid_t pid;

		assert_true(before);
		pid = fork();
		ppa_mmap_after_fork(before, pid == 0);
		if (!pid)
			_exit(child(p));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	/* Without us nothing is recorded, nothing waits. */
	for (int i = 0; i < 50; i++) {
		pid_t pid = (pid_t)syscall(SYS_fork);

		if (!pid) {
			uint64_t made = sites[33].counters[PPA_MMAP_MAPS_MADE];

			munmap(map(33, 3), 3 * PAGE);
			_exit(ppa_mmap_is_on() || sites[33].counters[PPA_MMAP_MAPS_MADE] != made);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	stop = true;
	pthread_join(t, NULL);
	munmap(p, 4 * PAGE);
	is(30, 0, 0);
	is(32, 0, 0);
	assert_int_equal(ppa_mmap_get_state().lost, 0);
}

/* Another library's fork handler maps; so does a signal handler. The lock is this thread's own. */
static void mapped_inside_fork(void **state)
{
	bool before = ppa_mmap_before_fork();
	char *p = map(34, 2);

	(void)state;
	assert_true(before);
	is(34, 1, 2);
	assert_false(ppa_mmap_before_fork());
	ppa_mmap_after_fork(false, false);
	ppa_mmap_after_fork(before, false);
	munmap(p, 2 * PAGE);
	is(34, 0, 0);
}

/* The forking thread could not have the lock: the child starts with nothing rather than with half of it. */
static void forked_without_the_lock(void **state)
{
	char *p = map(34, 2);
	int status;
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		ppa_mmap_after_fork(false, true);
		map(35, 3);
		_exit(!(values(34).bytes == 0 && values(34).maps == 0 && values(35).bytes == 3 * PAGE &&
			ppa_mmap_get_state().regions == 1 && ppa_mmap_get_state().lost == 1));
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	munmap(p, 2 * PAGE);
}

/* ---- a lock that stays ---- */

static atomic_int phase;

static void *hold(void *arg)
{
	bool before = ppa_mmap_before_fork();

	(void)arg;
	phase = 1;
	while (phase != 2)
		usleep(1000);
	ppa_mmap_after_fork(before, false);
	return NULL;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void stuck(void **state)
{
	uint64_t lost = ppa_mmap_get_state().lost;
	pthread_t t;
	double begun;
	char *p[100];

	(void)state;
	pthread_create(&t, NULL, hold, NULL);
	while (phase != 1)
		usleep(1000);
	begun = now();
	for (int i = 0; i < 100; i++)
		p[i] = map(40, 1);
	assert_true(now() - begun > PPA_MMAP_PATIENCE_NS / 2e9);
	assert_true(now() - begun < PPA_MMAP_PATIENCE_NS * 3 / 1e9);
	assert_int_equal(ppa_mmap_get_state().lost - lost, 100);
	phase = 2;
	pthread_join(t, NULL);
	munmap(map(40, 1), PAGE);
	is(40, 0, 0);
	assert_int_equal(ppa_mmap_get_state().lost - lost, 100);
	for (int i = 0; i < 100; i++)
		munmap(p[i], PAGE);
	is_sound();
}

/* The mask comes back as it was, also when it blocked something. */
static void mask_is_kept(void **state)
{
	sigset_t set, now_set;

	(void)state;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	munmap(map(41, 1), PAGE);
	pthread_sigmask(SIG_UNBLOCK, &set, &now_set);
	for (int sig = 1; sig < 32; sig++)
		assert_int_equal(sigismember(&now_set, sig), sig == SIGUSR1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lives_and_dies),
		cmocka_unit_test(cut_to_pieces),
		cmocka_unit_test(fixed_replaces),
		cmocka_unit_test(remapped),
		cmocka_unit_test(behind_our_back),
		cmocka_unit_test(before_and_after),
		cmocka_unit_test(as_the_model),
		cmocka_unit_test(threads_and_handlers),
		cmocka_unit_test(forked),
		cmocka_unit_test(mapped_inside_fork),
		cmocka_unit_test(forked_without_the_lock),
		cmocka_unit_test(mask_is_kept),
		cmocka_unit_test(stuck),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
