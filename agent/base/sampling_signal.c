/* SPDX-License-Identifier: Apache-2.0
 *
 * Choice of the number: from 62 downwards. 64 is valgrind's own, 63 is popular with debuggers and runtimes that take
 * "the last one", the low real-time numbers belong to programs that count from SIGRTMIN. */
#include "agent/base/sampling_signal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>

#include "agent/base/real.h"

enum { FIRST_CANDIDATE = 62, LAST_CANDIDATE = 40 };

static struct {
	_Atomic int number;
	_Atomic unsigned generation;
	_Atomic uint64_t yielded; /* bit n - 1: n was ours and is the target's now */
	void (*_Atomic handler)(int, siginfo_t *, void *);
} state;

/* By bits, not sigismember: a handler may ask. sigset_t begins with one word on every 64-bit libc. */
static inline bool has(const sigset_t *set, int n)
{
	return *(const uint64_t *)(const void *)set & (1ULL << (n - 1));
}

bool ppa_signal_counts_as_in(const sigset_t *set, int n)
{
	return has(set, n - 1) && has(set, n + 1);
}

/* Default disposition, not asked for before, and not blocked for its own sake by whoever started us. */
static bool is_free(int n)
{
	struct sigaction old;
	sigset_t mask;

	if (ppa_real()->pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0 && has(&mask, n) &&
	    !ppa_signal_counts_as_in(&mask, n))
		return false;
	if (atomic_load_explicit(&state.yielded, memory_order_relaxed) & (1ULL << (n - 1)))
		return false;
	return ppa_real()->sigaction(n, NULL, &old) == 0 && old.sa_handler == SIG_DFL;
}

static int find_free(void)
{
	for (int n = FIRST_CANDIDATE; n >= LAST_CANDIDATE; n--)
		if (is_free(n))
			return n;
	return 0;
}

int ppa_signal_choose(void)
{
	int saved = errno, n = find_free();

	atomic_store_explicit(&state.number, n, memory_order_relaxed);
	errno = saved;
	return n ? 0 : -EBUSY;
}

int ppa_signal_number(void)
{
	return atomic_load_explicit(&state.number, memory_order_relaxed);
}

int ppa_signal_install(void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART}, old;
	int n = ppa_signal_number();

	sigfillset(&sa.sa_mask);
	atomic_store_explicit(&state.handler, handler, memory_order_relaxed);
	if (!n)
		return -EBUSY;
	if (ppa_real()->sigaction(n, NULL, &old))
		return -errno;
	if (old.sa_handler != SIG_DFL && old.sa_sigaction != handler) {
		/* Taken by a system call we do not see. */
		ppa_signal_yield(n);
		n = ppa_signal_number();
		if (!n)
			return -EBUSY;
	}
	return ppa_real()->sigaction(n, &sa, NULL) ? -errno : 0;
}

void ppa_signal_yield(int signum)
{
	void (*handler)(int, siginfo_t *, void *) = atomic_load_explicit(&state.handler, memory_order_relaxed);
	int expected = signum, next;

	atomic_fetch_or_explicit(&state.yielded, 1ULL << (signum - 1), memory_order_relaxed);
	/* Of several threads that yield the same number one chooses the next. */
	next = find_free();
	if (!atomic_compare_exchange_strong_explicit(&state.number, &expected, next, memory_order_relaxed,
						     memory_order_relaxed))
		return;
	if (handler)
		ppa_signal_install(handler);
	atomic_fetch_add_explicit(&state.generation, 1, memory_order_relaxed);
}

unsigned ppa_signal_generation(void)
{
	return atomic_load_explicit(&state.generation, memory_order_relaxed);
}

bool ppa_signal_was_ours(int signum)
{
	return signum > 0 && signum <= 64 &&
	       (atomic_load_explicit(&state.yielded, memory_order_relaxed) & (1ULL << (signum - 1)));
}
