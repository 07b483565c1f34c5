/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process may have of scarce things, counted to the end: pthread keys until EAGAIN; descriptors until EMFILE
 * (then work on with none left); threads that cannot be created for lack of address space, thousands of times, and then
 * one that can. Printed; equal with and without the agent. limits keys | files | threads. */
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
	struct rlimit few = {64, 64};
	int n = 0, fd;

	setrlimit(RLIMIT_NOFILE, &few);
	while ((fd = open("/dev/null", O_RDONLY)) >= 0)
		n++;
	printf("files %d errno %d\n", n, errno);
	fflush(stdout);
	victim_burn_ns(300000000);
	printf("still %d\n", open("/dev/null", O_RDONLY));
}

static void *thread(void *arg)
{
	victim_burn_ns(20000000);
	return arg;
}

static void threads(void)
{
	struct rlimit space = {8ull << 30, 8ull << 30};
	int refused = 0;
	pthread_attr_t huge;
	pthread_t t;

	setrlimit(RLIMIT_AS, &space);
	pthread_attr_init(&huge);
	pthread_attr_setstacksize(&huge, 16ull << 30);
	for (int i = 0; i < 20000; i++)
		refused += pthread_create(&t, &huge, thread, NULL) == EAGAIN;
	printf("refused %d\n", refused);
	printf("then %d\n", pthread_create(&t, NULL, thread, NULL));
	pthread_join(t, NULL);
}

int main(int argc, char **argv)
{
	victim_gate();
	if (argc > 1 && !strcmp(argv[1], "files"))
		files();
	else if (argc > 1 && !strcmp(argv[1], "threads"))
		threads();
	else
		keys();
	fflush(stdout);
	victim_gate();
	return 3;
}
