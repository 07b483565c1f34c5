/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads end in every way there is: return, pthread_exit from a depth, cancellation at a point and at any time, a
 * raw SYS_exit (detached), an exception caught at the top; with C++ destructors, TLS destructors and key destructors
 * counted. threadends ROUNDS, then the process ends by exit_group while threads still burn. The output and the status
 * are equal with and without the agent. */
#include <pthread.h>
#include <stdexcept>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <atomic>
#include <new>

#include "victim.h"

static std::atomic<int> destructors, tls_destructors, key_destructors, caught, raw_exits;
static pthread_key_t key;

struct Counted {
	std::atomic<int> &n;
	explicit Counted(std::atomic<int> &counter) : n(counter)
	{
	}
	~Counted()
	{
		n++;
	}
};

static thread_local Counted tls(tls_destructors);

static void prepare()
{
	__asm__ volatile("" : : "r"(&tls) : "memory");
	tls.n.load();
	pthread_setspecific(key, &key);
	victim_burn_ns(1500000);
}

static void on_key(void *)
{
	victim_burn_ns(100000);
	key_destructors++;
}

VICTIM_NOINLINE static void deep(int depth, void (*end)())
{
	Counted c(destructors);

	if (depth)
		deep(depth - 1, end);
	else
		end();
	VICTIM_NO_TAIL_CALL();
}

static void *by_return(void *)
{
	prepare();
	deep(5, [] {});
	return reinterpret_cast<void *>(1);
}

static void *by_exit(void *)
{
	prepare();
	deep(5, [] { pthread_exit(reinterpret_cast<void *>(2)); });
	return nullptr;
}

static void *by_cancel(void *)
{
	prepare();
	deep(5, [] {
		for (;;) {
			victim_burn_ns(100000);
			pthread_testcancel();
		}
	});
	return nullptr;
}

static void *by_async_cancel(void *)
{
	prepare();
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
	for (;;)
		victim_spin(1000);
	return nullptr;
}

static void *by_throw(void *)
{
	prepare();
	for (int i = 0; i < 50; i++) {
		try {
			deep(10, [] { throw std::runtime_error("down"); });
		} catch (const std::exception &e) {
			caught++;
		}
	}
	return reinterpret_cast<void *>(3);
}

/* Ends behind libc's back; its stack is never reused because it is leaked on purpose. */
static void *by_raw_exit(void *)
{
	victim_burn_ns(1500000);
	raw_exits++;
	syscall(SYS_exit, 0);
	return nullptr;
}

static void *for_ever(void *)
{
	for (;;)
		victim_burn_ns(1000000);
	return nullptr;
}

int main(int argc, char **argv)
{
	void *(*const ways[])(void *) = {by_return, by_exit, by_cancel, by_async_cancel, by_throw};
	long rounds = victim_arg(argc, argv, 1, 20), results[5] = {0};
	pthread_t t[5], other;
	pthread_attr_t detached;

	pthread_key_create(&key, on_key);
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	victim_gate();
	for (long r = 0; r < rounds; r++) {
		for (int w = 0; w < 5; w++)
			victim_check(!pthread_create(&t[w], nullptr, ways[w], nullptr), "pthread_create");
		if (r % 8 == 0)
			victim_check(!pthread_create(&other, &detached, by_raw_exit, nullptr), "detached");
		victim_sleep_ms(15);
		pthread_cancel(t[2]);
		pthread_cancel(t[3]);
		for (int w = 0; w < 5; w++) {
			void *result;

			pthread_join(t[w], &result);
			results[w] += reinterpret_cast<long>(result);
		}
	}
	for (int w = 0; w < 5; w++)
		printf("way %d results %ld\n", w, results[w]);
	printf("destructors %d caught %d raw %d\n", destructors.load(), caught.load(), raw_exits.load());
	fflush(stdout);
	for (int i = 0; i < 3; i++)
		victim_check(!pthread_create(&other, &detached, for_ever, nullptr), "pthread_create");
	victim_sleep_ms(30);
	_exit(11);
}
