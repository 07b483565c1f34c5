/* SPDX-License-Identifier: Apache-2.0
 *
 * Every way a program can read back a signal mask or action it has set, printed bit by bit. The output must be equal
 * with and without the agent, whichever signal that has taken. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "victim.h"

static void print_set(const char *what, const sigset_t *set)
{
	char bits[65] = "";

	for (int s = 1; s <= 64; s++)
		bits[s - 1] = sigismember(set, s) == 1 ? '1' : '0';
	printf("%-34s %s\n", what, bits);
}

static void masks(void)
{
	sigset_t set, old;
	int (*const setters[])(int, const sigset_t *, sigset_t *) = {pthread_sigmask, sigprocmask};
	static const char *const names[] = {"pthread_sigmask", "sigprocmask"};

	for (int f = 0; f < 2; f++) {
		printf("%s\n", names[f]);
		sigfillset(&set);
		printf("block %d\n", setters[f](SIG_BLOCK, &set, &old));
		print_set("old at block", &old);
		setters[f](SIG_BLOCK, NULL, &old);
		print_set("after block", &old);
		sigemptyset(&set);
		for (int s = SIGRTMIN; s <= SIGRTMIN + 4; s++)
			sigaddset(&set, s);
		sigaddset(&set, SIGTERM);
		setters[f](SIG_UNBLOCK, &set, &old);
		print_set("old at unblock", &old);
		setters[f](SIG_SETMASK, NULL, &old);
		print_set("after unblock", &old);
		memset(&set, 0xff, sizeof(set));
		printf("set %d\n", setters[f](SIG_SETMASK, &set, NULL));
		setters[f](SIG_BLOCK, NULL, &old);
		print_set("after set of all ones", &old);
		errno = 0;
		printf("bad how %d errno %d\n", setters[f](99, &set, NULL), errno);
		sigemptyset(&set);
		setters[f](SIG_SETMASK, &set, &old);
		print_set("old at empty", &old);
		setters[f](SIG_SETMASK, NULL, &old);
		print_set("empty", &old);
	}
}

static volatile sig_atomic_t nhandled;

static void handler(int sig)
{
	sigset_t now;

	pthread_sigmask(SIG_BLOCK, NULL, &now);
	if (nhandled < 3)
		print_set("inside the handler", &now);
	nhandled++;
	(void)sig;
}

static void actions(void)
{
	struct sigaction a, old;

	for (int s = 1; s <= 64; s++) {
		int rc;

		memset(&a, 0, sizeof(a));
		a.sa_handler = handler;
		sigfillset(&a.sa_mask);
		a.sa_flags = SA_NODEFER;
		errno = 0;
		rc = sigaction(s, NULL, &old);
		printf("%d: query %d errno %d handler %s flags %x\n", s, rc, errno,
		       rc			   ? "-"
		       : old.sa_handler == SIG_DFL ? "default"
						   : "other",
		       rc ? 0 : (unsigned)old.sa_flags & ~0x04000000u);
		errno = 0;
		rc = sigaction(s, &a, NULL);
		printf("%d: set %d errno %d\n", s, rc, errno);
		if (rc)
			continue;
		sigaction(s, NULL, &old);
		printf("%d: same handler %d flags %x\n", s, old.sa_handler == handler,
		       (unsigned)old.sa_flags & ~0x04000000u);
		print_set("sa_mask", &old.sa_mask);
		if (s == SIGUSR1 || s == SIGRTMIN + 3 || s == SIGPROF)
			raise(s);
		printf("signal() returns it %d\n", signal(s, SIG_IGN) == handler);
		sigaction(s, NULL, &old);
		printf("ignored %d\n", old.sa_handler == SIG_IGN);
		printf("back %d\n", signal(s, SIG_DFL) == SIG_IGN);
	}
	printf("handled %d\n", (int)nhandled);
}

static void *inherited(void *arg)
{
	sigset_t now;

	pthread_sigmask(SIG_BLOCK, NULL, &now);
	print_set(arg, &now);
	return NULL;
}

static void threads(void)
{
	sigset_t all, none;
	pthread_attr_t attr;
	pthread_t t;

	sigfillset(&all);
	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	victim_check(!pthread_create(&t, NULL, inherited, "inherited mask"), "pthread_create");
	pthread_join(t, NULL);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setsigmask_np(&attr, &all);
	victim_check(!pthread_create(&t, &attr, inherited, "mask by attribute"), "pthread_create");
	pthread_join(t, NULL);
	inherited("main's mask after it");
}

int main(void)
{
	sigset_t pending;

	victim_gate();
	masks();
	threads();
	actions();
	sigpending(&pending);
	print_set("pending", &pending);
	return 0;
}
