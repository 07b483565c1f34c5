/* SPDX-License-Identifier: Apache-2.0
 *
 * lockleave WHAT: every way to leave a wait before its end: a cancellation that is pending or arrives, a signal handler
 * that jumps, one that throws. For each function: was the wait left, did destructors run, and afterwards the thread waits
 * once more, in after_leaving, for a mutex that held_meanwhile holds for 20 ms: the agent must still measure it. */
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <ctime>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <threads.h>

#include "victim.h"

namespace
{

enum { ARRIVE_MS = 10, HELD_MS = 20 };

/* What is waited for; made anew for each case, as nobody promises anything about what was left. */
struct things {
	pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER, mine = PTHREAD_MUTEX_INITIALIZER;
	pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	pthread_barrier_t barrier;
	sem_t sem;
	cnd_t cnd;
	mtx_t mtx, busy_mtx;
	pthread_t sleeper, writer;
	std::atomic<int> writing{0};
	int word = 0;
};

things *now;

void *sleep_well(void *)
{
	victim_sleep_ms(300);
	return nullptr;
}

timespec soon(clockid_t clock)
{
	timespec t;

	clock_gettime(clock, &t);
	t.tv_sec += 2;
	return t;
}

struct wait {
	const char *name;
	bool may_throw; /* glibc's own frames let an exception pass: those that were built for cancellation */
	void (*fn)();
	void (*satisfy)(); /* lets fn return at once, for a cancellation that is pending */
};

const wait waits[] = {
	{"cond_wait", true, [] { pthread_mutex_lock(&now->mine), pthread_cond_wait(&now->cond, &now->mine); }, nullptr},
	{"cond_timedwait", true,
	 [] {
		 timespec t = soon(CLOCK_REALTIME);
		 pthread_mutex_lock(&now->mine), pthread_cond_timedwait(&now->cond, &now->mine, &t);
	 },
	 nullptr},
	{"cond_clockwait", true,
	 [] {
		 timespec t = soon(CLOCK_MONOTONIC);
		 pthread_mutex_lock(&now->mine), pthread_cond_clockwait(&now->cond, &now->mine, CLOCK_MONOTONIC, &t);
	 },
	 nullptr},
	{"sem_wait", true, [] { sem_wait(&now->sem); }, [] { sem_post(&now->sem); }},
	{"sem_timedwait", true,
	 [] {
		 timespec t = soon(CLOCK_REALTIME);
		 sem_timedwait(&now->sem, &t);
	 },
	 [] { sem_post(&now->sem); }},
	{"sem_clockwait", true,
	 [] {
		 timespec t = soon(CLOCK_MONOTONIC);
		 sem_clockwait(&now->sem, CLOCK_MONOTONIC, &t);
	 },
	 [] { sem_post(&now->sem); }},
	{"join", true, [] { pthread_join(now->sleeper, nullptr); }, nullptr},
	{"timedjoin", true,
	 [] {
		 timespec t = soon(CLOCK_REALTIME);
		 pthread_timedjoin_np(now->sleeper, nullptr, &t);
	 },
	 nullptr},
	{"clockjoin", true,
	 [] {
		 timespec t = soon(CLOCK_MONOTONIC);
		 pthread_clockjoin_np(now->sleeper, nullptr, CLOCK_MONOTONIC, &t);
	 },
	 nullptr},
	{"thrd_join", true, [] { thrd_join(now->sleeper, nullptr); }, nullptr},
	{"cnd_wait", true, [] { mtx_lock(&now->mtx), cnd_wait(&now->cnd, &now->mtx); }, nullptr},
	{"cnd_timedwait", true,
	 [] {
		 timespec t = soon(CLOCK_REALTIME);
		 mtx_lock(&now->mtx), cnd_timedwait(&now->cnd, &now->mtx, &t);
	 },
	 nullptr},
	/* No cancellation points. */
	{"mutex_lock", false, [] { pthread_mutex_lock(&now->busy); }, nullptr},
	{"mutex_timedlock", false,
	 [] {
		 timespec t = soon(CLOCK_REALTIME);
		 pthread_mutex_timedlock(&now->busy, &t);
	 },
	 nullptr},
	{"rdlock", false, [] { pthread_rwlock_rdlock(&now->rwlock); }, nullptr},
	{"wrlock", false, [] { pthread_rwlock_wrlock(&now->rwlock); }, nullptr},
	{"barrier", false, [] { pthread_barrier_wait(&now->barrier); }, nullptr},
	{"mtx_lock", false, [] { mtx_lock(&now->busy_mtx); }, nullptr},
	{"futex", false, [] { syscall(SYS_futex, &now->word, FUTEX_WAIT_PRIVATE, 0, nullptr); }, nullptr},
};

/* A rwlock knows its writer, who would be told of a deadlock at once. */
void *write_until_told(void *)
{
	pthread_rwlock_wrlock(&now->rwlock);
	now->writing = 1;
	while (now->writing != 2)
		victim_sleep_ms(1);
	pthread_rwlock_unlock(&now->rwlock);
	return nullptr;
}

void make()
{
	now = new things;
	pthread_barrier_init(&now->barrier, nullptr, 2);
	sem_init(&now->sem, 0, 0);
	cnd_init(&now->cnd);
	mtx_init(&now->mtx, mtx_plain);
	mtx_init(&now->busy_mtx, mtx_plain);
	pthread_mutex_lock(&now->busy);
	mtx_lock(&now->busy_mtx);
	pthread_create(&now->writer, nullptr, write_until_told, nullptr);
	while (now->writing != 1)
		victim_sleep_ms(1);
	pthread_create(&now->sleeper, nullptr, sleep_well, nullptr);
}

/* What those that cannot be cancelled wait for comes about a little later. */
void let_go()
{
	pthread_mutex_unlock(&now->busy);
	mtx_unlock(&now->busy_mtx);
	now->writing = 2;
	pthread_join(now->writer, nullptr);
}

/* ---- measured afterwards ---- */

pthread_mutex_t later = PTHREAD_MUTEX_INITIALIZER;
pthread_barrier_t held;

VICTIM_NOINLINE void *held_meanwhile(void *)
{
	pthread_mutex_lock(&later);
	pthread_barrier_wait(&held);
	/* However late the other comes: glibc's word of a mutex that somebody waits for is 2. */
	for (int i = 0; i < 10000 && __atomic_load_n(&later.__data.__lock, __ATOMIC_RELAXED) != 2; i++)
		victim_sleep_ms(1);
	victim_sleep_ms(HELD_MS);
	pthread_mutex_unlock(&later);
	return nullptr;
}

VICTIM_NOINLINE void after_leaving()
{
	pthread_t holder;

	pthread_create(&holder, nullptr, held_meanwhile, nullptr);
	pthread_barrier_wait(&held);
	pthread_mutex_lock(&later);
	pthread_mutex_unlock(&later);
	pthread_join(holder, nullptr);
}

/* ---- cancellation ---- */

struct told {
	const char *what;
	~told()
	{
		printf(" %s", what);
	}
};

const wait *current;
bool is_pending;
std::atomic<pid_t> waiter;

void measure_again(void *)
{
	printf(" cleanup");
	after_leaving();
}

void *cancelled(void *)
{
	told destructor{"destructor"};

	if (is_pending) {
		int old;

		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
		pthread_cancel(pthread_self());
		if (current->satisfy)
			current->satisfy();
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	}
	pthread_cleanup_push(measure_again, nullptr);
	waiter = (pid_t)syscall(SYS_gettid);
	current->fn();
	printf(" returned");
	pthread_testcancel();
	pthread_cleanup_pop(0);
	return nullptr;
}

void cancel_each(bool pending)
{
	is_pending = pending;
	for (const wait &w : waits) {
		pthread_t t;
		void *result;

		if (w.name[0] == 'f' || (pending && w.name[0] == 'b'))
			continue;
		make();
		current = &w;
		waiter = 0;
		printf("%s %s:", pending ? "pending" : "arriving", w.name);
		fflush(stdout);
		pthread_create(&t, nullptr, cancelled, nullptr);
		victim_sleep_ms(ARRIVE_MS);
		if (!pending) {
			while (!waiter)
				victim_sleep_ms(1);
			victim_until_in(waiter, SYS_futex);
			pthread_cancel(t);
		}
		victim_sleep_ms(2);
		let_go();
		if (w.name[0] == 'b')
			pthread_barrier_wait(&now->barrier);
		pthread_join(t, &result);
		printf(" %s\n", result == PTHREAD_CANCELED ? "cancelled" : "ended");
	}
}

/* ---- handlers that do not return ---- */

sigjmp_buf back;

void jump(int)
{
	siglongjmp(back, 1);
}

void raise_exception(int)
{
	throw 42;
}

void interrupt_after(void (*handler)(int))
{
	static pthread_t target;
	struct sigaction sa = {};
	pthread_t t;

	sa.sa_handler = handler;
	sa.sa_flags = SA_NODEFER;
	sigaction(SIGUSR1, &sa, nullptr);
	target = pthread_self();
	pthread_create(
		&t, nullptr,
		[](void *) -> void * {
			victim_sleep_ms(ARRIVE_MS);
			victim_until_in(getpid(), SYS_futex);
			pthread_kill(target, SIGUSR1);
			return nullptr;
		},
		nullptr);
	pthread_detach(t);
}

VICTIM_NOINLINE void jump_out(const wait &w)
{
	told destructor{"end"};

	make();
	if (sigsetjmp(back, 1)) {
		printf(" jumped");
	} else {
		interrupt_after(jump);
		w.fn();
		printf(" returned");
	}
	/* Whoever now releases what was waited for must not be charged for a waiter that is not there. */
	let_go();
	after_leaving();
}

VICTIM_NOINLINE void throw_out(const wait &w)
{
	make();
	try {
		told destructor{"destructor"};

		interrupt_after(raise_exception);
		w.fn();
		printf(" returned");
	} catch (int n) {
		printf(" caught %d", n);
	}
	let_go();
	after_leaving();
}

} // namespace

int main(int argc, char **argv)
{
	pthread_barrier_init(&held, nullptr, 2);
	victim_gate();
	for (int i = 1; i < argc; i++) {
		if (argv[i][0] == 'p')
			cancel_each(true);
		else if (argv[i][0] == 'a')
			cancel_each(false);
		else
			for (const wait &w : waits) {
				bool throws = argv[i][0] == 't';

				if (throws && !w.may_throw)
					continue;
				printf("%s %s:", argv[i], w.name);
				throws ? throw_out(w) : jump_out(w);
				printf("\n");
			}
	}
	printf("done\n");
	fflush(stdout);
	victim_gate();
	return 0;
}
