/* SPDX-License-Identifier: Apache-2.0
 *
 * Fork without exec, as pre-forking servers do: the child burns until killed, in child_work. "forker exit": the parent
 * goes away at once, and the child inherits the work (a daemon). "forker stay": the parent lives on, idle. The child's
 * pid is printed. */
#include <string.h>
#include <sys/wait.h>

#include "victim.h"

VICTIM_NOINLINE static void child_work(void)
{
	for (;;)
		victim_burn_ns(1000000);
}

int main(int argc, char **argv)
{
	pid_t pid;

	victim_gate();
	pid = fork();
	victim_check(pid >= 0, "fork");
	if (pid == 0) {
		child_work();
		return 0;
	}
	printf("child %d\n", (int)pid);
	fflush(stdout);
	if (argc > 1 && !strcmp(argv[1], "stay"))
		waitpid(pid, NULL, 0);
	return 0;
}
