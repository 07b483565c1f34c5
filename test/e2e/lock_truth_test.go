// SPDX-License-Identifier: Apache-2.0

// Promise: mutex tells whose holding made others wait, block who waited, each within 5 % of what the program itself
// measures, for every kind of lock and wait; and for a lock the two agree to the nanosecond.
package e2e

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// The program reads its clock just before and after a call; on a busy machine another one may run in between.
const (
	lockTolerance = 0.05
	lockSlack     = int64(4 * time.Millisecond)
)

// waiting is what a profile or the truth says of a function.
type waiting struct{ contentions, delay int64 }

func (x *target) waitingProfile(name string) *profile.Profile {
	x.t.Helper()
	p := x.named(name)
	if got := fmt.Sprint(*p.SampleType[0], *p.SampleType[1], *p.PeriodType, p.Period, p.DefaultSampleType); !strings.HasPrefix(got, "{contentions count") ||
		!strings.Contains(got, "{delay nanoseconds") || len(p.SampleType) != 2 || p.Period != 1 || p.DefaultSampleType != "" {
		x.t.Errorf("%s: types %s", name, got)
	}
	return p
}

// waitingIn adds up what is charged below a function.
func waitingIn(p *profile.Profile, function string) (sum waiting) {
	for _, s := range p.Sample {
		if function == "" || contains(s, func(f string) bool { return strings.Contains(f, function) }) {
			sum.contentions += s.Value[0]
			sum.delay += s.Value[1]
		}
	}
	return
}

func near(got, want int64, tolerance float64) bool {
	return math.Abs(float64(got-want)) <= tolerance*float64(want)
}

func nearly(got, want int64) bool {
	return near(got, want, lockTolerance) || (got-want < lockSlack && want-got < lockSlack)
}

// truths of the lines "waited|caused FUNCTION NANOSECONDS COUNT", when the victim is done.
func (x *target) lockTruths() map[string]waiting {
	x.t.Helper()
	x.awaitOutput("done\n")
	all := map[string]waiting{}
	for _, line := range strings.Split(x.out.String(), "\n") {
		if f := strings.Fields(line); len(f) == 4 {
			ns, _ := strconv.ParseInt(f[2], 10, 64)
			n, _ := strconv.ParseInt(f[3], 10, 64)
			all[f[0]+" "+f[1]] = waiting{n, ns}
		}
	}
	return all
}

func TestHoldersAndWaiters(t *testing.T) {
	for _, mode := range []string{"mutex", "adaptive", "recursive", "pi", "c11", "writer", "readers", "condition"} {
		t.Run(mode, func(t *testing.T) {
			x := start(t, []string{"PPROF_BLOCK_RATE=1"}, victim("lockholders"), mode, "300")
			x.open()
			truths := x.lockTruths()
			mutex, block := x.waitingProfile("mutex"), x.waitingProfile("block")
			var waited, caused waiting
			for name, want := range truths {
				role := strings.Fields(name)[1]
				holder := strings.HasPrefix(role, "hold_")
				switch {
				case strings.HasPrefix(name, "waited") && !holder:
					got := waitingIn(block, role)
					waited.delay += got.delay
					waited.contentions += got.contentions
					if !near(got.delay, want.delay, lockTolerance) {
						t.Errorf("%s waited %d ns, block says %d (%d waits, block says %d)", role, want.delay, got.delay, want.contentions, got.contentions)
					}
				case strings.HasPrefix(name, "caused") && holder:
					got := waitingIn(mutex, role)
					if !nearly(got.delay, want.delay) {
						t.Errorf("%s made others wait %d ns, mutex says %d", role, want.delay, got.delay)
					}
					if d := got.contentions - want.contentions; d < -5-want.contentions/5 || d > 5+want.contentions/5 {
						t.Errorf("%s let %d waiters in, mutex says %d", role, want.contentions, got.contentions)
					}
				}
			}
			caused = waitingIn(mutex, "")
			if waited.delay != caused.delay || waited.contentions != caused.contentions {
				t.Errorf("waiters have %v in all, holders %v", waited, caused)
			}
			if unknown := waitingIn(mutex, "[unknown holder]"); unknown.delay > caused.delay/20 {
				t.Errorf("%d of %d ns belong to nobody", unknown.delay, caused.delay)
			}
			x.finish()
		})
	}
}

