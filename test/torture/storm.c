/* SPDX-License-Identifier: Apache-2.0 */
// link: test/torture/storm/prober.c test/torture/storm/work.c test/torture/storm/throw.cc test/torture/storm/stacks.c @walker @unwind -lstdc++
// flags: -fomit-frame-pointer
/* Promise: whatever a program does while it is interrupted and unwound ten thousand times a second a thread, it neither
 * crashes nor hangs, and what the walker holds does not grow.
 *
 * storm SECONDS [ours|libunwind|libunwind-step|none]: waits at its gate for a line, then runs; to be run with the agent
 * preloaded and profiled (test/preload/survives_signal_storm.sh), or alone. "libunwind" puts stock libunwind in the
 * place of our walker, and then the storm must end with status 3: this test can fail.
 * Status: 0 survived, 1 something grew or too few stacks were complete, 2 broken, 3 deadlock.
 *
 * The watchdog calls nothing that may wait for a lock of libc's until it has judged. */
#include "test/torture/storm/storm.h"

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	STALLED_SECONDS = 20,	/* a machine with other things to do may be that slow */
	MUST_STALL_SECONDS = 8, /* where a deadlock is what is expected */
	WARM_UP_SECONDS = 60,
	REFRESH_NS = 20 * 1000 * 1000,
	RSS_MAY_GROW_KIB = 6 << 10,
	HEAP_MAY_GROW_KIB = 1 << 10,
	COMPLETE_AT_LEAST = 970, /* thousandths */
	HISTORY = 24 * 3600,
};

static const struct storm_work works[] = {
	{"load", storm_load_libraries, NULL},
	{"load more", storm_load_libraries, NULL},
	{"iterate", storm_iterate_libraries, NULL},
	{"throw", storm_throw, NULL},
	{"allocate", storm_allocate, NULL},
	{"threads", storm_make_threads, NULL},
	{"fork", storm_fork, NULL},
	{"jump", storm_jump, NULL},
	{"fibers", storm_run_fibers, storm_prepare_fibers},
	{"altstack", storm_use_altstack, storm_prepare_altstack},
};
enum { NWORKS = sizeof(works) / sizeof(works[0]), NKINDS = 16 };

static struct {
	_Atomic uint64_t rounds[NWORKS];
	_Atomic int running;
	int seconds;
	uint64_t stalled_ms; /* so long without a round is a deadlock */
	/* by the second */
	uint32_t rss_kib[HISTORY], heap_kib[HISTORY];
	uint16_t fds[HISTORY];
} state;

static atomic_int storm_over;
char storm_dir[4096];

void storm_broken(const char *what)
{
	char line[300];
	int n = snprintf(line, sizeof(line), "BROKEN: %s\n", what);

	if (write(1, line, (size_t)n) != n)
		_exit(2);
	_exit(2);
}

static void *work(void *arg)
{
	const struct storm_work *w = arg;
	unsigned kind = (unsigned)(w - works), round = kind;
	struct storm_prober *p;

	if (w->prepare)
		w->prepare();
	p = storm_prober_start(kind);
	while (!storm_over) {
		w->once(round++);
		atomic_fetch_add_explicit(&state.rounds[kind], 1, memory_order_relaxed);
	}
	storm_prober_stop(p);
	atomic_fetch_sub(&state.running, 1);
	return NULL;
}

static void *refresh(void *arg)
{
	struct timespec nap = {0, REFRESH_NS};

	while (!storm_over) {
		storm_refresh();
		nanosleep(&nap, NULL);
	}
	return arg;
}

/* ---- what is measured ---- */

