/* SPDX-License-Identifier: Apache-2.0
 *
 * The disposition of every signal before the gate (the agent is up) and after it (its server has run), for us and for
 * a program we exec; then a write to a closed pipe, of which SIGPIPE must kill us. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "victim.h"

static void dispositions(const char *when)
{
	printf("%s:", when);
	for (int s = 1; s <= 64; s++) {
		struct sigaction a;

		if (sigaction(s, NULL, &a) == 0)
			printf(" %d%c", s, a.sa_handler == SIG_DFL ? 'd' : a.sa_handler == SIG_IGN ? 'i' : 'h');
	}
	printf("\n");
	fflush(stdout);
}

/* What an exec'd program would inherit: the kernel's word, not the hook's. Signals 32 and 33 are libc's own: its first
 * pthread_create takes them, whoever ignored them before. */
static void ignored(const char *when)
{
	char line[128];
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "SigIgn", 6))
			printf("%s %llx\n", when, strtoull(line + 7, NULL, 16) & ~(3ull << 31));
	if (f)
		fclose(f);
}

int main(void)
{
	int p[2];

	dispositions("at start");
	ignored("at start");
	victim_gate();
	victim_burn_ns(200000000);
	dispositions("later");
	ignored("later");
	fflush(stdout);
	victim_check(!pipe(p), "pipe");
	close(p[0]);
	victim_check(write(p[1], "x", 1) == 1, "SIGPIPE did not kill");
	return 0;
}
