/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for every signal there is: sigwait, sigwaitinfo, sigtimedwait, signalfd and sigpending on full sets. The
 * main thread sends numbered signals, the waiter burns CPU between two waits, so that a profiler's timer has expired
 * meanwhile. Each wait must give the signal that was sent and nothing else, each time-out must be one. The output is
 * equal with and without the agent. sigwaits [LAST] sends the real-time numbers up to LAST (43). */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#include "victim.h"

enum { ROUNDS = 40 };

static sem_t turn;
static sigset_t all;

static void burn(void)
{
	victim_burn_ns(6000000);
}

static int wait_signalfd(int fd, siginfo_t *info)
{
	struct signalfd_siginfo s;
	struct pollfd p = {.fd = fd, .events = POLLIN};

	victim_check(poll(&p, 1, 5000) == 1, "signalfd never readable");
	victim_check(read(fd, &s, sizeof(s)) == sizeof(s), "signalfd read");
	memset(info, 0, sizeof(*info));
	info->si_signo = (int)s.ssi_signo;
	info->si_code = s.ssi_code;
	info->si_value.sival_int = s.ssi_int;
	return (int)s.ssi_signo;
}

static int wait_one(int how, int fd, siginfo_t *info)
{
	struct timespec five = {5, 0};
	int sig = -1;

	memset(info, 0, sizeof(*info));
	switch (how) {
	case 0:
		victim_check(sigwait(&all, &sig) == 0, "sigwait");
		return sig;
	case 1:
		return sigwaitinfo(&all, info);
	case 2:
		return sigtimedwait(&all, info, &five);
	default:
		return wait_signalfd(fd, info);
	}
}

static void *waiter(void *arg)
{
	static const char *const names[] = {"sigwait", "sigwaitinfo", "sigtimedwait", "signalfd"};
	struct timespec short_time = {0, 3000000}, zero = {0, 0};
	struct pollfd p = {.events = POLLIN};
	sigset_t pending;
	siginfo_t info;
	int fd = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC), timeouts = 0, npending = 0, readable = 0;

	victim_check(fd >= 0, "signalfd");
	for (int how = 0; how < 4; how++) {
		int expected = 0, other = 0;
		long sum = 0;

		for (int i = 0; i < ROUNDS; i++) {
			int sig;

			sem_post(&turn);
			burn();
			sig = wait_one(how, fd, &info);
			expected += sig == SIGUSR1 || (sig >= SIGRTMIN && sig <= SIGRTMAX);
			other += sig != SIGUSR1 && !(sig >= SIGRTMIN && sig <= SIGRTMAX);
			sum += how == 0 ? 0 : sig * 1000 + info.si_value.sival_int + info.si_code;
		}
		printf("%s: expected %d other %d sum %ld\n", names[how], expected, other, sum);
	}
	for (int i = 0; i < ROUNDS; i++) {
		burn();
		sigpending(&pending);
		for (int s = 1; s <= 64; s++)
			npending += sigismember(&pending, s) == 1;
		p.fd = fd;
		readable += poll(&p, 1, 0);
		errno = 0;
		timeouts += sigtimedwait(&all, NULL, i % 2 ? &zero : &short_time) == -1 && errno == EAGAIN;
	}
	printf("timeouts %d pending %d readable %d\n", timeouts, npending, readable);
	close(fd);
	return arg;
}

int main(int argc, char **argv)
{
	int last = (int)victim_arg(argc, argv, 1, 43);
	pthread_t t;

	victim_gate();
	sem_init(&turn, 0, 0);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	victim_check(!pthread_create(&t, NULL, waiter, NULL), "pthread_create");
	for (int i = 0; i < 4 * ROUNDS; i++) {
		union sigval v = {.sival_int = i};

		while (sem_wait(&turn) != 0)
			;
		if (i % 3 == 0)
			pthread_kill(t, SIGUSR1);
		else
			pthread_sigqueue(t, SIGRTMIN + i % (last - SIGRTMIN + 1), v);
	}
	pthread_join(t, NULL);
	return 0;
}