static size_t read_file(const char *path, char *buf, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, buf, cap - 1);

	if (fd >= 0)
		close(fd);
	buf[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

static uint32_t resident_kib(void)
{
	char buf[200], *at;

	read_file("/proc/self/statm", buf, sizeof(buf));
	at = strchr(buf, ' ');
	return at ? (uint32_t)strtoul(at, NULL, 10) * 4 : 0;
}

struct entry {
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

/* Calls each for every name in a directory but those with a dot; returns how many. */
static unsigned list(const char *path, void (*each)(const char *name, void *arg), void *arg)
{
	_Alignas(8) char buf[4096];
	unsigned n = 0;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long got;

	while (fd >= 0 && (got = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < got;) {
			const struct entry *e = (const struct entry *)(buf + at);

			at += e->len;
			if (e->name[0] == '.')
				continue;
			n++;
			if (each)
				each(e->name, arg);
		}
	}
	if (fd >= 0)
		close(fd);
	return n;
}

/* A thread may have descriptors of its own, as the agent's do: the longest list counts. */
static void count_task(const char *tid, void *arg)
{
	char path[64];
	unsigned *most = arg, n;

	snprintf(path, sizeof(path), "/proc/self/task/%s/fd", tid);
	n = list(path, NULL, NULL);
	*most = n > *most ? n : *most;
}

static void measure(int second)
{
	unsigned fds = 0;

	list("/proc/self/task", count_task, &fds);
	state.fds[second] = (uint16_t)fds;
	state.rss_kib[second] = resident_kib();
	state.heap_kib[second] = (uint32_t)(storm_private_heap_bytes() / 1024);
}

/* ---- what is judged ---- */

static uint64_t cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* What stands still, since when. libc's locks are not fair: where other programs leave this one little CPU, a thread may find
 * the loader's lock taken for half a minute while its rivals go on (seen at nice 19 beside 16 busy programs, without agent
 * and walker). So time counts in which the process ran; a standstill of all counts by the clock. */
static void find_stalled(uint64_t ms)
{
	static uint64_t seen[NWORKS], since[NWORKS], cpu_since[NWORKS], last_progress, cpu_at_last_progress;
	uint64_t cpu = cpu_ms();
	bool stalled = false, progress = false;
	char line[300];
	int n;

	for (int i = 0; i < NWORKS; i++) {
		uint64_t now = atomic_load_explicit(&state.rounds[i], memory_order_relaxed);

		if (now != seen[i] || !ms) {
			since[i] = ms;
			cpu_since[i] = cpu;
			progress = true;
		}
		seen[i] = now;
		stalled |= ms - since[i] >= state.stalled_ms && cpu - cpu_since[i] >= state.stalled_ms / 2;
	}
	if (progress) {
		last_progress = ms;
		cpu_at_last_progress = cpu;
	}
	stalled |= ms - last_progress >= state.stalled_ms;
	if (!stalled)
		return;
	for (int i = 0; i < NWORKS; i++) {
		if (ms - since[i] < state.stalled_ms / 2)
			continue;
		n = snprintf(line, sizeof(line), "DEADLOCK: \"%s\" stands still since %lu.%03lu s, after %lu rounds\n",
			     works[i].name, since[i] / 1000, since[i] % 1000, seen[i]);
		if (write(1, line, (size_t)n) != n)
			_exit(3);
	}
	n = snprintf(line, sizeof(line), "%lu ms of CPU since any of them went on\n", cpu - cpu_at_last_progress);
	if (write(1, line, (size_t)n) == n && getenv("STORM_STOP"))
		raise(SIGSTOP); /* for a debugger */
	_exit(3);
}

static uint64_t elapsed_ms(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)((now.tv_sec - start->tv_sec) * 1000 + (now.tv_nsec - start->tv_nsec) / 1000000);
}

static void *watch(void *arg)
{
	struct timespec start;
	uint64_t ms;

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (int second = 0; second < state.seconds; second++) {
		measure(second);
		do {
			nanosleep(&(struct timespec){0, 20 * 1000 * 1000}, NULL);
			ms = elapsed_ms(&start);
			find_stalled(ms);
		} while (ms < 1000 * (uint64_t)(second + 1));
	}
	storm_over = 1;
	while (atomic_load(&state.running)) {
		nanosleep(&(struct timespec){0, 20 * 1000 * 1000}, NULL);
		find_stalled(elapsed_ms(&start));
	}
	return arg;
}

static uint32_t most32(const uint32_t *v, int from, int to)
{
	uint32_t m = 0;

	for (int i = from; i < to; i++)
		m = v[i] > m ? v[i] : m;
	return m;
}

/* Descriptors come and go; what leaks is never gone. */
static uint16_t least16(const uint16_t *v, int from, int to)
{
	uint16_t m = UINT16_MAX;

	for (int i = from; i < to; i++)
		m = v[i] < m ? v[i] : m;
	return m;
}

