/* SPDX-License-Identifier: Apache-2.0
 *
 * A target that profiles itself: a SIGPROF handler under setitimer(ITIMER_PROF, 10 ms), and a monotonic timer of 5 ms
 * with SIGEV_SIGNAL on a real-time signal, both counted while it burns CPU. ownprof CPU-MILLISECONDS [RT-NUMBER].
 * Prints what it got and what it was owed; not comparable bit by bit, the test compares ratios. */
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "victim.h"

static volatile sig_atomic_t nprof, nprof_foreign, nrt, nrt_foreign, noverrun;
static timer_t timer;
static const int cookie = 0x5ca1ab1e;

static void on_prof(int sig, siginfo_t *info, void *context)
{
	nprof++;
	nprof_foreign += info->si_code != SI_KERNEL || sig != SIGPROF;
	(void)context;
}

static void on_rt(int sig, siginfo_t *info, void *context)
{
	nrt++;
	nrt_foreign += info->si_code != SI_TIMER || info->si_value.sival_int != cookie;
	noverrun += info->si_overrun;
	(void)sig;
	(void)context;
}

static void install(int sig, void (*fn)(int, siginfo_t *, void *))
{
	struct sigaction a;

	memset(&a, 0, sizeof(a));
	a.sa_sigaction = fn;
	a.sa_flags = SA_SIGINFO | SA_RESTART;
	victim_check(!sigaction(sig, &a, NULL), "sigaction");
}

int main(int argc, char **argv)
{
	long ms = victim_arg(argc, argv, 1, 500);
	int rt = (int)victim_arg(argc, argv, 2, SIGRTMIN + 1);
	struct itimerval every10 = {{0, 10000}, {0, 10000}}, off = {{0, 0}, {0, 0}};
	struct itimerspec every5 = {{0, 5000000}, {0, 5000000}};
	struct sigevent ev;
	struct itimerval now;
	uint64_t cpu, wall;

	victim_gate();
	install(SIGPROF, on_prof);
	install(rt, on_rt);
	memset(&ev, 0, sizeof(ev));
	ev.sigev_notify = SIGEV_SIGNAL;
	ev.sigev_signo = rt;
	ev.sigev_value.sival_int = cookie;
	victim_check(!timer_create(CLOCK_MONOTONIC, &ev, &timer), "timer_create");
	cpu = victim_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	wall = victim_clock_ns(CLOCK_MONOTONIC);
	victim_check(!setitimer(ITIMER_PROF, &every10, NULL), "setitimer");
	victim_check(!timer_settime(timer, 0, &every5, NULL), "timer_settime");
	victim_burn_ns((uint64_t)ms * 1000000);
	getitimer(ITIMER_PROF, &now);
	setitimer(ITIMER_PROF, &off, NULL);
	timer_delete(timer);
	cpu = victim_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	wall = victim_clock_ns(CLOCK_MONOTONIC) - wall;
	printf("prof %d owed %.1f foreign %d interval %ld\n", (int)nprof, (double)cpu / 10e6, (int)nprof_foreign,
	       (long)now.it_interval.tv_usec);
	printf("rt %d owed %.1f foreign %d\n", (int)(nrt + noverrun), (double)wall / 5e6, (int)nrt_foreign);
	return 0;
}
