/* SPDX-License-Identifier: Apache-2.0
 *
 * A single-threaded program that prints everything about its process that an agent might touch, at its start, behind
 * the gate (the agent has served whatever the test asked for) and after closefrom(3) and opens of its own: equal with
 * and without the agent. What libc's heap says is on standard error, where the test looks at differences by size. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "victim.h"

extern char **environ;

static void print_signals(void)
{
	sigset_t mask, pending;
	stack_t alt;

	sigprocmask(SIG_BLOCK, NULL, &mask);
	sigpending(&pending);
	printf("signals:");
	for (int s = 1; s <= 64; s++) {
		struct sigaction a;

		if (sigaction(s, NULL, &a) == 0)
			printf(" %d%c%x%s%s", s,
			       a.sa_handler == SIG_DFL	 ? 'd'
			       : a.sa_handler == SIG_IGN ? 'i'
							 : 'h',
			       (unsigned)a.sa_flags, sigismember(&mask, s) ? "b" : "",
			       sigismember(&pending, s) ? "p" : "");
	}
	sigaltstack(NULL, &alt);
	printf("\naltstack %p %x %zu\n", alt.ss_sp, (unsigned)alt.ss_flags, alt.ss_size);
}

static void print_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	int open_now[1024] = {0};

	victim_check(d != NULL, "opendir");
	while ((e = readdir(d)))
		if (atoi(e->d_name) < 1024 && e->d_name[0] != '.' && atoi(e->d_name) != dirfd(d))
			open_now[atoi(e->d_name)] = 1;
	closedir(d);
	printf("descriptors:");
	for (int fd = 0; fd < 1024; fd++)
		if (open_now[fd] && fd < 3)
			printf(" %d:%x", fd, (unsigned)fcntl(fd, F_GETFL));
		else if (open_now[fd])
			printf(" %d", fd);
	printf("\n");
}

static void print_file(const char *path, const char *only)
{
	char line[512];
	FILE *f = fopen(path, "re");

	printf("%s:\n", path);
	while (f && fgets(line, sizeof(line), f))
		if (!*only || (strncmp(line, only, strlen(only)) == 0))
			fputs(line, stdout);
	if (f)
		fclose(f);
}

static void print_limits(void)
{
	for (int r = 0; r < RLIMIT_NLIMITS; r++) {
		struct rlimit l;

		if (getrlimit((__rlimit_resource_t)r, &l) == 0)
			printf("limit %d: %lx %lx\n", r, (unsigned long)l.rlim_cur, (unsigned long)l.rlim_max);
	}
}

static void print_rest(void)
{
	struct itimerval it;
	cpu_set_t cpus;
	char cwd[4096], name[17] = "";
	mode_t mask = umask(022);

	umask(mask);
	prctl(PR_GET_NAME, name);
	printf("umask %o cwd %s name %s nice %d policy %d\n", (unsigned)mask, getcwd(cwd, sizeof(cwd)), name,
	       getpriority(PRIO_PROCESS, 0), sched_getscheduler(0));
	printf("dumpable %d nonewprivs %d keepcaps %d slack %d subreaper %d\n", prctl(PR_GET_DUMPABLE),
	       prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), prctl(PR_GET_KEEPCAPS), prctl(PR_GET_TIMERSLACK),
	       prctl(PR_GET_CHILD_SUBREAPER, cwd));
	for (int which = 0; which < 3; which++)
		if (getitimer((__itimer_which_t)which, &it) == 0)
			printf("itimer %d: %ld %ld\n", which, (long)it.it_value.tv_sec, (long)it.it_interval.tv_sec);
	sched_getaffinity(0, sizeof(cpus), &cpus);
	printf("cpus %d brk %d errno %d program %s\n", CPU_COUNT(&cpus), sbrk(0) != NULL, errno,
	       program_invocation_name);
}

static void print_environment(void)
{
	for (char **e = environ; *e; e++)
		if (strncmp(*e, "LD_PRELOAD=", 11) && strncmp(*e, "PPROF_", 6))
			printf("env %s\n", *e);
}

static void print_all(const char *when, struct mallinfo2 heap)
{
	printf("== %s\n", when);
	fprintf(stderr, "heap %s: uordblks %zu arena %zu hblks %zu hblkhd %zu ordblks %zu fordblks %zu keepcost %zu\n",
		when, heap.uordblks, heap.arena, heap.hblks, heap.hblkhd, heap.ordblks, heap.fordblks, heap.keepcost);
	print_signals();
	print_descriptors();
	print_limits();
	print_rest();
	print_environment();
	print_file("/proc/self/timers", "");
	print_file("/proc/self/status", "CapEff");
	print_file("/proc/self/status", "Seccomp");
	print_file("/proc/self/cgroup", "");
	print_file("/proc/self/oom_score_adj", "");
	print_file("/proc/self/coredump_filter", "");
	fflush(stdout);
}

static void own_files(void)
{
	char name[] = "/tmp/unharmed.XXXXXX", back[8];
	int fds[64], file;
	struct stat st;

	closefrom(3);
	file = mkstemp(name);
	victim_check(file >= 0 && unlink(name) == 0 && write(file, "contents", 8) == 8, "a file");
	for (int i = 0; i < 64; i++)
		fds[i] = dup(file);
	printf("numbers %d to %d\n", fds[0], fds[63]);
	fflush(stdout);
	victim_gate();
	victim_check(fstat(file, &st) == 0 && st.st_size == 8 && lseek(file, 0, SEEK_CUR) == 8 &&
			     pread(file, back, 8, 0) == 8 && !memcmp(back, "contents", 8),
		     "the file has changed");
	for (int i = 0; i < 64; i++)
		victim_check(fcntl(fds[i], F_GETFD) == 0, "a descriptor has changed");
}

int main(void)
{
	struct mallinfo2 heap = mallinfo2();
	char *block;

	print_all("at start", heap);
	heap = mallinfo2();
	victim_gate();
	print_all("behind the gate", mallinfo2());
	fprintf(stderr, "grown %zu\n", mallinfo2().uordblks - heap.uordblks);
	block = malloc(1000);
	printf("a block %d\n", block && malloc_usable_size(block) >= 1000);
	free(block);
	own_files();
	print_all("at the end", mallinfo2());
	return 0;
}
