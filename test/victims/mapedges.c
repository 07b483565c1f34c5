/* SPDX-License-Identifier: Apache-2.0
 *
 * The edges of mmap, munmap and mremap: every documented way to fail, every form of success, and what errno is after
 * each. Addresses are told relative to one window, so that the output is equal with and without the agent. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <setjmp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "victim.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

enum { PAGE = 4096, ANON = MAP_PRIVATE | MAP_ANONYMOUS, R = PROT_READ, RW = PROT_READ | PROT_WRITE, WINDOW = 256 };
enum { UNTOUCHED = 1234 };

static char *window;

static void tell(const char *what, const void *p)
{
	int err = errno;
	const char *c = p;

	if (p == MAP_FAILED)
		printf("%s: %s\n", what, strerror(err));
	else if (c >= window && c < window + WINDOW * PAGE)
		printf("%s: window + %ld%s\n", what, (long)(c - window), err == UNTOUCHED ? "" : " errno touched");
	else
		printf("%s: elsewhere%s%s\n", what, (uintptr_t)p % PAGE ? " unaligned" : "",
		       err == UNTOUCHED ? "" : " errno touched");
}

static void tell_rc(const char *what, int rc)
{
	int err = errno;

	printf("%s: %d %s\n", what, rc, rc ? strerror(err) : err == UNTOUCHED ? "" : "errno touched");
}

#define MMAP(...)                                                                                                      \
	do {                                                                                                           \
		errno = UNTOUCHED;                                                                                     \
		tell("mmap(" #__VA_ARGS__ ")", mmap(__VA_ARGS__));                                                     \
	} while (0)
#define MMAP64(...)                                                                                                    \
	do {                                                                                                           \
		errno = UNTOUCHED;                                                                                     \
		tell("mmap64(" #__VA_ARGS__ ")", mmap64(__VA_ARGS__));                                                 \
	} while (0)
#define MUNMAP(...)                                                                                                    \
	do {                                                                                                           \
		errno = UNTOUCHED;                                                                                     \
		tell_rc("munmap(" #__VA_ARGS__ ")", munmap(__VA_ARGS__));                                              \
	} while (0)
#define MREMAP(...)                                                                                                    \
	do {                                                                                                           \
		errno = UNTOUCHED;                                                                                     \
		tell("mremap(" #__VA_ARGS__ ")", mremap(__VA_ARGS__));                                                 \
	} while (0)

/* The kernel chooses the address: it is not told, and the memory is given back. */
#define CHOSEN(call, len)                                                                                              \
	do {                                                                                                           \
		char *got_;                                                                                            \
		errno = UNTOUCHED;                                                                                     \
		got_ = call;                                                                                           \
		printf(#call ": %s%s\n", got_ == MAP_FAILED ? strerror(errno) : "somewhere",                           \
		       got_ != MAP_FAILED && errno != UNTOUCHED ? " errno touched" : "");                              \
		if (got_ != MAP_FAILED)                                                                                \
			munmap(got_, len);                                                                             \
	} while (0)

/* Which pages of the window are mapped. */
static void picture(void)
{
	unsigned char vec;

	for (int i = 0; i < WINDOW; i++)
		putchar(mincore(window + i * PAGE, PAGE, &vec) ? '.' : '#');
	putchar('\n');
}

static void fresh(void)
{
	munmap(window, WINDOW * PAGE);
	for (int i = 0; i < 4; i++)
		mmap(window + i * 32 * PAGE, 16 * PAGE, RW, ANON | MAP_FIXED, -1, 0);
}

