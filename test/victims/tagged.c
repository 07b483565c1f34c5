/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads with labels from agent/api/pprof_agent.h. Behind the gate "get" (labels op=get, and tenant=acme from its creator)
 * burns 300 ms and keeps 10 blocks of 1 MiB, "put" (op=put) burns 600 ms and keeps 30, "bare" (none) burns 300 ms and keeps
 * 20, "moved" (put back what "get" had) burns 300 ms and keeps 5. Then all sleep until the next gate. */
#include "../../agent/api/pprof_agent.h"

#include <pthread.h>
#include <string.h>

#include "victim.h"

enum { THREADS = 4, BLOCK = 1 << 20 };

static pthread_barrier_t start, done, named;
static pprof_labels labels_of_get;

struct job {
	const char *op;
	int ms, blocks;
};

VICTIM_NOINLINE static void tagged_work(const struct job *j)
{
	victim_burn_ns((uint64_t)j->ms * 1000000);
	VICTIM_NO_TAIL_CALL();
}

VICTIM_NOINLINE static void tagged_keep(const struct job *j)
{
	for (int i = 0; i < j->blocks; i++)
		*(char *volatile *)&(char *){0} = malloc(BLOCK);
}

static void *tagged_start(void *arg)
{
	const struct job *j = arg;

	if (!strcmp(j->op, "moved")) {
		pthread_barrier_wait(&named);
		pprof_labels_put(labels_of_get);
	} else {
		if (strcmp(j->op, "bare"))
			victim_check(pprof_label_set("op", j->op) == 0, "pprof_label_set");
		if (!strcmp(j->op, "get"))
			labels_of_get = pprof_labels_get();
		pthread_barrier_wait(&named);
	}
	pthread_barrier_wait(&start);
	tagged_work(j);
	tagged_keep(j);
	pthread_barrier_wait(&done);
	for (;;)
		pause();
	return NULL;
}

int main(void)
{
	static const struct job jobs[THREADS] = {
		{"get", 300, 10}, {"put", 600, 30}, {"bare", 300, 20}, {"moved", 300, 5}};
	pthread_t t;

	pthread_barrier_init(&named, NULL, THREADS);
	pthread_barrier_init(&start, NULL, THREADS + 1);
	pthread_barrier_init(&done, NULL, THREADS + 1);
	victim_check(pprof_label_set("tenant", "\"a\" b") == 0, "pprof_label_set");
	for (int i = 0; i < THREADS; i++) {
		victim_check(!pthread_create(&t, NULL, tagged_start, (void *)&jobs[i]), "pthread_create");
		pprof_label_unset("tenant");
	}
	victim_gate();
	pthread_barrier_wait(&start);
	pthread_barrier_wait(&done);
	puts("tagged");
	fflush(stdout);
	victim_gate();
	return 0;
}
