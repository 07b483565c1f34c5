/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals to the whole process: while every thread of the target blocks SIGTERM it must stay pending, whatever other
 * threads are in the process; when one thread unblocks it, the handler runs there and nowhere else. Prints counts. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "victim.h"

static atomic_int in_main, elsewhere, early, may_run;
static pthread_t main_thread;

static void on_term(int sig)
{
	if (!atomic_load(&may_run))
		atomic_fetch_add(&early, 1);
	if (pthread_equal(pthread_self(), main_thread))
		atomic_fetch_add(&in_main, 1);
	else
		atomic_fetch_add(&elsewhere, 1);
	(void)sig;
}

int main(void)
{
	struct sigaction a = {.sa_handler = on_term};
	sigset_t term;

	main_thread = pthread_self();
	sigaction(SIGTERM, &a, NULL);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	victim_gate();
	for (int i = 0; i < 100; i++) {
		atomic_store(&may_run, 0);
		kill(getpid(), SIGTERM);
		victim_burn_ns(4000000);
		atomic_store(&may_run, 1);
		sigprocmask(SIG_UNBLOCK, &term, NULL);
		sigprocmask(SIG_BLOCK, &term, NULL);
	}
	printf("in main %d elsewhere %d early %d\n", in_main, elsewhere, early);
	return 0;
}
