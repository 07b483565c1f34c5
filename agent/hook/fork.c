/* SPDX-License-Identifier: Apache-2.0
 *
 * fork and what forks inside libc (daemon, forkpty): interposed rather than pthread_atfork, because our part in the
 * child starts a thread and must come after every other library's fork handlers have run (an allocator's would still
 * hold its locks), and because musl lacks glibc's hidden registration symbol.
 *
 * Our signal is blocked on the forking thread meanwhile: the clone of a large process takes longer than a timer's
 * period and would be restarted by each signal for ever. The CPU time it takes still belongs to fork's caller, which
 * in_fork tells the handler. vfork, posix_spawn and raw clone children never run our code. */
#include <errno.h>
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "agent/base/real.h"
#include "agent/base/sampling_signal.h"
#include "agent/base/self.h"
#include "agent/base/sys.h"
#include "agent/heap/mmap.h"
#include "agent/hook/fork.h"
#include "agent/thread/threads.h"

static void (*child_handler)(void);

void ppa_fork_on_child(void (*handler)(void))
{
	child_handler = handler;
}

struct forking {
	int signum;
	pid_t parent;
	bool has_maps; /* nobody is changing the regions of mmap: the child's copy is whole */
};

static struct forking before(void)
{
	struct forking f = {ppa_signal_number(), ppa_sys_getpid(), false};
	sigset_t set;

	if (!f.signum)
		return f;
	if (ppa_self.slot)
		atomic_store_explicit(&ppa_self.slot->in_fork, true, memory_order_relaxed);
	sigemptyset(&set);
	sigaddset(&set, f.signum);
	ppa_real()->pthread_sigmask(SIG_BLOCK, &set, NULL);
	f.has_maps = ppa_mmap_before_fork();
	return f;
}

/* In the parent and in the child. Our own threads never fork, so ours is always free to be unblocked. */
static void after(const struct forking *f)
{
	bool is_child = ppa_sys_getpid() != f->parent;
	int saved = errno;
	sigset_t set;

	if (!f->signum)
		return;
	ppa_mmap_after_fork(f->has_maps, is_child);
	if (child_handler && is_child)
		child_handler();
	sigemptyset(&set);
	sigaddset(&set, f->signum);
	ppa_real()->pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	if (ppa_self.slot)
		atomic_store_explicit(&ppa_self.slot->in_fork, false, memory_order_relaxed);
	errno = saved;
}

PPA_EXPORT pid_t fork(void)
{
	struct forking f = before();
	pid_t pid = ppa_real()->fork();

	after(&f);
	return pid;
}

PPA_EXPORT int daemon(int nochdir, int noclose)
{
	struct forking f = before();
	int rc = ppa_real()->daemon(nochdir, noclose);

	after(&f);
	return rc;
}

/* In libutil before glibc 2.34: found at run time or, without that library, as little there as without us. */
PPA_EXPORT pid_t forkpty(int *amaster, char *name, const struct termios *termp, const struct winsize *winp)
{
	struct forking f = before();
	pid_t pid;

	if (!ppa_real()->forkpty) {
		after(&f);
		errno = ENOSYS;
		return -1;
	}
	pid = ppa_real()->forkpty(amaster, name, termp, winp);
	after(&f);
	return pid;
}
