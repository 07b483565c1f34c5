// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"
)

// What sampling the heap costs: the time of the allocator's own operations (test/bench/malloc.c), of one sample, the
// length of the way in instructions, and memory. Other profilers replace the allocator by a faster or a slower one, so
// each is also compared with its own idle form.

const (
	pairs        = 10000000
	replacements = 1000000
	sampled      = 200000
	mixedBytes   = (16 + 4096) / 2.0 // the mean of what `malloc mixed` allocates
	defaultRate  = 512 << 10
)

func mallocRun(cpu int, mode string, threads, operations int) func(v *variant) (sample, error) {
	return gated(cpu, float64(operations), "\n", programs+"/malloc", mode, fmt.Sprint(threads), fmt.Sprint(operations))
}

func heapWorkloads() []*workload {
	micro := func(name, what, mode string, cpu, threads, operations int, bars func(r *results) []bar) *workload {
		// heaptrack takes 40 times as long for a pair: it is measured by the others.
		suits := func(v *variant) bool { return forHeap(v) && (mode != "pair" || v.name != vTrack) }
		return &workload{name: name, what: what, unit: "ns", scale: 1e9, rounds: 31, suits: suits,
			run: mallocRun(cpu, mode, threads, operations), bars: bars}
	}
	const pair, mixed = "malloc and free of 64 bytes, a pair", "one of 10,000 live blocks freed, one of 16 to 4096 bytes allocated"
	return []*workload{
		micro("pair", pair+", one thread", "pair", oneCPU, 1, pairs, microBars),
		micro("pair2", pair+", two threads", "pair", anyCPU, 2, pairs, microBars),
		micro("mixed", mixed+", one thread", "mixed", oneCPU, 1, replacements, mixedBars),
		micro("mixed2", mixed+", two threads", "mixed", anyCPU, 2, replacements, mixedBars),
		{name: "sample", what: mixed + ", every allocation sampled", unit: "ns", scale: 1e9, rounds: 15, suits: forSamples,
			run: mallocRun(oneCPU, "mixed", 1, sampled), bars: everyBars},
	}
}

// over compares what a variant costs beyond another with the bare program: a pass-through that costs a fifth of a tight
// pair does not make our share of it larger or smaller.
func (r *results) over(variant, than string, limit float64) bar {
	var x []float64
	for i, d := range differences(r.cpu[variant], r.cpu[than]) {
		if i < len(r.cpu[vNone]) {
			x = append(x, d/r.cpu[vNone][i])
		}
	}
	c := spanOf(ratios(r.cpu[vControl], r.cpu[vNone]))
	return bar{
		what:     r.w.name + ", " + variant + ", CPU over pass-through",
		limit:    limit,
		measured: spanOf(x),
		format:   "%.3f",
		noise:    fmt.Sprintf("%.3f %.3f–%.3f", c.mid-1, c.low-1, c.high-1),
	}
}

// The agent that is off has no thread, so neither has the pass-through it is compared with.
func microBars(r *results) []bar {
	return []bar{r.over(vIdle, vPass, 0.04), r.over(vOff, vBarely, 0)}
}

// sampleCost is what a sample and its free cost a variant, in ns, beside the allocation and the free themselves.
func (r *results) sampleCost(what, variant, than string, samplesAnOperation float64) bar {
	each := 1e9 / samplesAnOperation
	c := spanOf(differences(r.cpu[vControl], r.cpu[vNone])).times(each)
	return bar{
		what:     r.w.name + ", " + what,
		limit:    1500,
		measured: spanOf(differences(r.cpu[variant], r.cpu[than])).times(each),
		format:   "%.0f",
		noise:    fmt.Sprintf("%.0f %.0f–%.0f", c.mid, c.low, c.high),
	}
}

// sampleBars prints what a sample costs everyone, and returns our bar.
func (r *results) sampleBars(what string, samplesAnOperation float64) []bar {
	var ours []bar
	for _, v := range r.variants {
		if v.own == "" || len(r.cpu[v.own]) == 0 {
			continue
		}
		b := r.sampleCost(what, v.name, v.own, samplesAnOperation)
		fmt.Printf("%-23s%8.0f ns a sample and its free, %.0f–%.0f\n", v.name, b.measured.mid, b.measured.low, b.measured.high)
		if v.listens {
			ours = append(ours, b)
		}
	}
	fmt.Println()
	return ours
}

