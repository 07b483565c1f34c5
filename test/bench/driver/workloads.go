// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// sample is one run: CPU and wall time of one unit of work, in seconds.
type sample struct{ cpu, wall float64 }

// workload is a program with a fixed amount of work.
type workload struct {
	name, what string
	unit       string  // of the figures in the table
	scale      float64 // seconds to units
	rounds     int
	missing    string // why it cannot run here
	suits      func(v *variant) bool
	run        func(v *variant) (sample, error)
	bars       func(r *results) []bar
}

const (
	oneCPU        = 1 // where a single-threaded program is held; the driver's own threads are free to go elsewhere
	cpuWork       = "100000"
	threadsWork   = "400000"
	creations     = 10000
	starts        = 500
	redisRequests = 100000 // of each of two kinds
)

func workloads() []*workload {
	all := []*workload{
		{name: "cpu", what: "one thread, recursion 20 deep, fixed work", unit: "ms", scale: 1e3, rounds: 61, suits: forCPU,
			run:  gated(oneCPU, 1, "\n", programs+"/cpu", "1", cpuWork),
			bars: func(r *results) []bar { return []bar{r.bar(v100, 1.01), r.bar(v1000, 1.03)} }},
		{name: "threads200", what: "the same work divided among 200 threads", unit: "ms", scale: 1e3, rounds: 15, suits: forCPU,
			run:  gated(anyCPU, 1, "\n", programs+"/cpu", "200", threadsWork),
			bars: func(r *results) []bar { return []bar{r.bar(v100, 1.01), r.bar(v1000, 1.03)} }},
		{name: "create", what: "creating and joining a thread that does nothing", unit: "us", scale: 1e6, rounds: 31, suits: forCPU,
			run:  gated(oneCPU, creations, "\n", programs+"/create", fmt.Sprint(creations)),
			bars: func(r *results) []bar { return []bar{r.bar(v100, 1.3), r.bar(v1000, 1.3)} }},
		{name: "start", what: "starting a program that does nothing, 500 times a round; wall time is the median start's", unit: "us", scale: 1e6, rounds: 15,
			suits: func(v *variant) bool { return v.of == "" || v.name == vGperf },
			run:   runStarts, bars: startBars},
		{name: "redis", what: "CPU time of redis-server a request, SET and GET over a unix socket", unit: "us", scale: 1e6, rounds: 31, suits: forPrograms,
			missing: lacks("redis-server", "redis-benchmark"), run: runRedis,
			bars: func(r *results) []bar { return []bar{r.bar(vIdle, 1.01), r.bar(v100, 1.02)} }},
		{name: "sqlite3", what: "a fixed script in memory", unit: "ms", scale: 1e3, rounds: 31, suits: forPrograms,
			missing: lacks("sqlite3"), run: gated(oneCPU, 1, sqliteScript, "sqlite3", "-batch", ":memory:"), bars: idleBar},
		{name: "python3", what: "a fixed script", unit: "ms", scale: 1e3, rounds: 31, suits: forPrograms,
			missing: lacks("/usr/bin/python3"), run: gated(oneCPU, 1, pythonScript, "/usr/bin/python3", "-"), bars: idleBar},
	}
	return append(append(all, heapWorkloads()...), lockWorkloads()...)
}

func idleBar(r *results) []bar { return []bar{r.bar(vIdle, 1.01)} }

// lacks says which of the programs is not here.
func lacks(names ...string) string {
	for _, n := range names {
		if _, err := exec.LookPath(n); err != nil {
			return "no " + n + " on this machine"
		}
	}
	return ""
}

// gated is a workload that begins with what it reads and ends by itself; a run is so many units.
func gated(cpu int, units float64, input string, command ...string) func(v *variant) (sample, error) {
	return func(v *variant) (sample, error) {
		p, err := v.launch(cpu, command...)
		if err != nil {
			return sample{}, err
		}
		p.begin()
		if err := p.feed(input); err != nil {
			p.kill()
			return sample{}, err
		}
		used, took, err := p.finish()
		return sample{used / units, took / units}, err
	}
}

