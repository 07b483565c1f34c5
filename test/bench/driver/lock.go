// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// What locking costs (test/bench/lock.c): uncontended, and contended by four threads that hold a mutex for 1 us and are
// busy for 5 us without it. The agent measures both sides of every wait by default; vLockOff has it leave locks alone.

const (
	vLockOff   = "agent, locks off"
	lockPairs  = 20000000
	lockShared = 400000
)

func forLocks(v *variant) bool { return v.name == vLockOff || v.name != vEmpty && v.of == "" }

func lockRun(cpu int, mode string, threads, operations int) func(v *variant) (sample, error) {
	return gated(cpu, float64(operations), "\n", programs+"/lock", mode, fmt.Sprint(threads), fmt.Sprint(operations))
}

func programBar(r *results) []bar { return []bar{r.bar(vIdle, 1.02)} }

func lockWorkloads() []*workload {
	return []*workload{
		{name: "lock", what: "a mutex locked and unlocked, nobody else wants it", unit: "ns", scale: 1e9, rounds: 31, suits: forLocks,
			run:  lockRun(oneCPU, "pair", 1, lockPairs),
			bars: func(r *results) []bar { return []bar{r.bar(vIdle, 1.20), r.bar(vLockOff, 1.02)} }},
		{name: "waited", what: "the same in a program in which somebody has waited for a mutex before", unit: "ns", scale: 1e9, rounds: 31, suits: forLocks,
			run:  lockRun(oneCPU, "waited", 1, lockPairs),
			bars: func(r *results) []bar { return []bar{r.bar(vIdle, 1.20), r.bar(vLockOff, 1.02)} }},
		{name: "rwlock", what: "a read lock taken and released, nobody else wants it", unit: "ns", scale: 1e9, rounds: 15, suits: forLocks,
			run:  lockRun(oneCPU, "rwlock", 1, lockPairs),
			bars: func(r *results) []bar { return []bar{r.bar(vIdle, 1.20), r.bar(vLockOff, 1.02)} }},
		{name: "contended", what: "a mutex held 1 us of 6 by four threads", unit: "ns", scale: 1e9, rounds: 15, suits: forLocks,
			run:  lockRun(anyCPU, "contended", 4, lockShared),
			bars: func(r *results) []bar { return []bar{r.bar(vIdle, 1.05)} }},
		{name: "pgbench", what: "CPU time of PostgreSQL a SELECT of pgbench, 4 clients", unit: "us", scale: 1e6, rounds: 15, suits: forPrograms,
			missing: lacksPostgres(), run: runPostgres, bars: programBar},
		{name: "pythreads", what: "4 Python threads and 2 queues", unit: "ms", scale: 1e3, rounds: 31, suits: forPrograms,
			missing: lacks("/usr/bin/python3"), run: gated(oneCPU, 1, pythonThreads, "/usr/bin/python3", "-"), bars: programBar},
	}
}
