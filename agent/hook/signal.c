/* SPDX-License-Identifier: Apache-2.0
 *
 * Signal masks and dispositions as the target set them, minus our one number.
 *
 * A thread that blocks every signal would collect seconds of timer overrun, and sigwait on everything would hand our
 * signal to the target. So our number is taken out of each mask on its way in and put back on its way out: a bit per
 * thread (ppa_self.blocks_ours) and one per disposition remember what the target believes.
 *
 * A mask of nearly everything is no interest in our number; a small set that names it is: then we yield it (see
 * agent/base/sampling_signal.h). With the agent off each hook is one test and a direct call. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/signalfd.h>

#include "agent/base/real.h"
#include "agent/base/sampling_signal.h"
#include "agent/base/self.h"
#include "agent/hook/forward.h"

enum { FEW_SIGNALS = 32 };

/* Dispositions whose sa_mask, as the target gave it, contains our number; bit n - 1 for signal n. */
static _Atomic uint64_t masks_with_ours;

/* A set of at most a few signals that contains n was written with n in mind. */
static bool names(const sigset_t *set, int n)
{
	int members = 0;

	if (sigismember(set, n) != 1)
		return false;
	for (int i = 1; i <= 64; i++)
		members += sigismember(set, i) == 1;
	return members < FEW_SIGNALS;
}

/* Our number now; yields it first if set asks for it. */
static int number_after(const sigset_t *set)
{
	int n = ppa_signal_number();

	if (ppa_unlikely(n && set && names(set, n))) {
		ppa_signal_yield(n);
		n = ppa_signal_number();
	}
	return n;
}

static void note_mask(int how, bool has)
{
	if (how == SIG_SETMASK)
		ppa_self.blocks_ours = has;
	else if (has)
		ppa_self.blocks_ours = how == SIG_BLOCK;
}

static int mask_hook(int (*real)(int, const sigset_t *, sigset_t *), int how, const sigset_t *set, sigset_t *old)
{
	int n = number_after(set), rc;
	bool was = ppa_self.blocks_ours, has = false, had_set = set != NULL;
	sigset_t mine;

	if (!n)
		return real(how, set, old);
	if (set && sigismember(set, n) == 1) {
		has = true;
		mine = *set;
		sigdelset(&mine, n);
		set = &mine;
	}
	rc = real(how, set, old);
	if (rc)
		return rc;
	if (had_set)
		note_mask(how, has);
	if (old && was)
		sigaddset(old, n);
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
		ppa_signal_yield(sig);
	}
	return ppa_forward_action(sig, act, old);
}

PPA_EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	int n = ppa_signal_number(), rc;
	struct sigaction mine;
	uint64_t bit;
	bool had, has = false;

	if (!n || sig < 1 || sig > 64)
		return ppa_real()->sigaction(sig, act, old);
	if (ppa_unlikely(sig == n || ppa_signal_was_ours(sig)))
		return own_number_action(sig, act, old);
	bit = 1ULL << (sig - 1);
	had = atomic_load_explicit(&masks_with_ours, memory_order_relaxed) & bit;
	if (act && sigismember(&act->sa_mask, n) == 1) {
		has = true;
		mine = *act;
		sigdelset(&mine.sa_mask, n);
	}
	rc = ppa_real()->sigaction(sig, has ? &mine : act, old);
	if (rc)
		return rc;
	if (act && has != had) {
		if (has)
			atomic_fetch_or_explicit(&masks_with_ours, bit, memory_order_relaxed);
		else
			atomic_fetch_and_explicit(&masks_with_ours, ~bit, memory_order_relaxed);
	}
	if (old && had)
		sigaddset(&old->sa_mask, n);
	return rc;
}

/* libc's signal never touches our number, except when the target names it. */
PPA_EXPORT void (*signal(int sig, void (*handler)(int)))(int)
{
	struct sigaction act = { .sa_handler = handler, .sa_flags = SA_RESTART }, old;
	int n = ppa_signal_number();

	if (ppa_likely(!n || (sig != n && !ppa_signal_was_ours(sig))))
		return ppa_real()->signal(sig, handler);
	sigaddset(&act.sa_mask, sig);
	return sigaction(sig, &act, &old) ? SIG_ERR : old.sa_handler;
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