/* The last third after the warm-up against the first. */
static int judge_growth(void)
{
	int warm = state.seconds / 3 < WARM_UP_SECONDS ? state.seconds / 3 : WARM_UP_SECONDS;
	int third = (state.seconds - warm) / 3, late = state.seconds - third, bad = 0;
	uint32_t rss[2] = {most32(state.rss_kib, warm, warm + third), most32(state.rss_kib, late, state.seconds)};
	uint32_t heap[2] = {most32(state.heap_kib, warm, warm + third), most32(state.heap_kib, late, state.seconds)};
	uint16_t fds[2] = {least16(state.fds, warm, warm + third), least16(state.fds, late, state.seconds)};

	printf("resident %u KiB, later %u; walker's heap %u KiB, later %u; descriptors %u, later %u\n", rss[0], rss[1],
	       heap[0], heap[1], fds[0], fds[1]);
	bad |= rss[1] > rss[0] + RSS_MAY_GROW_KIB;
	bad |= heap[1] > heap[0] + HEAP_MAY_GROW_KIB;
	bad |= fds[1] > fds[0];
	if (bad)
		printf("GREW\n");
	return bad;
}

static int judge(enum storm_unwinder unwinder)
{
	const char *names[NKINDS] = {0};
	unsigned complete;

	for (int i = 0; i < NKINDS; i++)
		names[i] = i < NWORKS ? works[i].name : i == NKINDS - 1 ? "newborn" : "";
	printf("rounds:");
	for (int i = 0; i < NWORKS; i++)
		printf(" %s %lu", works[i].name, (unsigned long)state.rounds[i]);
	printf("\n%lu walks in %d s, %lu a second of CPU\n", (unsigned long)storm_walks(), state.seconds,
	       (unsigned long)(storm_walks() * 1000 / (cpu_ms() + 1)));
	complete = storm_prober_report(names, NKINDS);
	if (unwinder == STORM_OURS && complete < COMPLETE_AT_LEAST) {
		printf("INCOMPLETE: %u of 1000 stacks reach the thread's start\n", complete);
		return 1;
	}
	return 0;
}

/* ---- start ---- */

static enum storm_unwinder unwinder_named(const char *name)
{
	static const char *const names[] = {"ours", "libunwind", "libunwind-step", "none"};

	for (int i = 0; name && i < 4; i++)
		if (!strcmp(name, names[i]))
			return (enum storm_unwinder)i;
	return STORM_OURS;
}

static void find_dir(const char *argv0)
{
	ssize_t n = readlink("/proc/self/exe", storm_dir, sizeof(storm_dir) - 64);
	char *slash;

	if (n <= 0)
		storm_broken(argv0);
	storm_dir[n] = '\0';
	slash = strrchr(storm_dir, '/');
	slash[1] = '\0';
}

static void gate(void)
{
	char c;

	while (read(0, &c, 1) == 1 && c != '\n')
		;
}

int main(int argc, char **argv)
{
	enum storm_unwinder unwinder = unwinder_named(argc > 2 ? argv[2] : NULL);
	pthread_t threads[NWORKS], watchdog, refresher;
	int bad;

	setvbuf(stdout, NULL, _IOLBF, 0);
	mallopt(M_ARENA_MAX, 2);
	state.seconds = argc > 1 ? atoi(argv[1]) : 30;
	if (state.seconds < 6 || state.seconds > HISTORY)
		storm_broken("storm SECONDS [ours|libunwind|libunwind-step|none]");
	find_dir(argv[0]);
	gate();
	if (storm_prober_init(unwinder))
		storm_broken("no prober");
	state.stalled_ms = unwinder == STORM_OURS ? STALLED_SECONDS * 1000 : MUST_STALL_SECONDS * 1000;
	state.running = NWORKS;
	pthread_create(&watchdog, NULL, watch, NULL);
	pthread_create(&refresher, NULL, refresh, NULL);
	for (int i = 0; i < NWORKS; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)&works[i]))
			storm_broken("pthread_create");
	pthread_join(watchdog, NULL);
	for (int i = 0; i < NWORKS; i++)
		pthread_join(threads[i], NULL);
	pthread_join(refresher, NULL);
	bad = judge(unwinder);
	bad |= judge_growth();
	return bad;
}
