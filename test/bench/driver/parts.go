// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// part is a measurement that is no race between variants.
type part struct {
	name, what string
	run        func() []bar
}

func parts() []part {
	return []part{
		{"memory", "resident memory added, KiB; after: a 2 s profile at 100 Hz under load", measureMemory},
		{"answer", "from the request of a 2 s profile to the end of its answer, s", measureAnswer},
		{"dump", "the stacks of 1,000 threads, of which 990 sleep", measureDump},
		{"lines", "what reading a large file for its lines costs a thread of the program that wakes up often", measureLines},
		{"unwind", "a walk of the same context again and again", measureUnwind},
		{"trace", "a record of the execution trace, without and with the walk of a stack of twenty frames", measureTrace},
		{"instructions", "user-space instructions by callgrind: what CPU time is too coarse for", measureInstructions},
		{"heap-instructions", "the same, an operation of malloc and free; one thread", measureHeapInstructions},
		{"heap-memory", "resident memory of programs that hold much and rest, MiB", measureHeapMemory},
	}
}

const memoryRounds = 7

// subject is a program that memory and answers are measured on; load works it once.
type subject struct {
	name    string
	missing string
	launch  func(v *variant) (*process, func() error, error)
}

func subjects() []subject {
	return []subject{
		{"cpu", "", func(v *variant) (*process, func() error, error) {
			p, err := v.launch(oneCPU, programs+"/cpu", "1", "2000000000")
			return p, func() error { return p.feed("\n") }, err
		}},
		{"redis-server", lacks("redis-server", "redis-benchmark"), func(v *variant) (*process, func() error, error) {
			p, socket, err := startRedis(v)
			return p, func() error { return redisLoad(socket, redisRequests) }, err
		}},
		{"python3", lacks("/usr/bin/python3"), func(v *variant) (*process, func() error, error) {
			p, err := v.launch(oneCPU, "/usr/bin/python3", "-")
			return p, func() error { return p.feed("while True:\n    sum(i * i for i in range(1000))\n") }, err
		}},
	}
}

// profile fetches one and says how long that took.
func (p *process) profile(seconds, hz int) (time.Duration, error) {
	begin := time.Now()
	reply, err := p.client().Get("http://agent" + profilePath(seconds, hz))
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	n, err := io.Copy(io.Discard, reply.Body)
	if err == nil && (reply.StatusCode != http.StatusOK || n == 0) {
		err = fmt.Errorf("%s, %d bytes", reply.Status, n)
	}
	return time.Since(begin), err
}

// residentOf is VmRSS at the gate, and after a profile, or after the same time under load without one.
func (s *subject) residentOf(v *variant) (idle, after float64, err error) {
	p, load, err := s.launch(v)
	if err != nil {
		return 0, 0, err
	}
	defer p.kill()
	if idle, err = p.resident(); err != nil {
		return
	}
	loaded := make(chan error, 1)
	go func() { loaded <- load() }()
	if v.listens {
		_, err = p.profile(2, 100)
	} else {
		time.Sleep(2 * time.Second)
	}
	if err == nil {
		err = <-loaded
	}
	if err == nil {
		after, err = p.resident()
	}
	return
}

func measureMemory() []bar {
	plain, agent := variant{name: vNone}, variant{name: vIdle, preload: library, listens: true}
	var bars []bar
	fmt.Printf("%-16s%12s%12s%12s%12s\n", "", "idle, bare", "with agent", "after, bare", "with agent")
	for _, s := range subjects() {
		var bare, with [2][]float64
		if s.missing != "" {
			fmt.Printf("%-16sskipped: %s\n", s.name, s.missing)
			continue
		}
		for i := 0; i < memoryRounds; i++ {
			for v, to := range map[*variant]*[2][]float64{&plain: &bare, &agent: &with} {
				idle, after, err := s.residentOf(v)
				if err != nil {
					fmt.Printf("%-16s%s fails: %v\n", s.name, v.name, err)
					continue
				}
				to[0], to[1] = append(to[0], idle/1024), append(to[1], after/1024)
			}
		}
		fmt.Printf("%-16s%12.0f%12.0f%12.0f%12.0f\n", s.name, median(bare[0]), median(with[0]), median(bare[1]), median(with[1]))
		for i, limit := range []float64{1.5, 8} {
			bars = append(bars, bar{what: "memory, " + s.name + []string{", idle", ", after a profile"}[i] + ", MiB", limit: limit,
				measured: spanOf(differences(with[i], bare[i])).times(1.0 / 1024), format: "%.2f"})
		}
	}
	return bars
}

func measureAnswer() []bar {
	agent := variant{name: vIdle, preload: library, listens: true}
	var bars []bar
	for _, s := range subjects() {
		if s.missing != "" {
			fmt.Printf("%-16sskipped: %s\n", s.name, s.missing)
			continue
		}
		p, load, err := s.launch(&agent)
		if err != nil {
			fmt.Printf("%-16sfails: %v\n", s.name, err)
			continue
		}
		go load()
		var took []float64
		for i := 0; i < 4; i++ { // the first one reads the symbol tables
			d, err := p.profile(2, []int{100, 1000}[i%2])
			if err != nil {
				fmt.Printf("%-16sfails: %v\n", s.name, err)
				break
			}
			took = append(took, d.Seconds())
		}
		p.kill()
		if len(took) == 0 {
			continue
		}
		fmt.Printf("%-16s%.3f\n", s.name, took)
		worst := sorted(took)[len(took)-1]
		bars = append(bars, bar{what: "answer, " + s.name + ", 2 s profile, the slowest, s", limit: 2.3,
			measured: exactly(worst, sorted(took)[0], worst), format: "%.3f"})
	}
	return bars
}

func measureUnwind() []bar {
	out, err := exec.Command(programs + "/unwind").CombinedOutput()
	fmt.Print(string(out))
	found := regexp.MustCompile(`(?m)^warm +([0-9.]+) ns`).FindSubmatch(out)
	if err != nil || found == nil {
		fmt.Printf("unwind fails: %v\n", err)
		return nil
	}
	ns, _ := strconv.ParseFloat(string(found[1]), 64)
	return []bar{{what: "unwind, warm, ns a frame", limit: 10, measured: exactly(ns, ns, ns), format: "%.1f"}}
}

func measureTrace() []bar {
	out, err := exec.Command(programs + "/trace").CombinedOutput()
	fmt.Print(string(out))
	ns := map[string]float64{}
	for _, f := range regexp.MustCompile(`(?m)^([a-z-]+) ([0-9.]+)$`).FindAllStringSubmatch(string(out), -1) {
		ns[f[1]], _ = strconv.ParseFloat(f[2], 64)
	}
	if err != nil || ns["span"] == 0 || ns["untraced"] == 0 {
		fmt.Printf("trace fails: %v\n", err)
		return nil
	}
	known := func(what string, ns float64) bar {
		return bar{what: "trace, ns " + what, limit: 200, measured: exactly(ns, ns, ns), format: "%.1f"}
	}
	return []bar{
		known("a record, without the walk", ns["record"]),
		known("a wait with its waker, over the same untraced", ns["span"]-ns["untraced"]),
		known("a wait with its waker, with the clock that is read anyway", ns["span"]),
	}
}
