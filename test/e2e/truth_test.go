// SPDX-License-Identifier: Apache-2.0

// Promise: a CPU profile tells the truth, as the target's own CPU clocks know it: shares of functions, totals, threads
// shorter than the period, and time spent with every signal blocked.
package e2e

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/google/pprof/profile"
)

// The kernel delivers a CPU timer's signal at most once a scheduler tick, which is what the coarse clock counts in.
var tick = func() time.Duration {
	const coarse = 6 // CLOCK_MONOTONIC_COARSE
	var t syscall.Timespec
	if _, _, e := syscall.Syscall(syscall.SYS_CLOCK_GETRES, coarse, uintptr(unsafe.Pointer(&t)), 0); e != 0 {
		return 10 * time.Millisecond
	}
	return time.Duration(t.Nano())
}()

// printed reads "name number" lines of a victim.
func printed(out string) map[string]time.Duration {
	m := map[string]time.Duration{}
	for sc := bufio.NewScanner(strings.NewReader(out)); sc.Scan(); {
		var name string
		var ns int64
		if n, _ := fmt.Sscan(sc.Text(), &name, &ns); n == 2 {
			m[name] = time.Duration(ns)
		}
	}
	return m
}

// measure profiles a victim that burns between its gates: the window is open before the first and must still be open
// when the victim has printed its truth, or the run says nothing and is repeated with a longer one.
func measure(t *testing.T, query string, seconds int, command ...string) (*profile.Profile, map[string]time.Duration) {
	t.Helper()
	for try := 0; ; try++ {
		x := start(t, nil, command...)
		f := x.profileOn(fmt.Sprintf("seconds=%d&%s", seconds, query))
		x.open()
		waitFor(t, 5*time.Minute, "the victim's truth", func() bool { return strings.Count(x.out.String(), "\n") >= 2 },
			func() string { return x.err.String() })
		p, whole := f.sawAll()
		x.finish()
		if whole {
			return p, printed(x.out.String())
		}
		if try == 4 {
			t.Fatalf("%v takes longer than %d s: the machine is too busy to measure anything", command, seconds)
		}
		seconds *= 2
	}
}

func number(variable string, otherwise float64) float64 {
	if v, err := strconv.ParseFloat(os.Getenv(variable), 64); err == nil {
		return v
	}
	return otherwise
}

