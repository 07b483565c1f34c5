/* SPDX-License-Identifier: Apache-2.0
 *
 * errno as main finds it, and after each interposed function that succeeds: POSIX lets them change it, libc does not,
 * so neither may we. Then a long burn with errno set, which no handler may change. Prints every value. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "victim.h"

enum { MARK = 1234 };

static void show(const char *what)
{
	int e = errno;

	printf("%s %d\n", what, e);
	errno = MARK;
}

static void *thread(void *arg)
{
	printf("thread starts with %d\n", errno);
	errno = MARK;
	if (arg)
		pthread_exit(NULL);
	return NULL;
}

static void threads(void)
{
	pthread_t t;
	int after_create;

	victim_check(!pthread_create(&t, NULL, thread, NULL), "pthread_create");
	after_create = errno;
	pthread_join(t, NULL);
	show("pthread_join");
	errno = after_create;
	show("pthread_create");
	victim_check(!pthread_create(&t, NULL, thread, (void *)1), "pthread_create");
	pthread_join(t, NULL);
	show("pthread_exit");
}

static void signals(void)
{
	struct timespec zero = {0, 0};
	struct sigaction a;
	sigset_t set, old;

	memset(&a, 0, sizeof(a));
	a.sa_handler = SIG_IGN;
	sigaction(SIGUSR2, &a, NULL);
	show("sigaction");
	signal(SIGUSR2, SIG_DFL);
	show("signal");
	sigfillset(&set);
	pthread_sigmask(SIG_SETMASK, &set, &old);
	show("pthread_sigmask");
	sigprocmask(SIG_SETMASK, &set, NULL);
	show("sigprocmask");
	sigpending(&set);
	show("sigpending");
	sigfillset(&set);
	sigtimedwait(&set, NULL, &zero);
	show("sigtimedwait without a signal");
	raise(SIGUSR1);
	sigtimedwait(&set, NULL, &zero);
	show("sigtimedwait");
	close(signalfd(-1, &set, 0));
	show("signalfd");
	sigprocmask(SIG_SETMASK, &old, NULL);
	show("sigprocmask");
}

static void processes(void)
{
	char *const nothing[] = {(char *)"/nonexistent/program", NULL};
	void *lib;
	pid_t pid;

	errno = MARK;
	pid = fork();
	if (pid == 0) {
		printf("fork in the child %d\n", errno);
		fflush(stdout);
		_exit(0);
	}
	show("fork");
	waitpid(pid, NULL, 0);
	show("waitpid");
	execv(nothing[0], nothing);
	show("failed execv");
	execvp("surely-no-such-program", nothing);
	show("failed execvp");
	execl("/etc/passwd", "passwd", (char *)NULL);
	show("failed execl");
	lib = dlopen("libm.so.6", RTLD_NOW);
	errno = MARK;
	dlclose(lib);
	show("dlclose");
}

int main(void)
{
	int changed = 0;

	printf("main starts with %d\n", errno);
	victim_gate();
	errno = MARK;
	threads();
	signals();
	fflush(stdout);
	processes();
	errno = MARK;
	for (int i = 0; i < 600; i++) {
		victim_burn_ns(1000000);
		changed += errno != MARK;
	}
	printf("changed while burning: %d\n", changed);
	return 0;
}
