/* SPDX-License-Identifier: Apache-2.0
 *
 * allocfork: what a heap profile must say after a fork and after an exec. The parent keeps 1000 blocks of 1000 bytes in
 * hold_parent and has freed 500 more; the child frees 300 of them, and adds 700 of 200 bytes in hold_child. Then the
 * child goes on as another program: itself, with the argument "again", which holds 100 blocks of 10 bytes in
 * hold_again. Each says what it holds, and waits for one line from its gate, which is inherited:
 *
 *   parent <pid>, child <pid>, again <pid>
 *
 * The parent adds nothing after the fork. */
// flags: -fno-builtin
#include <string.h>
#include <sys/wait.h>

#include "victim.h"

static void *blocks[1500], *more[700];

VICTIM_NOINLINE static void *hold_parent(void)
{
	void *p = malloc(1000);

	VICTIM_NO_TAIL_CALL();
	return p;
}

VICTIM_NOINLINE static void *hold_child(void)
{
	void *p = malloc(200);

	VICTIM_NO_TAIL_CALL();
	return p;
}

VICTIM_NOINLINE static void *hold_again(void)
{
	void *p = malloc(10);

	VICTIM_NO_TAIL_CALL();
	return p;
}

static void say(const char *who)
{
	printf("%s %d\n", who, (int)getpid());
	fflush(stdout);
}

static void child(char **argv)
{
	char again[] = "again", *args[] = {argv[0], again, NULL};

	for (int i = 0; i < 300; i++)
		free(blocks[i]);
	for (int i = 0; i < 700; i++)
		more[i] = hold_child();
	say("child");
	victim_gate();
	execv(argv[0], args);
	_exit(99);
}

int main(int argc, char **argv)
{
	int status;
	pid_t pid;

	if (argc > 1 && !strcmp(argv[1], "again")) {
		for (int i = 0; i < 100; i++)
			blocks[i] = hold_again();
		say("again");
		victim_gate();
		return 5;
	}
	victim_gate();
	for (int i = 0; i < 1500; i++)
		blocks[i] = hold_parent();
	for (int i = 1000; i < 1500; i++)
		free(blocks[i]);
	say("parent");
	pid = fork();
	victim_check(pid >= 0, "fork");
	if (pid == 0)
		child(argv);
	victim_check(waitpid(pid, &status, 0) == pid && status == 5 << 8, "the child's status");
	victim_gate();
	return 0;
}
