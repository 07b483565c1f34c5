/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that blocks every signal for a second of CPU and unblocks them in a function of its own.
 *
 * blocker raw: by system call, behind every hook. blocker mask: through pthread_sigmask. blocker born: a thread that
 * is created while its parent blocks all. Gate, burn, print the nanoseconds burned in each part, gate, end. */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "victim.h"

static int is_raw;

VICTIM_NOINLINE static void set_mask(int how, const sigset_t *set)
{
	if (is_raw)
		syscall(SYS_rt_sigprocmask, how, set, NULL, 8);
	else
		pthread_sigmask(how, set, NULL);
	VICTIM_NO_TAIL_CALL();
}

VICTIM_NOINLINE static void unblock_here(void)
{
	sigset_t none;

	sigemptyset(&none);
	set_mask(SIG_SETMASK, &none);
	VICTIM_NO_TAIL_CALL();
}

VICTIM_NOINLINE static void burn_blocked(void)
{
	victim_burn_ns(1000000000);
	VICTIM_NO_TAIL_CALL();
}

VICTIM_NOINLINE static void burn_open(void)
{
	victim_burn_ns(300000000);
	VICTIM_NO_TAIL_CALL();
}

static void *blocked_thread(void *arg)
{
	sigset_t all;
	uint64_t t0 = victim_cpu_ns(), t1;

	if (arg) {
		sigfillset(&all);
		set_mask(SIG_SETMASK, &all);
	}
	burn_blocked();
	t1 = victim_cpu_ns();
	unblock_here();
	burn_open();
	printf("blocked %llu\nopen %llu\n", (unsigned long long)(t1 - t0), (unsigned long long)(victim_cpu_ns() - t1));
	return NULL;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "raw";
	int is_born = !strcmp(mode, "born");
	sigset_t all, old;
	pthread_t t;

	is_raw = !strcmp(mode, "raw");
	victim_gate();
	if (is_born) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
	}
	victim_check(!pthread_create(&t, NULL, blocked_thread, is_born ? NULL : &is_raw), "pthread_create");
	if (is_born)
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_join(t, NULL);
	fflush(stdout);
	victim_gate();
	return 0;
}
