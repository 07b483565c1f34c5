/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process may have of scarce things, counted to the end: pthread keys until EAGAIN; descriptors until EMFILE
 * (then work on with none left). Printed; equal with and without the agent. limits keys | limits files. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#include "victim.h"

static void keys(void)
{
	pthread_key_t k;
	int n = 0;

	while (pthread_key_create(&k, NULL) == 0)
		n++;
	printf("keys %d\n", n);
}

static void files(void)
{
	struct rlimit few = { 64, 64 };
	int n = 0, fd;

	setrlimit(RLIMIT_NOFILE, &few);
	while ((fd = open("/dev/null", O_RDONLY)) >= 0)
		n++;
	printf("files %d errno %d\n", n, errno);
	fflush(stdout);
	victim_burn_ns(300000000);
	printf("still %d\n", open("/dev/null", O_RDONLY));
}

int main(int argc, char **argv)
{
	victim_gate();
	if (argc > 1 && !strcmp(argv[1], "files"))
		files();
	else
		keys();
	fflush(stdout);
	victim_gate();
	return 3;
}