func mixedBars(r *results) []bar {
	return append(microBars(r), r.sampleBars("a sample and its free at 512 KiB, ns", mixedBytes/defaultRate)...)
}

func everyBars(r *results) []bar { return r.sampleBars("a sample and its free, all sampled, ns", 1) }

// counter says what one more unit of a program's work takes in instructions.
type counter struct {
	unit      string
	few, many int
	run       func(v *variant, n int) (float64, error)
	missing   string
}

func counters() []counter {
	micro := func(mode string) func(v *variant, n int) (float64, error) {
		return func(v *variant, n int) (float64, error) {
			return behindGate(v, "\n", programs+"/malloc", mode, "1", fmt.Sprint(n))
		}
	}
	script := func(text, units string, command ...string) func(v *variant, n int) (float64, error) {
		return func(v *variant, n int) (float64, error) {
			return behindGate(v, strings.ReplaceAll(text, units, fmt.Sprint(n)), command...)
		}
	}
	return []counter{
		{"a pair", 100000, 500000, micro("pair"), ""},
		{"mixed", 50000, 250000, micro("mixed"), ""},
		{"sqlite3, a row", 2000, 42000, script(sqliteScript, "400000", "sqlite3", "-batch", ":memory:"), lacks("sqlite3")},
		{"python3, a row", 500, 10500, script(pythonScript, "60000", "/usr/bin/python3", "-"), lacks("/usr/bin/python3")},
	}
}

// measureHeapInstructions counts in the forms that have a heap profile. Heaptrack is not among them: it injects itself,
// and callgrind does not follow.
func measureHeapInstructions() []bar {
	if missing := lacks("valgrind"); missing != "" {
		fmt.Printf("skipped: %s\n", missing)
		return nil
	}
	units := counters()
	fmt.Printf("%-23s", "")
	for _, c := range units {
		fmt.Printf("%16s%9s", c.unit, "to p.-t.")
	}
	fmt.Println()
	pass, idle := make([]float64, len(units)), make([]float64, len(units))
	for _, v := range allVariants() {
		if !forHeap(&v) && v.name != vEvery || v.missing != "" || v.name == vControl || v.name == vTrack ||
			!onlyVariants.MatchString(v.name) {
			continue
		}
		fmt.Printf("%-23s", v.name)
		for i, c := range units {
			// Every block of a whole program takes too long, and other allocators do not show what we cost.
			if c.missing != "" || i > 1 && (v.name == vEvery || v.own != vHeapOff && v.preload != library && v.of != "") {
				fmt.Printf("%16s%9s", "–", "–")
				continue
			}
			x := step(c.few, c.many, func(n int) (float64, error) { return c.run(&v, n) })
			to := "–"
			switch v.name {
			case vPass:
				pass[i] = x
			case vIdle:
				idle[i] = x
			}
			if pass[i] > 0 {
				to = fmt.Sprintf("%.3f", x/pass[i])
			}
			fmt.Printf("%16.1f%9s", x, to)
		}
		fmt.Println()
	}
	var bars []bar
	for i, c := range units {
		if r := idle[i] / pass[i]; i > 1 && r > 0 {
			bars = append(bars, bar{what: "instructions, " + c.unit + ", heap on, to pass-through", limit: 1.01,
				measured: exactly(r, r, r), format: "%.4f"})
		}
	}
	return bars
}

// holder is a program that comes to hold much memory and then rests.
type holder struct {
	name    string
	missing string
	still   time.Duration // without CPU for so long, it is done
	launch  func(v *variant) (*process, func() error, error)
}

// holds feeds a program that stays; its gate remains open.
func holds(input string, command ...string) func(v *variant) (*process, func() error, error) {
	return func(v *variant) (*process, func() error, error) {
		p, err := v.launch(oneCPU, command...)
		return p, func() error {
			_, err := io.WriteString(p.gate, input)
			return err
		}, err
	}
}