// runStarts lets one spawner, which has no preload itself, start all the programs.
func runStarts(v *variant) (sample, error) {
	plain := variant{name: v.name, env: append(v.environment(fmt.Sprintf("%s/start", scratch)), "BENCH_PRELOAD="+v.preload)}
	p, err := plain.launch(oneCPU, programs+"/spawn", fmt.Sprint(starts), programs+"/trivial")
	if err != nil {
		return sample{}, err
	}
	p.begin()
	if err := p.feed("\n"); err != nil {
		p.kill()
		return sample{}, err
	}
	if _, _, err := p.finish(); err != nil {
		return sample{}, err
	}
	var wall, cpu float64
	if _, err := fmt.Sscan(p.out.String(), &wall, &cpu); err != nil {
		return sample{}, err
	}
	return sample{cpu / 1e9, wall / 1e9}, nil
}

const betweenTicks = 30 * time.Millisecond // redis has a look around 10 times a second

func redisCommand(socket string) []string {
	return []string{"redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", scratch}
}

// redisLoad sends requests of both kinds to the server and waits for the answers.
func redisLoad(socket string, requests int) error {
	return redisBenchmark(socket, "-n", fmt.Sprint(requests), "-t", "set,get")
}

func redisBenchmark(socket string, arguments ...string) error {
	out, err := exec.Command("redis-benchmark", append([]string{"-s", socket, "-q", "-c", "20"}, arguments...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("redis-benchmark: %v: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func startRedis(v *variant) (*process, string, error) {
	socket := fmt.Sprintf("%s/redis%d", scratch, started)
	p, err := v.launch(oneCPU, redisCommand(socket)...)
	if err != nil {
		return nil, "", err
	}
	if err := await("redis-server", func() bool { return exists(socket) }); err != nil {
		p.kill()
		return nil, "", err
	}
	return p, socket, nil
}

// runRedis holds server and load on one processor: they then take turns, so that every wake-up of the server finds the
// requests of all clients. On two processors the size of these batches, and with it the CPU time a request, depends on
// who else is busy.
func runRedis(v *variant) (sample, error) {
	p, socket, err := startRedis(v)
	if err != nil {
		return sample{}, err
	}
	defer p.kill()
	if err := pinned(oneCPU, func() error { return redisLoad(socket, 2000) }); err != nil { // the allocator's first pages
		return sample{}, err
	}
	p.begin()
	err = pinned(oneCPU, func() error { return redisLoad(socket, redisRequests) })
	cpu, wall := p.used()-p.cpu0, time.Since(p.wall0)
	return sample{cpu.Seconds() / (2 * redisRequests), wall.Seconds() / (2 * redisRequests)}, err
}

const sqliteScript = `CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000)
INSERT INTO t SELECT i, 'row ' || (i * 7919 % 100003), i / 3.0 FROM n;
CREATE INDEX tb ON t(b);
SELECT count(*), sum(c) FROM t WHERE b LIKE 'row 1%';
SELECT b, count(*) FROM t GROUP BY b ORDER BY 2 DESC, 1 LIMIT 3;
UPDATE t SET c = c * 1.01 WHERE a % 3 = 0;
SELECT count(*) FROM t x JOIN t y ON x.b = y.b AND x.a < y.a;
`

const pythonScript = `import json, re, hashlib
total = 0
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
total += fib(27)
rows = [{"id": i, "name": "row %d" % (i * 7919 % 10007), "tags": [i % 7, i % 11]} for i in range(60000)]
text = json.dumps(rows)
total += len(json.loads(text))
total += sum(1 for _ in re.finditer(r'"name": "row (\d+)"', text))
rows.sort(key=lambda r: (r["name"], r["id"]))
for i in range(60000):
    total += hashlib.sha256(str(i).encode()).digest()[0]
words = {}
for w in text.split():
    words[w] = words.get(w, 0) + 1
print(total + len(words))
`