// Shares of 50/30/20 %. A sample falls into a function like a ball into a bin: for n samples a share p has the standard
// deviation sqrt(p(1-p)/n), n = CPU / max(period, tick) (phases are shorter than either, so neighbours are nearly
// independent). Beyond 4 sigma is a failure: with the 12 comparisons of the short form that happens by chance once in
// 1,300 runs, with 3 it would be once in 30. TRUTH_RUNS=20 TRUTH_CPU=8 is the long form, whose means must also be
// within half a point or 3 sigma of the mean, whichever is more; the table says what was seen.
func TestSharesAreTrue(t *testing.T) {
	runs, seconds := int(number("TRUTH_RUNS", 2)), number("TRUTH_CPU", 2)
	functions := []string{"burn_half", "burn_third", "burn_fifth"}
	t.Logf("%d runs of %.0f CPU-seconds, tick %v", runs, seconds, tick)
	for _, hz := range []int{100, 1000} {
		sum, abs, worst, worstTotal, over3 := [3]float64{}, [3]float64{}, 0.0, 0.0, 0
		bound := [3]float64{}
		var sumTotal float64
		for run := 0; run < runs; run++ {
			p, truth := measure(t, fmt.Sprintf("hz=%d", hz), int(seconds)+2, victim("phases"),
				fmt.Sprint(seconds), fmt.Sprint(run+1))
			n := float64(truth["total"]) / float64(max(time.Second/time.Duration(hz), tick))
			var seen, burnt [3]float64
			for i, f := range functions {
				seen[i], burnt[i] = float64(cpuOf(p, f)), float64(truth[f])
			}
			all, allTrue := seen[0]+seen[1]+seen[2], burnt[0]+burnt[1]+burnt[2]
			if all == 0 {
				t.Fatalf("%d Hz: nothing of the victim in the profile:%s\n%s", hz, top(p, 5, nil), comments(p))
			}
			for i, f := range functions {
				share := burnt[i] / allTrue
				off := seen[i]/all - share
				sigma := math.Sqrt(share * (1 - share) / n)
				sum[i] += off
				abs[i] += math.Abs(off)
				bound[i] = max(0.005, 3*sigma/math.Sqrt(float64(runs)))
				worst = max(worst, math.Abs(off)/sigma)
				if math.Abs(off) > 3*sigma {
					over3++
				}
				if math.Abs(off) > 4*sigma {
					t.Errorf("%d Hz, run %d: %s has %.2f %% of the samples and %.2f %% of the CPU: %.1f sigma",
						hz, run, f, 100*seen[i]/all, 100*share, off/sigma)
				}
			}
			// The threads alone: main was still calibrating when the window opened.
			sampled := cpuOf(p, "run")
			total := float64(sampled)/float64(truth["total"]) - 1
			sumTotal += total
			worstTotal = max(worstTotal, math.Abs(total))
			// Each of two threads may be off by a period at its beginning.
			within(t, fmt.Sprintf("%d Hz, run %d: total", hz, run), sampled, truth["total"], 0.01,
				3*max(time.Second/time.Duration(hz), tick))
		}
		r := float64(runs)
		for i, f := range functions {
			t.Logf("%4d Hz %-10s mean share error %+.3f points, mean absolute %.3f", hz, f, 100*sum[i]/r, 100*abs[i]/r)
			if runs >= 10 && math.Abs(sum[i]/r) > bound[i] {
				t.Errorf("%d Hz: %s: mean share error %+.3f points, allowed %.3f", hz, f, 100*sum[i]/r, 100*bound[i])
			}
		}
		t.Logf("%4d Hz worst run %.2f sigma (%d of %d beyond 3), total error mean %+.2f %%, worst %.2f %%", hz, worst,
			over3, 3*runs, 100*sumTotal/r, 100*worstTotal)
	}
}

// Threads that live for 2 ms, a fifth of the period: what no sample covers must still be in the total, under the
// thread's start routine. SHORT_THREADS=10000 is the long form.
func TestShortThreadsAreCounted(t *testing.T) {
	count := int(number("SHORT_THREADS", 1000))
	p, truth := measure(t, "hz=100", count*2/1000+2, victim("shortthreads"), fmt.Sprint(count), "2", "2")
	want := truth["threads"] + truth["main"]
	within(t, "total", cpu(p, nil), want, 0.05, 0)
	inThreads := cpuOf(p, "short_start", "short_work")
	within(t, "under the start routine", inThreads, truth["threads"], 0.08, 0)
	t.Logf("%d threads: total %v of %v (%+.2f %%), under the start routine %v of %v, of it %s %v", count, cpu(p, nil), want,
		100*(float64(cpu(p, nil))/float64(want)-1), inThreads, truth["threads"], threadExit, cpuOf(p, threadExit))
	if t.Failed() {
		t.Log(top(p, 8, nil))
	}
}