func holders() []holder {
	flood := func(v *variant) (*process, func() error, error) {
		p, socket, err := startRedis(v)
		return p, func() error {
			return redisBenchmark(socket, "-n", "300000", "-r", "1000000", "-d", "200", "-t", "set")
		}, err
	}
	const long = 300 * time.Millisecond
	return []holder{
		{"malloc", "", long, holds("\n", programs+"/malloc", "hold", "1", "1000000", "100000")},
		{"redis-server", lacks("redis-server", "redis-benchmark"), betweenTicks, flood},
		{"sqlite3", lacks("sqlite3"), long, holds(sqliteScript, "sqlite3", "-batch", ":memory:")},
		{"python3", lacks("/usr/bin/python3"), long, holds(pythonHoard, "/usr/bin/python3", "-i", "-q")},
	}
}

const pythonHoard = `rows = [{"id": i, "name": "row %d" % i, "tags": [i, -i]} for i in range(200000)]
text = [bytes(1000 + i % 5000) for i in range(20000)]
`

// heldBy is VmRSS when a program has come to rest with its memory, and once more after a heap profile.
func (h *holder) heldBy(v *variant) (resting, after float64, err error) {
	p, load, err := h.launch(v)
	if err != nil {
		return 0, 0, err
	}
	defer p.kill()
	if err = load(); err == nil {
		err = p.rest(h.still)
	}
	if err == nil {
		resting, err = p.resident()
	}
	if err != nil || !v.listens {
		return
	}
	if failed := p.fetch("/debug/pprof/heap"); failed != nil {
		fmt.Printf("%s: %v\n", h.name, failed)
		return resting, math.NaN(), nil
	}
	after, err = p.resident()
	return
}

// fetch reads an answer to its end.
func (p *process) fetch(path string) error {
	reply, err := p.client().Get("http://agent" + path)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	var body bytes.Buffer
	if _, err = io.Copy(&body, reply.Body); err == nil && (reply.StatusCode != http.StatusOK || body.Len() == 0) {
		err = fmt.Errorf("%s: %s, %d bytes", path, reply.Status, body.Len())
	}
	return err
}

func measureHeapMemory() []bar {
	plain, agent := variant{name: vNone}, variant{name: vIdle, preload: library, listens: true}
	var bars []bar
	fmt.Printf("%-16s%12s%12s%12s%12s%24s\n", "", "bare", "its spread", "with agent", "more", "after a heap profile")
	for _, h := range holders() {
		if h.missing != "" {
			fmt.Printf("%-16sskipped: %s\n", h.name, h.missing)
			continue
		}
		var bare, with, more, after []float64
		for i := 0; i < memoryRounds; i++ {
			b, _, err := h.heldBy(&plain)
			if err == nil {
				var w, a float64
				if w, a, err = h.heldBy(&agent); err == nil {
					bare, with, after = append(bare, b), append(with, w), append(after, a)
					more = append(more, w-b*1.01)
				}
			}
			if err != nil {
				fmt.Printf("%-16sfails: %v\n", h.name, err)
				break
			}
		}
		if len(bare) == 0 {
			continue
		}
		mib := func(x []float64) float64 { return median(x) / (1 << 20) }
		spread := sorted(bare)
		fmt.Printf("%-16s%12.2f%12.2f%12.2f%12.2f%24.2f\n", h.name, mib(bare), (spread[len(spread)-1]-spread[0])/(1<<20), mib(with),
			mib(differences(with, bare)), mib(differences(after, bare)))
		bars = append(bars, bar{what: "heap memory, " + h.name + ", over 1.01 of the bare, MiB", limit: 4,
			measured: spanOf(more).times(1.0 / (1 << 20)), format: "%.2f",
			noise: fmt.Sprintf("±%.2f", math.Max(spread[len(spread)-1]-mib(bare)*(1<<20), mib(bare)*(1<<20)-spread[0])/(1<<20))})
	}
	return bars
}
