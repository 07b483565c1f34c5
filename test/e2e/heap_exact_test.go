// SPDX-License-Identifier: Apache-2.0

// Promise: at PPROF_HEAP_RATE=1 a heap profile is an account book: all four values of every stack are what the program
// itself counted, for every entry point of the allocation family, with four threads that free each other's blocks.
package e2e

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// compareExactly: each "truth entry via values..." line against the profile.
func compareExactly(t *testing.T, when string, p *profile.Profile, lines [][]string) {
	t.Helper()
	for _, f := range lines {
		var want heapValues
		for i := range want {
			want[i], _ = strconv.ParseInt(f[2+i], 10, 64)
		}
		if got := heapOf(p, f[0], f[1]); got != want {
			t.Errorf("%s: %s below %s: %v in the profile, %v in truth (%v)", when, f[0], f[1], got, want, heapNames)
		}
	}
	// Nothing is below an entry point but by way of the two callers, and a block is not larger than its class.
	for _, s := range p.Sample {
		for _, f := range lines {
			if contains(s, named(f[0])) && !contains(s, named("via_one", "via_two")) {
				t.Errorf("%s: %s without its caller: %v", when, f[0], stack(s))
			}
		}
		if class := s.NumLabel["bytes"]; len(class) == 1 && s.Value[allocSpace] > s.Value[allocObjects]*class[0] {
			t.Errorf("%s: %v in a class of %d bytes: %v", when, s.Value, class[0], stack(s))
		}
	}
	noAllocatorAtLeaf(t, p)
}

func TestHeapAtRateOneIsExact(t *testing.T) {
	for _, c := range []struct {
		name       string
		ops, slots int
	}{
		{"few slots", 30000, 24}, // the same addresses again and again
		{"many slots", 30000, 20000},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := 1; seed <= int(number("EXACT_RUNS", 2)); seed++ {
				x := start(t, []string{"PPROF_HEAP_RATE=1"}, victim("allocexact"), fmt.Sprint(c.ops), fmt.Sprint(c.slots), fmt.Sprint(seed))
				x.open()
				lines := x.truthLines(1)
				p := x.heap("heap")
				if p.Period != 1 {
					t.Errorf("period %d", p.Period)
				}
				compareExactly(t, "with blocks", p, lines)
				compareExactly(t, "with blocks, allocs", x.heap("allocs"), lines)
				x.open()
				lines = x.truthLines(2)
				p = x.heap("heap?gc=1")
				compareExactly(t, "all freed", p, lines)
				if t.Failed() {
					t.Logf("%s%s", comments(p), heapTop(p, allocObjects, 10))
					x.finish()
					return
				}
				x.finish()
			}
		})
	}
}

// A profile of a window holds what was allocated in it, and what of that is still there.
func TestHeapDeltaIsExact(t *testing.T) {
	x := start(t, []string{"PPROF_HEAP_RATE=1"}, victim("allocexact"), "3000", "512", "7")
	x.open()
	before := x.truthLines(1)
	done := make(chan *profile.Profile, 1)
	go func() {
		a, err := ask(x.addr, "GET", "/debug/pprof/heap?seconds=2", "", nil)
		if err != nil || a.status != 200 {
			t.Errorf("heap?seconds=2: %v %v", err, a)
			done <- nil
			return
		}
		p, err := profile.ParseData(a.body)
		if err != nil {
			t.Errorf("heap?seconds=2: %v", err)
		}
		done <- p
	}()
	time.Sleep(700 * time.Millisecond)
	x.open()
	after := x.truthLines(2)
	p := <-done
	if p == nil {
		return
	}
	for i := range before {
		var want heapValues
		for v := range want {
			a, _ := strconv.ParseInt(after[i][2+v], 10, 64)
			b, _ := strconv.ParseInt(before[i][2+v], 10, 64)
			want[v] = a - b
		}
		if got := heapOf(p, before[i][0], before[i][1]); got != want {
			t.Errorf("delta: %s below %s: %v in the profile, %v in truth", before[i][0], before[i][1], got, want)
		}
	}
	if d := p.DurationNanos; d < 1.9e9 || d > 3e9 {
		t.Errorf("duration %d", d)
	}
	x.finish()
}
