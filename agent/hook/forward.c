/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel gets the target's own flags and mask, so blocking, restarting, nesting and the alternate stack are what
 * the target asked for; only the function differs, and SA_SIGINFO is added, which the handler cannot tell. */
#include "agent/hook/forward.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "agent/base/real.h"
#include "agent/base/sampling_signal.h"
#include "agent/cpu/cpu.h"

enum { NSIGNALS = 65 };

/* What the target set. Written before the forwarder is installed for it; a second writer at the same time is a race
 * between two sigaction calls of the target, whose order nobody can know. */
static struct sigaction wanted[NSIGNALS];
static atomic_bool forwards[NSIGNALS];

static void forwarder(int sig, siginfo_t *si, void *ucontext)
{
	const struct sigaction *w = &wanted[sig];

	if (ppa_cpu_owns_signal(si))
		return;
	if (w->sa_flags & SA_SIGINFO)
		w->sa_sigaction(sig, si, ucontext);
	else if (w->sa_handler != SIG_IGN && w->sa_handler != SIG_DFL)
		w->sa_handler(sig);
}

int ppa_forward_action(int sig, const struct sigaction *act, struct sigaction *old)
{
	bool had = atomic_load_explicit(&forwards[sig], memory_order_acquire);
	struct sigaction before = wanted[sig], mine;
	bool has = act && act->sa_handler != SIG_DFL && act->sa_handler != SIG_IGN;
	int rc;

	if (has) {
		mine = *act;
		/* Our new number, if the target blocks everything meanwhile. */
		if (ppa_signal_number() && ppa_signal_counts_as_in(&mine.sa_mask, ppa_signal_number()))
			sigdelset(&mine.sa_mask, ppa_signal_number());
		wanted[sig] = *act;
		mine.sa_sigaction = forwarder;
		mine.sa_flags |= SA_SIGINFO;
		act = &mine;
	}
	rc = ppa_real()->sigaction(sig, act, old);
	if (rc) {
		wanted[sig] = before;
		return rc;
	}
	/* Mask and flags come back as the kernel keeps them (without SIGKILL and SIGSTOP, say); ours are only the function
	 * and SA_SIGINFO. */
	if (old && had) {
		old->sa_sigaction = before.sa_sigaction;
		old->sa_flags &= before.sa_flags | ~SA_SIGINFO;
		if (ppa_signal_number() && ppa_signal_counts_as_in(&old->sa_mask, ppa_signal_number()))
			sigaddset(&old->sa_mask, ppa_signal_number());
	} else if (old && old->sa_sigaction == ppa_cpu_handler) {
		*old = (struct sigaction){.sa_handler = SIG_DFL};
	}
	if (act)
		/* release: wanted is written; pairs with the acquire above. */
		atomic_store_explicit(&forwards[sig], has, memory_order_release);
	return rc;
}
