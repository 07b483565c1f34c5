/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that end by return, by pthread_exit from some depth, by deferred cancellation at a cancellation point, by
 * asynchronous cancellation in a loop, each with a cleanup handler and a key destructor, and a fork beside them. Plain C,
 * for libcs that have no C++ library here. threadways ROUNDS; prints the counts. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "victim.h"

static pthread_key_t key;
static atomic_int cleanups, destructors, cancelled, exited, returned;

static void destructor(void *p)
{
	victim_burn_ns(200000);
	atomic_fetch_add(&destructors, p == &key);
}

static void cleanup(void *p)
{
	victim_burn_ns(200000);
	atomic_fetch_add(&cleanups, p == &key);
}

static VICTIM_NOINLINE void leave(int depth)
{
	if (depth == 0)
		pthread_exit(&key);
	leave(depth - 1);
	VICTIM_NO_TAIL_CALL();
}

static void *way(void *arg)
{
	int old, n = (int)(intptr_t)arg;

	pthread_setspecific(key, &key);
	pthread_cleanup_push(cleanup, &key);
	victim_burn_ns(2000000);
	if (n == 1)
		leave(20);
	if (n == 2)
		for (;;)
			usleep(1000);
	if (n == 3) {
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
		for (;;)
			victim_spin(1000);
	}
	pthread_cleanup_pop(1);
	return NULL;
}

static void fork_once(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		victim_burn_ns(2000000);
		_exit(7);
	}
	victim_check(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7,
		     "fork");
}

int main(int argc, char **argv)
{
	long rounds = victim_arg(argc, argv, 1, 20);
	pthread_t t[4];
	void *ret;

	victim_check(!pthread_key_create(&key, destructor), "pthread_key_create");
	victim_gate();
	for (long i = 0; i < rounds; i++) {
		for (intptr_t k = 0; k < 4; k++)
			victim_check(!pthread_create(&t[k], NULL, way, (void *)k), "pthread_create");
		fork_once();
		victim_sleep_ms(5);
		for (int k = 0; k < 4; k++) {
			if (k >= 2)
				pthread_cancel(t[k]);
			victim_check(!pthread_join(t[k], &ret), "pthread_join");
			cancelled += ret == PTHREAD_CANCELED;
			exited += ret == &key;
			returned += ret == NULL;
		}
	}
	printf("returned %d exited %d cancelled %d cleanups %d destructors %d\n", returned, exited, cancelled, cleanups,
	       destructors);
	return 0;
}
