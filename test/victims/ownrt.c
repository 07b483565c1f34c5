/* SPDX-License-Identifier: Apache-2.0
 *
 * A target that uses every real-time signal from FIRST (50) to 64 itself: handlers on all, hundreds of each queued to
 * itself with values while it burns CPU. What each handler got, by number and by sum of values, is equal with and
 * without the agent. A second round queues them while they are blocked and takes them all at once; a third waits for
 * each number by itself, with sigtimedwait on a set of that one. */
#include <signal.h>
#include <string.h>

#include "victim.h"

enum { LAST = 64, EACH = 200 };

static int first;
static volatile long count[LAST + 1], sum[LAST + 1], foreign;

static void on_signal(int sig, siginfo_t *info, void *context)
{
	count[sig]++;
	sum[sig] += info->si_value.sival_int;
	foreign += info->si_code != SI_QUEUE || info->si_pid != getpid();
	(void)context;
}

static void queue_all(int i)
{
	for (int s = first; s <= LAST; s++) {
		union sigval v = {.sival_int = i * 100 + s};

		victim_check(!sigqueue(getpid(), s, v), "sigqueue");
	}
}

/* One number after the other, blocked, queued and fetched. */
static void wait_for_each(void)
{
	struct timespec second = {1, 0};

	for (int s = first; s <= LAST; s++) {
		union sigval v = {.sival_int = s};
		siginfo_t info;
		sigset_t one;
		int got;

		sigemptyset(&one);
		sigaddset(&one, s);
		sigprocmask(SIG_BLOCK, &one, NULL);
		victim_check(!sigqueue(getpid(), s, v), "sigqueue");
		victim_burn_ns(5000000);
		memset(&info, 0, sizeof(info));
		got = sigtimedwait(&one, &info, &second);
		printf("waited for %d: %d value %d\n", s, got, info.si_value.sival_int);
		sigprocmask(SIG_UNBLOCK, &one, NULL);
	}
}

int main(int argc, char **argv)
{
	sigset_t mine, old;

	first = (int)victim_arg(argc, argv, 1, 50);
	victim_gate();
	for (int s = first; s <= LAST; s++) {
		struct sigaction a;

		memset(&a, 0, sizeof(a));
		a.sa_sigaction = on_signal;
		a.sa_flags = SA_SIGINFO;
		victim_check(!sigaction(s, &a, NULL), "sigaction");
	}
	for (int i = 0; i < EACH; i++) {
		queue_all(i);
		victim_burn_ns(2000000);
	}
	sigemptyset(&mine);
	for (int s = first; s <= LAST; s++)
		sigaddset(&mine, s);
	sigprocmask(SIG_BLOCK, &mine, &old);
	for (int i = 0; i < 10; i++) {
		queue_all(i);
		victim_burn_ns(6000000);
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	for (int s = first; s <= LAST; s++)
		printf("%d: %ld sum %ld\n", s, count[s], sum[s]);
	wait_for_each();
	printf("foreign %ld\n", foreign);
	return 0;
}