static void mmaps(int file, int directory, int unreadable)
{
	MMAP(NULL, 0, RW, ANON, -1, 0);
	MMAP(NULL, PAGE, RW, MAP_ANONYMOUS, -1, 0);
	MMAP(NULL, PAGE, RW, MAP_PRIVATE, -1, 0);
	MMAP(NULL, PAGE, RW, MAP_PRIVATE, 12345, 0);
	MMAP(NULL, PAGE, R, MAP_PRIVATE, directory, 0);
	MMAP(NULL, PAGE, R, MAP_PRIVATE, unreadable, 0);
	MMAP(NULL, PAGE, RW, MAP_SHARED, file, 0);
	CHOSEN(mmap(NULL, PAGE, R, MAP_SHARED_VALIDATE | 0x8000000, file, 0), PAGE);
	MMAP(NULL, PAGE, R, MAP_PRIVATE, file, 1);
	CHOSEN(mmap64(NULL, PAGE, R, MAP_PRIVATE, file, (off64_t)1 << 62), PAGE);
	MMAP64(NULL, PAGE, R, MAP_PRIVATE, file, -PAGE);
	CHOSEN(mmap(NULL, PAGE, R, MAP_PRIVATE, file, PAGE), PAGE);
	CHOSEN(mmap64(NULL, PAGE, R, MAP_PRIVATE, file, PAGE), PAGE);
	MMAP(NULL, (size_t)-1, RW, ANON, -1, 0);
	MMAP(NULL, (size_t)1 << 60, RW, ANON, -1, 0);
	MMAP(window + 1, PAGE, RW, ANON | MAP_FIXED, -1, 0);
	MMAP(window + 1, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	MMAP(window, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	MMAP(window + 20 * PAGE, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	MMAP(window + 22 * PAGE, PAGE, RW, ANON, -1, 0);
	MMAP(window + 14 * PAGE, 4 * PAGE, R, ANON | MAP_FIXED, -1, 0);
	MMAP((void *)(uintptr_t)-PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0);
	CHOSEN(mmap(NULL, 1, PROT_NONE, ANON | MAP_NORESERVE, -1, 0), PAGE);
	picture();
}

static void munmaps(void)
{
	MUNMAP(window + 1, PAGE);
	MUNMAP(window, 0);
	MUNMAP(window, (size_t)-1);
	MUNMAP((void *)(uintptr_t)-PAGE, PAGE);
	MUNMAP(window + 16 * PAGE, 4 * PAGE);
	MUNMAP(window + 4 * PAGE, 1);
	MUNMAP(window + 10 * PAGE, 40 * PAGE);
	picture();
}

static void mremaps(int file)
{
	char *p;

	memset(window, 7, 16 * PAGE);
	MREMAP(window + 1, PAGE, PAGE, 0);
	MREMAP(window, PAGE, 0, MREMAP_MAYMOVE);
	MREMAP(window, PAGE, PAGE, 0x100);
	MREMAP(window, PAGE, (size_t)1 << 60, MREMAP_MAYMOVE);
	MREMAP(window + 20 * PAGE, PAGE, PAGE, 0);
	MREMAP(window, 0, PAGE, MREMAP_MAYMOVE);
	MREMAP(window, 8 * PAGE, 20 * PAGE, 0);
	MREMAP(window, PAGE, PAGE, MREMAP_FIXED, window + 20 * PAGE);
	MREMAP(window, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, window + PAGE);
	MREMAP(window, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, window + 20 * PAGE + 1);
	MREMAP(window, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(uintptr_t)-PAGE);
	MREMAP(window, PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
	picture();
	MREMAP(window, 16 * PAGE, 16 * PAGE, 0);
	MREMAP(window, 16 * PAGE, 20 * PAGE, 0);
	MREMAP(window + 2 * PAGE, 4 * PAGE, 2 * PAGE, 0);
	MREMAP(window + 8 * PAGE, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, window + 100 * PAGE);
	printf("moved: %d\n", window[100 * PAGE]);
	MREMAP(window + 32 * PAGE, 4 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, window + 64 * PAGE);
	CHOSEN(mremap(window, 2 * PAGE, 64 * PAGE, MREMAP_MAYMOVE), 64 * PAGE);
	picture();
	p = mmap(NULL, 2 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	p[PAGE] = 5;
	CHOSEN(mremap(p, 0, 2 * PAGE, MREMAP_MAYMOVE), 2 * PAGE);
	MREMAP(p, 0, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, window + 200 * PAGE);
	printf("shared: %d\n", window[201 * PAGE]);
	munmap(p, 2 * PAGE);
	p = mmap(NULL, PAGE, R, MAP_PRIVATE, file, 0);
	MREMAP(p, PAGE, 3 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, window + 210 * PAGE);
	printf("file: %d\n", window[210 * PAGE + 1]);
	picture();
}

/* ---- in a handler, out of a handler, without a thread to come back to ---- */

static sigjmp_buf back;
static volatile sig_atomic_t jumps, handled;

static void handler(int sig)
{
	int saved = errno;
	char *p = mmap(NULL, PAGE, RW, ANON, -1, 0);

	p[0] = (char)sig;
	munmap(p, PAGE);
	errno = saved;
	handled++;
	if (handled % 4 == 0)
		siglongjmp(back, 1);
}

/* A timer interrupts mmap and munmap everywhere; every fourth signal leaves by a jump. */
static void interrupted(void)
{
	timer_t timer;
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct itimerspec every = {{0, 200000}, {0, 200000}}, never = {{0, 0}, {0, 0}};
	uint64_t end = victim_cpu_ns() + 300000000;
	sigset_t set;

	signal(SIGUSR1, handler);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &every, NULL);
	if (sigsetjmp(back, 1))
		jumps++;
	while (victim_cpu_ns() < end)
		munmap(mmap(NULL, 4 * PAGE, RW, ANON, -1, 0), 4 * PAGE);
	timer_settime(timer, 0, &never, NULL);
	timer_delete(timer);
	signal(SIGUSR1, SIG_IGN);
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	printf("interrupted, jumped out: %d %d; masked: %d\n", handled > 20, jumps > 5, sigismember(&set, SIGUSR1));
}

static void *canceled(void *arg)
{
	(void)arg;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;)
		munmap(mmap(NULL, PAGE, RW, ANON, -1, 0), PAGE);
	return NULL;
}

static void canceled_anywhere(void)
{
	void *ret;
	int n = 0;

	for (int i = 0; i < 50; i++) {
		pthread_t t;

		pthread_create(&t, NULL, canceled, NULL);
		victim_sleep_ms(1);
		pthread_cancel(t);
		pthread_join(t, &ret);
		n += ret == PTHREAD_CANCELED;
	}
	printf("canceled: %d\n", n);
}

static void limited(void)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		struct rlimit none = {PAGE, PAGE};

		setrlimit(RLIMIT_AS, &none);
		MMAP(NULL, PAGE, RW, ANON, -1, 0);
		MREMAP(window, PAGE, 30 * PAGE, MREMAP_MAYMOVE);
		MUNMAP(window, PAGE);
		fflush(stdout);
		_exit(3);
	}
	waitpid(pid, &status, 0);
	printf("limited: %d\n", WEXITSTATUS(status));
}

int main(void)
{
	char *p = mmap(NULL, 3 * WINDOW * PAGE, PROT_NONE, ANON | MAP_NORESERVE, -1, 0);

	/* Nothing else comes between the two outer thirds. */
	window = p + WINDOW * PAGE;
	victim_gate();
	fresh();
	mmaps(open("/proc/self/exe", O_RDONLY), open("/", O_RDONLY), open("/dev/null", O_WRONLY));
	fresh();
	munmaps();
	fresh();
	mremaps(open("/proc/self/exe", O_RDONLY));
	fresh();
	limited();
	interrupted();
	canceled_anywhere();
	return 0;
}
