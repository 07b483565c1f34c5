/* SPDX-License-Identifier: Apache-2.0
 *
 * What the target sees of descriptors: its own listing, the numbers open() gives, a file of its own after closefrom(3),
 * and what a child after fork and after exec inherits. Each is printed; equal with and without the agent.
 * "fdview list" only prints the listing (what the exec'd child runs). */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "victim.h"

static void list(const char *when)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	int open_now[256] = {0};

	victim_check(d != NULL, "opendir /proc/self/fd");
	while ((e = readdir(d))) {
		int fd = atoi(e->d_name);

		if (e->d_name[0] != '.' && fd != dirfd(d) && fd < 256)
			open_now[fd] = 1;
	}
	closedir(d);
	printf("%s:", when);
	for (int fd = 0; fd < 256; fd++)
		if (open_now[fd])
			printf(" %d", fd);
	printf("\n");
	fflush(stdout);
}

static void burn(void)
{
	for (int i = 0; i < 200; i++)
		victim_burn_ns(1000000);
}

static void reuse_numbers(void)
{
	char name[] = "/tmp/fdview.XXXXXX", byte;
	int fds[40], file = mkstemp(name);
	struct stat st;

	victim_check(file >= 0, "mkstemp");
	unlink(name);
	victim_check(write(file, "mine", 4) == 4, "write");
	for (int i = 0; i < 40; i++)
		fds[i] = dup(file);
	printf("numbers %d to %d\n", fds[0], fds[39]);
	burn();
	victim_check(!fstat(file, &st), "fstat");
	printf("file still %ld bytes, offset %ld\n", (long)st.st_size, (long)lseek(file, 0, SEEK_CUR));
	victim_check(pread(file, &byte, 1, 0) == 1 && byte == 'm', "contents");
	closefrom(3);
	list("after the second closefrom");
}

static void children(char *self)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		list("child after fork");
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	pid = fork();
	if (pid == 0) {
		execl(self, self, "list", (char *)NULL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
	fflush(stdout);
	victim_check(system(NULL) != 0, "system");
}

int main(int argc, char **argv)
{
	int s[2];

	if (argc > 1 && !strcmp(argv[1], "list")) {
		list("child after exec");
		return 0;
	}
	list("at start");
	victim_gate();
	list("after the gate");
	burn();
	list("after burning");
	closefrom(3);
	list("after closefrom");
	reuse_numbers();
	victim_check(!socketpair(AF_UNIX, SOCK_STREAM, 0, s), "socketpair");
	printf("socketpair %d %d\n", s[0], s[1]);
	children(argv[0]);
	return 0;
}
