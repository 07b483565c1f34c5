/* SPDX-License-Identifier: Apache-2.0
 *
 * Every blocking call that is no lock through its results: readiness, reads, sockets, sleeps, children; in time, in vain,
 * interrupted, refused, cancelled. Each call is a line with its result and errno. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "victim.h"

enum { SOON_MS = 5, ERRNO_BEFORE = 4321 };

#define SAY_BEFORE(afterwards, name, call)                                                                             \
	do {                                                                                                           \
		long r_;                                                                                               \
		int errno_;                                                                                            \
		errno = ERRNO_BEFORE;                                                                                  \
		r_ = (long)(call);                                                                                     \
		errno_ = errno;                                                                                        \
		afterwards;                                                                                            \
		printf("%s = %ld errno %d\n", name, r_, errno_);                                                       \
		fflush(stdout);                                                                                        \
	} while (0)

#define SAY(call) SAY_BEFORE((void)0, #call, call)

static int tube[2], pair[2];

static void on_alarm(int sig)
{
	(void)sig;
}

static pthread_t self;

/* Once, and not before the call waits: a hook that went on after it would stay there for ever. */
static void *interrupt(void *unused)
{
	victim_sleep_ms(SOON_MS);
	victim_until_in(getpid(), VICTIM_ANY_CALL);
	pthread_kill(self, SIGALRM);
	return unused;
}

static pthread_t interrupt_soon(void)
{
	pthread_t t;

	victim_check(!pthread_create(&t, NULL, interrupt, NULL), "pthread_create");
	return t;
}

#define SAY_INTERRUPTED(call)                                                                                          \
	do {                                                                                                           \
		pthread_t t_ = interrupt_soon();                                                                       \
		SAY_BEFORE(pthread_join(t_, NULL), #call, call);                                                       \
	} while (0)

static void readiness(void)
{
	struct pollfd p = {tube[0], POLLIN, 0};
	struct timespec soon = {0, SOON_MS * 1000000}, bad = {0, -1};
	struct timeval soon_us = {0, SOON_MS * 1000};
	struct epoll_event event;
	int e = epoll_create1(0);

	SAY(poll(&p, 1, SOON_MS));
	SAY(ppoll(&p, 1, &soon, NULL));
	SAY(ppoll(&p, 1, &bad, NULL));
	SAY(select(0, NULL, NULL, NULL, &soon_us));
	SAY(pselect(0, NULL, NULL, NULL, &soon, NULL));
	SAY(epoll_wait(e, &event, 1, SOON_MS));
	SAY(epoll_pwait(e, &event, 1, SOON_MS, NULL));
	SAY(epoll_wait(-1, &event, 1, SOON_MS));
	SAY_INTERRUPTED(poll(&p, 1, -1));
	SAY_INTERRUPTED(select(0, NULL, NULL, NULL, NULL));
	SAY_INTERRUPTED(epoll_wait(e, &event, 1, -1));
	SAY(write(tube[1], "xy", 2));
	SAY(poll(&p, 1, -1));
	close(e);
}

static void data(void)
{
	char b[8];
	struct iovec piece = {b, 1};
	struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1};

	SAY(read(tube[0], b, 1));
	SAY(read(tube[0], b, 8));
	SAY(read(-1, b, 1));
	SAY_INTERRUPTED(read(tube[0], b, 8));
	SAY(send(pair[1], "abcdef", 6, 0));
	SAY(recv(pair[0], b, 1, 0));
	SAY(recvfrom(pair[0], b, 1, 0, NULL, NULL));
	SAY(recvmsg(pair[0], &m, 0));
	SAY_INTERRUPTED(recv(pair[1], b, 1, 0));
	SAY(recv(pair[1], b, 1, MSG_DONTWAIT));
}

static void connections(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int l = socket(AF_UNIX, SOCK_STREAM, 0), c = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "iocontract-%d", getpid());
	bind(l, (struct sockaddr *)&a, sizeof(a));
	listen(l, 1);
	SAY(connect(c, (struct sockaddr *)&a, sizeof(a)));
	SAY(accept(l, NULL, NULL) > 0);
	SAY_INTERRUPTED(accept4(l, NULL, NULL, SOCK_CLOEXEC));
	close(l);
	SAY(connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&a, sizeof(a)));
	SAY(accept(-1, NULL, NULL));
}

static void sleeps(void)
{
	struct timespec soon = {0, SOON_MS * 1000000}, bad = {0, -1}, late = {2, 0}, left = {0, 0};

	SAY(nanosleep(&soon, NULL));
	SAY(nanosleep(&bad, NULL));
	SAY_INTERRUPTED(nanosleep(&late, &left));
	SAY(left.tv_sec == 1 && left.tv_nsec > 0);
	SAY(clock_nanosleep(CLOCK_MONOTONIC, 0, &soon, NULL));
	SAY(clock_nanosleep(77, 0, &soon, NULL));
	SAY_INTERRUPTED(clock_nanosleep(CLOCK_MONOTONIC, 0, &late, NULL));
	SAY(sleep(0));
	SAY_INTERRUPTED(sleep(3) > 0);
	SAY(usleep(3000));
}

static pid_t child(int status)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	usleep(SOON_MS * 1000);
	_exit(status);
}

static void children(void)
{
	siginfo_t si;
	pid_t pid;
	int st;

	child(1);
	SAY(wait(&st) > 0);
	SAY(WEXITSTATUS(st));
	pid = child(2);
	SAY(waitpid(pid, &st, 0) == pid);
	SAY(WEXITSTATUS(st));
	child(3);
	SAY(waitid(P_ALL, 0, &si, WEXITED));
	SAY(si.si_status);
	child(4);
	SAY(wait3(&st, 0, NULL) > 0);
	SAY(WEXITSTATUS(st));
	pid = child(5);
	SAY(wait4(pid, &st, 0, NULL) == pid);
	SAY(WEXITSTATUS(st));
	SAY(wait(NULL));
}

/* ---- cancellation ---- */

static void *cancelled(void *way)
{
	struct timespec late = {5, 0};
	struct pollfd p = {tube[0], POLLIN, 0};
	char c;

	switch ((intptr_t)way) {
	case 0:
		return (void *)read(tube[0], &c, 1);
	case 1:
		return (void *)(intptr_t)poll(&p, 1, -1);
	case 2:
		return (void *)(intptr_t)nanosleep(&late, NULL);
	case 3:
		return (void *)(intptr_t)sleep(5);
	case 4:
		return (void *)recv(pair[1], &c, 1, 0);
	case 5:
		return (void *)(intptr_t)select(0, NULL, NULL, NULL, NULL);
	default:
		return (void *)(intptr_t)waitpid(-1, NULL, 0);
	}
}

static void cancellations(void)
{
	pid_t pid = fork();

	while (!pid)
		pause();
	for (intptr_t way = 0; way < 7; way++) {
		pthread_t t;
		void *r;

		pthread_create(&t, NULL, cancelled, (void *)way);
		victim_sleep_ms(2 * SOON_MS);
		pthread_cancel(t);
		pthread_join(t, &r);
		printf("cancel %d: %s\n", (int)way, r == PTHREAD_CANCELED ? "cancelled" : "ended");
	}
	kill(pid, SIGKILL);
}

int main(void)
{
	struct sigaction sa = {.sa_handler = on_alarm};

	self = pthread_self();
	sigaction(SIGALRM, &sa, NULL);
	victim_check(!pipe(tube) && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "pipe");
	victim_gate();
	readiness();
	data();
	connections();
	sleeps();
	children();
	cancellations();
	printf("done\n");
	fflush(stdout);
	victim_gate();
	return 0;
}
