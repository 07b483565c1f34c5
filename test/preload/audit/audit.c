/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded behind the agent: counts what the agent's own threads (they are named pprof-...) call of what they must not:
 * the target's heap, its dispositions, time zone, locale, environment, names service, stdio, keys (counted.c has what is
 * only counted). What libc itself allocates while the agent creates a thread is counted apart; before the program has
 * started, only the agent creates any. AUDIT_FILE is mapped shared and read when the process is gone (report.h). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "report.h"

enum { FIRST_BYTES = 64 << 10, SIGRTMIN_OF_LIBC = 34 };

void audit_note(const char *name);
void *audit_real(const char *name);

static struct audit_report *report;
static int program_started;
static __thread int creating __attribute__((tls_model("initial-exec"))); /* for the agent */
/* dlsym allocates before the real functions are known. */
static char first[FIRST_BYTES];
static size_t first_used;

static int is_agent(void)
{
	char name[17] = "";

	syscall(SYS_prctl, 16 /* PR_GET_NAME */, name, 0, 0, 0);
	return !strncmp(name, "pprof-", 6);
}

void audit_note(const char *name)
{
	if (!report || creating || !is_agent())
		return;
	while (atomic_flag_test_and_set(&report->busy))
		;
	for (int i = 0; i < AUDIT_NAMES; i++) {
		if (!report->bad[i].name[0])
			strncpy(report->bad[i].name, name, AUDIT_NAME_BYTES - 1);
		if (strcmp(report->bad[i].name, name))
			continue;
		report->bad[i].calls++;
		break;
	}
	atomic_flag_clear(&report->busy);
}

static void note_allocation(const char *name, size_t bytes)
{
	if (creating && report) {
		report->calls++;
		report->bytes += (long)bytes;
	}
	audit_note(name);
}

__attribute__((constructor)) static void open_report(void)
{
	const char *path = getenv("AUDIT_FILE");
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	void *p;

	if (fd < 0 || ftruncate(fd, sizeof(*report)))
		return;
	p = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p != MAP_FAILED)
		report = p;
}

void *audit_real(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static void *from_first(size_t bytes)
{
	void *p = first + first_used;

	first_used += (bytes + 15) & ~(size_t)15;
	return first_used <= FIRST_BYTES ? p : NULL;
}

void *malloc(size_t n)
{
	static void *(*next)(size_t);
	static int busy;

	if (!next) {
		if (busy)
			return from_first(n);
		busy = 1;
		next = (void *(*)(size_t))audit_real("malloc");
	}
	note_allocation("malloc", n);
	return next(n);
}

void *calloc(size_t n, size_t size)
{
	static void *(*next)(size_t, size_t);
	static int busy;

	if (!next) {
		if (busy)
			return from_first(n * size);
		busy = 1;
		next = (void *(*)(size_t, size_t))audit_real("calloc");
	}
	note_allocation("calloc", n * size);
	return next(n, size);
}

void *realloc(void *p, size_t n)
{
	static void *(*next)(void *, size_t);

	if (!next)
		next = (void *(*)(void *, size_t))audit_real("realloc");
	note_allocation("realloc", n);
	return next(p, n);
}

void free(void *p)
{
	static void (*next)(void *);

	if (!p || ((char *)p >= first && (char *)p < first + FIRST_BYTES))
		return;
	if (!next)
		next = (void (*)(void *))audit_real("free");
	audit_note("free");
	next(p);
}

int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	static int (*next)(int, const struct sigaction *, struct sigaction *);

	if (!next)
		next = (int (*)(int, const struct sigaction *, struct sigaction *))audit_real("sigaction");
	/* The sampling signal's own number is the agent's to set. */
	if (act && sig < SIGRTMIN_OF_LIBC)
		audit_note("sigaction");
	return next(sig, act, old);
}

int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	int rc;

	if (!next)
		next = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))audit_real(
			"pthread_create");
	if (!report || (program_started && !is_agent()))
		return next(t, attr, fn, arg);
	report->threads++;
	creating++;
	rc = next(t, attr, fn, arg);
	creating--;
	return rc;
}

typedef int main_fn(int, char **, char **);
typedef int start_fn(main_fn *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
start_fn __libc_start_main;

int __libc_start_main(main_fn *entry, int argc, char **argv, void (*init)(void), void (*fini)(void),
		      void (*loader_fini)(void), void *stack_end)
{
	start_fn *next = (start_fn *)audit_real("__libc_start_main");

	program_started = 1;
	return next(entry, argc, argv, init, fini, loader_fini, stack_end);
}
