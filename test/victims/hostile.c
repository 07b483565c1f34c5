/* SPDX-License-Identifier: Apache-2.0
 *
 * hostile PORT NSLOW RATE: a script of requests on standard input, sent to 127.0.0.1 for ever, for as little CPU as can be:
 * who sends them shares the machine with the program whose latency is measured, which real clients do not.
 *
 * NSLOW connections send the beginning of a request and then its drip once a second (or nothing, and read a byte), until
 * they are closed, and begin again. RATE times a second one is opened, sends something malformed and its end, and reads
 * what comes. The script: a 32-bit count of slow kinds, of each its beginning and its drip; a count of malformed ones, and
 * these. A string is its length in 32 bits and its bytes. Prints "connected" when all slow ones are. */
#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "victim.h"

enum { TICK_MS = 10, SLOW_MAX = 1000, EVENTS = 64, SLOW_RECEIVES = 4096 };

struct text {
	uint32_t len;
	char *bytes;
};

static struct text *begins, *drips, *bad;
static uint32_t nkinds, nbad;
static struct sockaddr_in to = {.sin_family = AF_INET};
static struct {
	int fd; /* -1: to be opened */
	uint64_t due_ns;
} slow[SLOW_MAX];

static void get(void *to_bytes, size_t len)
{
	victim_check(fread(to_bytes, 1, len, stdin) == len, "the script is cut");
}

static struct text get_text(void)
{
	struct text t;

	get(&t.len, sizeof(t.len));
	t.bytes = malloc(t.len + 1);
	get(t.bytes, t.len);
	return t;
}

static void read_script(void)
{
	get(&nkinds, sizeof(nkinds));
	begins = calloc(nkinds, sizeof(*begins));
	drips = calloc(nkinds, sizeof(*drips));
	for (uint32_t i = 0; i < nkinds; i++) {
		begins[i] = get_text();
		drips[i] = get_text();
	}
	get(&nbad, sizeof(nbad));
	bad = calloc(nbad, sizeof(*bad));
	for (uint32_t i = 0; i < nbad; i++)
		bad[i] = get_text();
	victim_check(nkinds && nbad, "an empty script");
}

/* -1: refused, for now. */
static int ask(const struct text *t, int receives)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (receives)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receives, sizeof(receives));
	if (connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		close(fd);
		return -1;
	}
	send(fd, t->bytes, t->len, MSG_NOSIGNAL | MSG_DONTWAIT);
	return fd;
}

static int has_ended(int fd, const struct text *drip)
{
	char c;
	ssize_t n = drip->len ? send(fd, drip->bytes, drip->len, MSG_NOSIGNAL | MSG_DONTWAIT)
			      : recv(fd, &c, 1, MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN);
}

static void let_drip(int i, uint64_t now)
{
	uint32_t kind = (uint32_t)i % nkinds;

	if (slow[i].due_ns > now)
		return;
	slow[i].due_ns += 1000000000;
	if (slow[i].fd >= 0 && has_ended(slow[i].fd, &drips[kind])) {
		close(slow[i].fd);
		slow[i].fd = -1;
	}
	if (slow[i].fd < 0)
		slow[i].fd = ask(&begins[kind], SLOW_RECEIVES);
}

static void send_bad(int epoll_fd)
{
	static uint32_t next;
	int fd = ask(&bad[next++ % nbad], 0);
	struct epoll_event e = {.events = EPOLLIN, .data = {.fd = fd}};

	if (fd < 0)
		return;
	shutdown(fd, SHUT_WR);
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
}

static void read_answers(int epoll_fd)
{
	static char answer[65536];
	struct epoll_event events[EVENTS];
	int n = epoll_wait(epoll_fd, events, EVENTS, 0);

	for (int i = 0; i < n; i++) {
		ssize_t got = recv(events[i].data.fd, answer, sizeof(answer), MSG_DONTWAIT);

		if (got == 0 || (got < 0 && errno != EAGAIN))
			close(events[i].data.fd);
	}
}

int main(int argc, char **argv)
{
	int nslow = (int)victim_arg(argc, argv, 2, 200), epoll_fd = epoll_create1(0);
	long rate = victim_arg(argc, argv, 3, 500);
	uint64_t begin, sent = 0;

	read_script();
	to.sin_port = htons((uint16_t)victim_arg(argc, argv, 1, 0));
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	victim_check(nslow <= SLOW_MAX, "too many");
	begin = victim_clock_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < nslow; i++) {
		slow[i].fd = ask(&begins[(uint32_t)i % nkinds], SLOW_RECEIVES);
		victim_check(slow[i].fd >= 0, "connect");
		slow[i].due_ns = begin + 1000000000 + (uint64_t)i * (1000000000 / (unsigned)nslow);
	}
	puts("connected");
	fflush(stdout);
	for (;;) {
		uint64_t now = victim_clock_ns(CLOCK_MONOTONIC);
		struct timespec tick = {0, TICK_MS * 1000000};

		for (int i = 0; i < nslow; i++)
			let_drip(i, now);
		/* What could not be sent in time, for lack of a CPU, is not made up for. */
		for (uint64_t due = (now - begin) / 1000000 * (uint64_t)rate / 1000, n = 0; sent < due; sent++)
			if (n++ < EVENTS / 2)
				send_bad(epoll_fd);
		read_answers(epoll_fd);
		nanosleep(&tick, NULL);
	}
}