func TestWaits(t *testing.T) {
	for _, rate := range []string{"1", "10000"} {
		x := start(t, []string{"PPROF_BLOCK_RATE=" + rate}, victim("lockwaits"), "60")
		x.open()
		truths := x.lockTruths()
		block, mutex := x.waitingProfile("block"), x.waitingProfile("mutex")
		leaves := map[string]string{"wait_for_condition": "pthread_cond_wait", "wait_for_semaphore": "sem_wait",
			"wait_for_barrier": "pthread_barrier_wait", "wait_for_join": "pthread_join", "wait_for_futex": "syscall"}
		for function, leaf := range leaves {
			want, got := truths["waited "+function], waitingIn(block, function)
			if !near(got.delay, want.delay, lockTolerance) || want.delay < 50e6 {
				t.Errorf("rate %s: %s waited %d ns, block says %d", rate, function, want.delay, got.delay)
			}
			if rate == "1" && got.contentions != want.contentions {
				t.Errorf("%s waited %d times, block says %d", function, want.contentions, got.contentions)
			}
			for _, s := range block.Sample {
				if contains(s, named(function)) && stack(s)[0] != leaf && !strings.Contains(stack(s)[0], "mutex") {
					t.Errorf("the leaf of %s is %s", function, stack(s)[0])
				}
			}
			if held := waitingIn(mutex, function); held.delay > want.delay/20 {
				t.Errorf("%s holds nobody up, mutex charges it %d ns", function, held.delay)
			}
		}
		x.finish()
	}
}

// Sampled: short waits, one in ten kept, still add up; so does one release in five.
func TestWaitsAreScaledWithoutBias(t *testing.T) {
	x := start(t, []string{"PPROF_BLOCK_RATE=1000000", "PPROF_MUTEX_FRACTION=5"}, victim("lockholders"), "mutex", "2000")
	x.open()
	truths := x.lockTruths()
	block, mutex := x.waitingProfile("block"), x.waitingProfile("mutex")
	var want waiting
	for name, w := range truths {
		if strings.HasPrefix(name, "waited") {
			want.delay += w.delay
			want.contentions += w.contentions
		}
	}
	// 1000 long rounds of about 8 ms and a few much longer ones (another program had the processor), one in five kept.
	if got := waitingIn(mutex, ""); !near(got.contentions, want.contentions, 0.2) || !near(got.delay, want.delay, 0.6) {
		t.Errorf("mutex: %v, in truth %v", got, want)
	}
	// Waits of 2 ms are all kept; the others stand for 1 ms each.
	if got := waitingIn(block, "wait_"); !near(got.delay, want.delay, lockTolerance) {
		t.Errorf("block: %v, in truth %v", got, want)
	}
	for _, s := range mutex.Sample {
		if s.Value[0]%5 != 0 {
			t.Errorf("%d contentions, with one release in five", s.Value[0])
		}
	}
}

func TestRustWaitsHaveNames(t *testing.T) {
	x := start(t, []string{"PPROF_BLOCK_RATE=1"}, victim("lockrust"), "600")
	x.open()
	x.awaitOutput("done\n")
	block := x.waitingProfile("block")
	for _, line := range strings.Split(x.out.String(), "\n") {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		want, _ := strconv.ParseInt(f[1], 10, 64)
		if got := waitingIn(block, "lockrust::wait_for_"+f[0]); !near(got.delay, want, lockTolerance) {
			t.Errorf("%s: waited %d ns, block says %d", f[0], want, got.delay)
		}
	}
}

// Locks need what a profile needs, also where the heap is not sampled.
func TestWaitsWithoutTheHeap(t *testing.T) {
	x := start(t, []string{"PPROF_BLOCK_RATE=1", "PPROF_HEAP_RATE=0"}, victim("lockwaits"), "20")
	x.open()
	truths := x.lockTruths()
	want, got := truths["waited wait_for_semaphore"], waitingIn(x.waitingProfile("block"), "wait_for_semaphore")
	if !nearly(got.delay, want.delay) {
		t.Errorf("waited %v, block says %v", want, got)
	}
	x.finish()
}

// Off is off.
func TestWaitsOff(t *testing.T) {
	x := start(t, []string{"PPROF_BLOCK_RATE=0", "PPROF_MUTEX_FRACTION=0"}, victim("lockholders"), "mutex", "20")
	x.open()
	x.lockTruths()
	for _, name := range []string{"block", "mutex"} {
		if p := x.waitingProfile(name); len(p.Sample) != 0 {
			t.Errorf("%s is off and has %d records", name, len(p.Sample))
		}
	}
	x.finish()
}

// mutex alone and block alone are as true as both together.
func TestOneOfTwo(t *testing.T) {
	for _, c := range []struct{ env, has, hasNot, role string }{
		{"PPROF_MUTEX_FRACTION=0", "block", "mutex", "waited wait_a"},
		{"PPROF_BLOCK_RATE=0", "mutex", "block", "caused hold_long"},
	} {
		x := start(t, []string{c.env}, victim("lockholders"), "mutex", "60")
		x.open()
		want := x.lockTruths()[c.role]
		if got := waitingIn(x.waitingProfile(c.has), strings.Fields(c.role)[1]); !nearly(got.delay, want.delay) {
			t.Errorf("%s: %s is %v, %s says %v", c.env, c.role, want, c.has, got)
		}
		if p := x.waitingProfile(c.hasNot); len(p.Sample) != 0 {
			t.Errorf("%s: %s has %d records", c.env, c.hasNot, len(p.Sample))
		}
		x.finish()
	}
}
