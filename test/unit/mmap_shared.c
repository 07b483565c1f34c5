/* SPDX-License-Identifier: Apache-2.0 */
// link: agent/hook/mmap.c agent/heap/mmap.c agent/heap/mmap_lock.c agent/heap/mmap_callers.c agent/heap/mmap_check.c agent/heap/regions.c unwind/module/maps.c test/fakes/sites.c
/* Mappings of a process that does several things at once. See mmap.c.
 *
 * Promise: with four threads that reuse each other's addresses, and with signal handlers that map, nothing is lost and
 * everything is charged to its owner.
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
#include "test/fakes/sites.h"

static int begin(void **state)
{
	(void)state;
	return ppa_mmap_start();
}

/* ---- several at once ---- */

enum { THREADS = 4, ROUNDS = 20000, HELD = 16 };

static void *churn(void *arg)
{
	size_t len[HELD] = {0};
	char *held[HELD] = {NULL};

	fake_here = (uintptr_t)arg;
	for (int i = 0; i < ROUNDS; i++) {
		size_t k = fake_random(HELD), n = (1 + fake_random(8)) * PAGE;

		if (!held[k]) {
			held[k] = mmap(NULL, n, RW, ANON, -1, 0);
			len[k] = n;
		} else if (fake_random(3)) {
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
	uintptr_t before = fake_here;
	int saved = errno;
	char *p;

	(void)sig;
	fake_here = 60;
	p = mmap(NULL, 2 * PAGE, RW, ANON, -1, 0);
	munmap(p, 2 * PAGE);
	fake_here = before;
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
		fake_is(20 + i, 1, 21 + i);
	fake_is(60, 0, 0);
	assert_true(handled > 10);
	assert_int_equal(ppa_mmap_get_state().lost, lost);
	for (size_t i = 0; i < THREADS; i++)
		munmap(left[i], (21 + i) * PAGE);
	fake_is_sound();
}

/* ---- fork ---- */

static atomic_bool stop;

static void *map_on(void *arg)
{
	fake_here = (uintptr_t)arg;
	while (!stop)
		munmap(mmap(NULL, PAGE, RW, ANON, -1, 0), PAGE);
	return NULL;
}

static int child(char *p)
{
	struct ppa_mmap_values other;

	munmap(p + PAGE, PAGE);
	fake_map(31, 5);
	ppa_mmap_check();
	other = fake_values(32);
	/* The other thread's last page may or may not be there. */
	return fake_values(30).maps == 2 && fake_values(30).bytes == 3 * PAGE && fake_values(31).bytes == 5 * PAGE &&
			       other.bytes >= 0 && other.bytes <= PAGE && ppa_mmap_get_state().lost == 0
		       ? 0
		       : 1;
}

static void forked(void **state)
{
	char *p = fake_map(30, 4);
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
			uint64_t made = fake_sites[33].counters[PPA_MMAP_MAPS_MADE];

			munmap(fake_map(33, 3), 3 * PAGE);
			_exit(ppa_mmap_is_on() || fake_sites[33].counters[PPA_MMAP_MAPS_MADE] != made);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	stop = true;
	pthread_join(t, NULL);
	munmap(p, 4 * PAGE);
	fake_is(30, 0, 0);
	fake_is(32, 0, 0);
	assert_int_equal(ppa_mmap_get_state().lost, 0);
}

/* Another library's fork handler maps; so does a signal handler. The lock is this thread's own. */
static void mapped_inside_fork(void **state)
{
	bool before = ppa_mmap_before_fork();
	char *p = fake_map(34, 2);

	(void)state;
	assert_true(before);
	fake_is(34, 1, 2);
	assert_false(ppa_mmap_before_fork());
	ppa_mmap_after_fork(false, false);
	ppa_mmap_after_fork(before, false);
	munmap(p, 2 * PAGE);
	fake_is(34, 0, 0);
}

/* The forking thread could not have the lock: the child starts with nothing rather than with half of it. */
static void forked_without_the_lock(void **state)
{
	char *p = fake_map(34, 2);
	int status;
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		ppa_mmap_after_fork(false, true);
		fake_map(35, 3);
		_exit(!(fake_values(34).bytes == 0 && fake_values(34).maps == 0 && fake_values(35).bytes == 3 * PAGE &&
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
		p[i] = fake_map(40, 1);
	assert_true(now() - begun > PPA_MMAP_PATIENCE_NS / 2e9);
	assert_true(now() - begun < PPA_MMAP_PATIENCE_NS * 3 / 1e9);
	assert_int_equal(ppa_mmap_get_state().lost - lost, 100);
	phase = 2;
	pthread_join(t, NULL);
	munmap(fake_map(40, 1), PAGE);
	fake_is(40, 0, 0);
	assert_int_equal(ppa_mmap_get_state().lost - lost, 100);
	for (int i = 0; i < 100; i++)
		munmap(p[i], PAGE);
	fake_is_sound();
}

/* The mask comes back as it was, also when it blocked something. */
static void mask_is_kept(void **state)
{
	sigset_t set, now_set;

	(void)state;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	munmap(fake_map(41, 1), PAGE);
	pthread_sigmask(SIG_UNBLOCK, &set, &now_set);
	for (int sig = 1; sig < 32; sig++)
		assert_int_equal(sigismember(&now_set, sig), sig == SIGUSR1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_and_handlers), cmocka_unit_test(forked),
		cmocka_unit_test(mapped_inside_fork),	cmocka_unit_test(forked_without_the_lock),
		cmocka_unit_test(mask_is_kept),		cmocka_unit_test(stuck),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
