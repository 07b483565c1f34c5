/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that SA_RESTART does not restart, each with a short time-out, over and over with a little CPU in between: how
 * many end with EINTR, where no signal is the target's own? sleeper MILLISECONDS for each kind. Prints only kinds that
 * were interrupted, and how often; without a signal from outside, nothing. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>

#include "victim.h"

static int epoll, sockets[2];
static sem_t never;

static int call(int kind)
{
	struct timespec t = {0, 1000}, end;
	struct timeval v = {0, 1};
	struct epoll_event event;
	char byte;

	switch (kind) {
	case 0:
		return nanosleep(&t, NULL);
	case 1:
		return ppoll(NULL, 0, &t, NULL);
	case 2:
		return select(0, NULL, NULL, NULL, &v);
	case 3:
		return epoll_wait(epoll, &event, 1, 1);
	case 4:
		clock_gettime(CLOCK_REALTIME, &end);
		end.tv_nsec += 1000;
		end.tv_sec += end.tv_nsec / 1000000000;
		end.tv_nsec %= 1000000000;
		return sem_timedwait(&never, &end);
	case 5:
		return (int)recv(sockets[0], &byte, 1, 0);
	default:
		return clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL) == EINTR ? (errno = EINTR, -1) : 0;
	}
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"nanosleep",     "ppoll", "select",		"epoll_wait",
					    "sem_timedwait", "recv",  "clock_nanosleep"};
	long ms = victim_arg(argc, argv, 1, 200);
	struct timeval v = {0, 1};

	epoll = epoll_create1(0);
	sem_init(&never, 0, 0);
	socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
	setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &v, sizeof(v));
	victim_gate();
	for (int kind = 0; kind < 7; kind++) {
		uint64_t end = victim_clock_ns(CLOCK_MONOTONIC) + (uint64_t)ms * 1000000;
		long calls = 0, interrupted = 0;

		while (victim_clock_ns(CLOCK_MONOTONIC) < end) {
			victim_spin(200);
			errno = 0;
			interrupted += call(kind) < 0 && errno == EINTR;
			calls++;
		}
		if (interrupted)
			printf("%s: EINTR\n", names[kind]);
		fprintf(stderr, "pprofagent: %s interrupted %ld of %ld\n", names[kind], interrupted, calls);
	}
	return 0;
}
