// flags: -std=c++17
/* SPDX-License-Identifier: Apache-2.0
 *
 * contract: something for every profile, all the time: a thread that burns through an inlined step, one that keeps 500
 * blocks and changes them, two that contend for a lock, one that waits for a condition for ever. Says "ready" and goes on
 * until its gate opens. */
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "victim.h"

namespace work
{
static std::mutex contended, quiet;
static std::condition_variable never;

template <typename T> struct Burner {
	T state;

	inline __attribute__((always_inline)) void step()
	{
		for (int i = 0; i < 20000; i++) {
			state = state * 3 + 1;
			__asm__ volatile("" : "+r"(state));
		}
	}
	VICTIM_NOINLINE void spin()
	{
		step();
		VICTIM_NO_TAIL_CALL();
	}
};

VICTIM_NOINLINE static void burn_on(Burner<long> &b)
{
	b.spin();
	VICTIM_NO_TAIL_CALL();
}

static void burner()
{
	Burner<long> b{1};

	for (;;)
		burn_on(b);
}

VICTIM_NOINLINE static std::unique_ptr<char[]> keep(size_t bytes)
{
	auto p = std::make_unique<char[]>(bytes);

	p[0] = 1;
	return p;
}

static void keeper()
{
	std::vector<std::unique_ptr<char[]>> blocks(500);

	for (size_t i = 0;; i++) {
		blocks[i % blocks.size()] = keep(10000 + i % 7 * 1000);
		if (i > blocks.size())
			std::this_thread::sleep_for(std::chrono::milliseconds(1));
	}
}

VICTIM_NOINLINE static void contend()
{
	std::lock_guard<std::mutex> held(contended);

	victim_burn_ns(300000);
}

static void contender()
{
	for (;;) {
		contend();
		std::this_thread::sleep_for(std::chrono::microseconds(500));
	}
}

static void waiter()
{
	std::unique_lock<std::mutex> held(quiet);

	for (;;)
		never.wait(held);
}
} // namespace work

int main()
{
	for (auto f : {work::burner, work::keeper, work::contender, work::contender, work::waiter})
		std::thread(f).detach();
	puts("ready");
	fflush(stdout);
	victim_gate();
	_exit(0);
}
