/* SPDX-License-Identifier: Apache-2.0
 *
 * Signal masks and dispositions as the target set them, minus our one number.
 *
 * A thread that blocks every signal would collect seconds of timer overrun, and sigwait on everything would hand our
 * signal to the target. So our number is taken out of each mask on its way in and put back on its way out.
 *
 * What the target believes is kept nowhere but in the kernel: our number counts as blocked where both its neighbours
 * are. A mask of everything has them, and keeps them through sigreturn, siglongjmp, fork, exec and new threads, none of
 * which pass here; a record of our own was tried first and went stale in each of these. A set that names our number
 * without its neighbours was written with it in mind: then we yield it (see agent/base/sampling_signal.h). What is shown
 * wrong, by one bit, is a mask with a hole right beside our number, such as every other signal.
 *
 * With the agent off each hook is one test and a direct call. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "agent/base/real.h"
#include "agent/base/sampling_signal.h"
#include "agent/hook/forward.h"

/* Give the target its number and take another. In this thread's mask what was shown becomes real for the old number,
 * and the new one is made free; other threads follow with the next mask they set. */
static int move_away(int n)
{
	sigset_t mask;
	int next;

	ppa_signal_yield(n);
	next = ppa_signal_number();
	if (ppa_real()->pthread_sigmask(SIG_BLOCK, NULL, &mask))
		return next;
	if (ppa_signal_counts_as_in(&mask, n))
		sigaddset(&mask, n);
	if (next)
		sigdelset(&mask, next);
	ppa_real()->pthread_sigmask(SIG_SETMASK, &mask, NULL);
	return next;
}

/* Our number now; yields it first if set asks for it. */
static int number_after(const sigset_t *set)
{
	int n = ppa_signal_number();

	while (ppa_unlikely(n && set && sigismember(set, n) == 1 && !ppa_signal_counts_as_in(set, n)))
		n = move_away(n);
	return n;
}

/* Show a set of the kernel's as the target gave it. */
static void put_back(sigset_t *set, int n)
{
	if (ppa_signal_counts_as_in(set, n))
		sigaddset(set, n);
	else
		sigdelset(set, n);
}

/* A copy of set without our number, or set itself where it does not contain it. */
static const sigset_t *without_ours(const sigset_t *set, sigset_t *copy)
{
	int n = number_after(set);

	if (!n || !set || sigismember(set, n) != 1)
		return set;
	*copy = *set;
	sigdelset(copy, n);
	return copy;
}

static int mask_hook(int (*real)(int, const sigset_t *, sigset_t *), int how, const sigset_t *set, sigset_t *old)
{
	sigset_t copy;
	const sigset_t *mine = without_ours(set, &copy);
	int n = ppa_signal_number(), rc = real(how, mine, old);

	if (rc == 0 && old && n)
		put_back(old, n);
	return rc;
}

PPA_EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	return mask_hook(ppa_real()->pthread_sigmask, how, set, old);
}

PPA_EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	return mask_hook(ppa_real()->sigprocmask, how, set, old);
}

/* sigaction for a number that is or was ours. */
static int own_number_action(int sig, const struct sigaction *act, struct sigaction *old)
{
	if (!ppa_signal_was_ours(sig)) {
		if (!act || act->sa_handler == SIG_DFL) {
			/* The target sees what it would without us; our handler, if installed, stays. */
			if (old) {
				memset(old, 0, sizeof(*old));
				old->sa_handler = SIG_DFL;
			}
			return 0;
		}
		move_away(sig);
	}
	return ppa_forward_action(sig, act, old);
}

/* An alternate stack is often 8 KiB, of which each signal frame takes 3.6 KiB with AVX-512 state: ours on top of the
 * target's would leave its handler next to nothing. There our signal waits until the handler is done; elsewhere it is
 * never blocked. */
static void mask_for_handler(struct sigaction *act, int n)
{
	if ((act->sa_flags & SA_ONSTACK) && act->sa_handler != SIG_DFL && act->sa_handler != SIG_IGN)
		sigaddset(&act->sa_mask, n);
	else
		sigdelset(&act->sa_mask, n);
}

PPA_EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	int n = act ? number_after(&act->sa_mask) : ppa_signal_number(), rc;
	struct sigaction mine;

	if (!n || sig < 1 || sig > 64)
		return ppa_real()->sigaction(sig, act, old);
	if (ppa_unlikely(sig == n || ppa_signal_was_ours(sig)))
		return own_number_action(sig, act, old);
	if (act) {
		mine = *act;
		mask_for_handler(&mine, n);
		act = &mine;
	}
	rc = ppa_real()->sigaction(sig, act, old);
	if (rc == 0 && old)
		put_back(&old->sa_mask, n);
	return rc;
}

/* libc's signal never touches our number, except when the target names it. */
PPA_EXPORT void (*signal(int sig, void (*handler)(int)))(int)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
	int n = ppa_signal_number();

	if (ppa_likely(!n || (sig != n && !ppa_signal_was_ours(sig))))
		return ppa_real()->signal(sig, handler);
	sigaddset(&act.sa_mask, sig);
	return sigaction(sig, &act, &old) ? SIG_ERR : old.sa_handler;
}

PPA_EXPORT int sigwait(const sigset_t *restrict set, int *restrict sig)
{
	sigset_t copy;

	return ppa_real()->sigwait(without_ours(set, &copy), sig);
}

PPA_EXPORT int sigwaitinfo(const sigset_t *restrict set, siginfo_t *restrict info)
{
	sigset_t copy;

	return ppa_real()->sigwaitinfo(without_ours(set, &copy), info);
}

PPA_EXPORT int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info,
			    const struct timespec *restrict timeout)
{
	sigset_t copy;

	return ppa_real()->sigtimedwait(without_ours(set, &copy), info, timeout);
}

PPA_EXPORT int signalfd(int fd, const sigset_t *set, int flags)
{
	sigset_t copy;

	return ppa_real()->signalfd(fd, without_ours(set, &copy), flags);
}

PPA_EXPORT int sigpending(sigset_t *set)
{
	int n = ppa_signal_number(), rc = ppa_real()->sigpending(set);

	if (rc == 0 && n)
		sigdelset(set, n);
	return rc;
}