// A second of CPU with every signal blocked is not charged to the line that unblocks them.
func TestBlockedSecondIsNotChargedToTheUnblocker(t *testing.T) {
	const allowed = 50 * time.Millisecond
	t.Run("raw", func(t *testing.T) {
		p, truth := measure(t, "hz=100", 3, victim("blocker"), "raw")
		if d := cpuOf(p, "unblock_here"); d > allowed {
			t.Errorf("unblock_here is charged %v", d)
		}
		within(t, signalsBlocked, cpuOf(p, signalsBlocked), truth["blocked"], 0.02, 2*10*time.Millisecond)
		within(t, "burn_open", cpuOf(p, "burn_open"), truth["open"], 0.1, 3*10*time.Millisecond)
		within(t, "total", cpu(p, nil), truth["blocked"]+truth["open"], 0.02, 2*10*time.Millisecond)
		if t.Failed() {
			t.Log(top(p, 8, nil))
		}
	})
	// Through libc the agent keeps its own signal out of the set, so the function that burns is seen itself.
	for _, mode := range []string{"mask", "born"} {
		t.Run(mode, func(t *testing.T) {
			p, truth := measure(t, "hz=100", 3, victim("blocker"), mode)
			if d := cpuOf(p, "unblock_here"); d > allowed {
				t.Errorf("unblock_here is charged %v", d)
			}
			within(t, "burn_blocked", cpuOf(p, "burn_blocked"), truth["blocked"], 0.05, 3*10*time.Millisecond)
			within(t, "burn_open", cpuOf(p, "burn_open"), truth["open"], 0.1, 3*10*time.Millisecond)
			if t.Failed() {
				t.Log(top(p, 8, nil))
			}
		})
	}
}

// Starting programs (posix_spawn, vfork, system, popen, execs that fail) does not end the sampling of who starts them.
func TestSpawningDoesNotEndSampling(t *testing.T) {
	x := start(t, nil, victim("spawner"), "10")
	f := x.profileOn("seconds=8&hz=250")
	x.open()
	waitFor(t, time.Minute, "the end of burning", func() bool { return strings.Contains(x.out.String(), "spawned\n") }, nil)
	p, whole := f.sawAll()
	x.finish()
	if !whole {
		t.Skip("the machine is too busy: the victim took longer than the profile")
	}
	within(t, "after_spawning in two threads", cpuOf(p, "after_spawning"), time.Second, 0.05, 20*time.Millisecond)
	if strings.Contains(x.out.String(), "BROKEN") {
		t.Error(x.out)
	}
}

// More threads at once than any table of ours would hold at first, each running for less than a period. All still live
// at the end of the window, so a third of their CPU, on a loaded machine two thirds, lies behind their last sample (an
// expired timer is noticed at a later scheduler tick only, if the thread still runs then): it must be in the total all
// the same, under their start routine. Less than a fifth in samples would mean threads without a timer.
func TestManyThreadsAtOnce(t *testing.T) {
	const threads, each = 600, 8
	// On a busy machine the threads burn for longer.
	for _, seconds := range []int{7, 40} {
		p, whole := profileOfMany(t, threads, each, seconds)
		if whole {
			judgeMany(t, p, threads*each*time.Millisecond)
			return
		}
	}
	t.Skip("the machine is too busy: the threads burnt longer than the profile")
}

// profileOfMany is a profile of threads that burn each ms, and whether all of that was in its window.
func profileOfMany(t *testing.T, threads, each, seconds int) (*profile.Profile, bool) {
	t.Helper()
	x := start(t, nil, victim("named"), fmt.Sprint(threads), "numbered", fmt.Sprint(each))
	f := x.profileOn(fmt.Sprintf("seconds=%d&hz=100", seconds))
	x.open()
	waitFor(t, time.Minute, "the end of burning", func() bool { return strings.Contains(x.out.String(), "named ") }, nil)
	p, whole := f.sawAll()
	x.finish()
	return p, whole
}

func judgeMany(t *testing.T, p *profile.Profile, truth time.Duration) {
	t.Helper()
	sampled, all := cpuOf(p, "named_work"), cpuOf(p, "named_start")
	t.Logf("%v of %v, of it %v in samples\n%s", all, truth, sampled, comments(p))
	within(t, "under the start routine", all, truth, 0.05, 0)
	if sampled < truth/5 {
		t.Errorf("only %v of %v is in samples: threads were left out", sampled, truth)
	}
	if t.Failed() {
		t.Log(top(p, 6, nil))
	}
}
