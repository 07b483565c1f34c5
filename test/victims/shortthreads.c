/* SPDX-License-Identifier: Apache-2.0
 *
 * Many threads that live for less than one sampling period: shortthreads COUNT MILLISECONDS AT-ONCE. Gate, run them
 * all, print what their CPU clocks said in all, gate, end. The clock is read as a thread's last act; what the kernel
 * takes for its birth and death after that is some ten microseconds a thread and not in the sum. */
#include <pthread.h>
#include <stdatomic.h>

#include "victim.h"

static _Atomic uint64_t spent_ns;
static uint64_t each_ns;

VICTIM_NOINLINE static void short_work(void)
{
	victim_burn_ns(each_ns - victim_cpu_ns());
	VICTIM_NO_TAIL_CALL();
}

static void *short_start(void *arg)
{
	short_work();
	atomic_fetch_add(&spent_ns, victim_cpu_ns());
	return arg;
}

int main(int argc, char **argv)
{
	long count = victim_arg(argc, argv, 1, 100), at_once = victim_arg(argc, argv, 3, 2);
	pthread_t threads[64];
	uint64_t main_before;

	each_ns = (uint64_t)victim_arg(argc, argv, 2, 2) * 1000000;
	victim_check(at_once > 0 && at_once <= 64, "AT-ONCE is 1 to 64");
	victim_gate();
	main_before = victim_cpu_ns();
	for (long i = 0; i < count; i += at_once) {
		long n = count - i < at_once ? count - i : at_once;

		for (long k = 0; k < n; k++)
			victim_check(!pthread_create(&threads[k], NULL, short_start, NULL), "pthread_create");
		for (long k = 0; k < n; k++)
			pthread_join(threads[k], NULL);
	}
	printf("threads %llu\n", (unsigned long long)atomic_load(&spent_ns));
	printf("main %llu\n", (unsigned long long)(victim_cpu_ns() - main_before));
	fflush(stdout);
	victim_gate();
	return 0;
}
