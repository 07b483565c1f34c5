// SPDX-License-Identifier: Apache-2.0

// Promise: scraped without end, sixteen at a time and back to back, of a program that makes ever new stacks, no request
// is refused, every profile has its own window and all of its CPU, and the target's memory stays as it is.
//
// TORTURE_SECONDS: how long; 140 are more than 2,000 profiles. TORTURE_LOG: a file for the figures.
package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

const scrapeRSSMayGrow = 6 << 20

func tortureSeconds(otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv("TORTURE_SECONDS")); err == nil {
		return n
	}
	return otherwise
}

func residentBytes(pid int) int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// descriptors is the longest list of any thread: the agent's threads have their own.
func descriptors(pid int) int {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/fd", pid))
	most := 0
	for _, dir := range tasks {
		if fds, err := os.ReadDir(dir); err == nil {
			most = max(most, len(fds))
		}
	}
	return most
}

var ownCPU = regexp.MustCompile(`own CPU ([0-9.]+) ms of ([0-9]+) ms`)

// targetCPU is what the process used in the profile's window, less the agent's own, by the process's clock.
func targetCPU(p *profile.Profile) time.Duration {
	for _, c := range p.Comments {
		if m := ownCPU.FindStringSubmatch(c); m != nil {
			own, _ := strconv.ParseFloat(m[1], 64)
			all, _ := strconv.ParseFloat(m[2], 64)
			return time.Duration((all - own) * 1e6)
		}
	}
	return 0
}

// note is a figure that a person may want: to the test's log, and to the file TORTURE_LOG.
func note(t *testing.T, format string, args ...any) {
	t.Logf(format, args...)
	if f, err := os.OpenFile(os.Getenv("TORTURE_LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
		fmt.Fprintf(f, format+"\n", args...)
		f.Close()
	}
}

type scrape struct {
	sync.Mutex
	took, duration []time.Duration
	share          []float64 // of the target's CPU that is in the profile
	errs           []time.Duration
	stacks         int
}

func (s *scrape) check(t *testing.T, a *answer, hz int) {
	p, err := parseStrictly(a.body)
	if err != nil {
		t.Errorf("hz=%d: %v", hz, err)
		return
	}
	if p.Period != int64(time.Second)/int64(hz) {
		t.Errorf("hz=%d: period %d", hz, p.Period)
	}
	s.Lock()
	defer s.Unlock()
	s.duration = append(s.duration, time.Duration(p.DurationNanos))
	s.stacks += len(p.Sample)
	if want := targetCPU(p); want > 0 && hz == 1000 {
		s.share = append(s.share, float64(cpu(p, nil))/float64(want))
		s.errs = append(s.errs, cpu(p, nil)-want)
	}
}

func TestScrapedWithoutEnd(t *testing.T) {
	const places, parseOneOf = 16, 8
	seconds := tortureSeconds(30)
	x := start(t, nil, victim("freshstacks"), "2")
	var s scrape
	var n atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for i := range places {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for round := 0; time.Now().Before(end); round++ {
				hz := []int{100, 1000}[(i+round)%2]
				a, err := ask(x.addr, "GET", fmt.Sprintf("%sprofile?seconds=1&hz=%d", root, hz), "", nil)
				if err != nil || a.status != 200 {
					t.Errorf("request %d: %v %v", n.Load(), err, a)
					return
				}
				n.Add(1)
				s.Lock()
				s.took = append(s.took, a.took)
				s.Unlock()
				if (i+round)%parseOneOf < 2 {
					s.check(t, a, hz)
				}
			}
		}()
	}
	var rss []int64
	var fds []int
	for time.Now().Before(end) {
		time.Sleep(500 * time.Millisecond)
		rss = append(rss, residentBytes(x.pid()))
		fds = append(fds, descriptors(x.pid()))
	}
	wg.Wait()
	s.judge(t, int(n.Load()))
	third := len(rss) / 3
	middle, late := slices.Max(rss[third:2*third]), slices.Max(rss[2*third:])
	note(t, "resident %d KiB, later %d KiB; descriptors %d, later %d", middle>>10, late>>10,
		slices.Max(fds[third:2*third]), slices.Max(fds[2*third:]))
	if late > middle+scrapeRSSMayGrow {
		t.Errorf("resident memory grew from %d to %d KiB", middle>>10, late>>10)
	}
	if slices.Max(fds[2*third:]) > slices.Max(fds[third:2*third])+places {
		t.Errorf("descriptors grew")
	}
	if hasTimers(x.pid()) {
		t.Error("timers remain after the last profile")
	}
}

// quantile sorts v.
func quantile[T time.Duration | float64](v []T, q float64) T {
	slices.Sort(v)
	return v[int(q*float64(len(v)-1))]
}

func (s *scrape) judge(t *testing.T, n int) {
	if len(s.duration) == 0 || len(s.share) == 0 {
		t.Fatal("no profile was read")
	}
	note(t, "%d profiles; answered after %v (median), %v (99 %%), %v (slowest)", n, quantile(s.took, 0.5),
		quantile(s.took, 0.99), quantile(s.took, 1))
	note(t, "%d read: %d stacks each; windows %v to %v, median %v; %.4f (median) of the CPU in them, %.4f to %.4f",
		len(s.duration), s.stacks/len(s.duration), quantile(s.duration, 0), quantile(s.duration, 1),
		quantile(s.duration, 0.5), quantile(s.share, 0.5), quantile(s.share, 0), quantile(s.share, 1))
	// A window ends when its thread wakes; on a machine with more to do than processors that is late by time slices.
	if quantile(s.duration, 0) < time.Second {
		t.Errorf("a window of %v", quantile(s.duration, 0))
	}
	if d := quantile(s.duration, 0.5); d > 1100*time.Millisecond {
		t.Errorf("windows of %v (median)", d)
	}
	// In the middle nothing is missing. The agent leaves unsettled what chance explains, 26 ms for two threads, and reads
	// one clock after the other.
	if m := quantile(s.share, 0.5); m < 0.99 || m > 1.01 {
		t.Errorf("%.4f of the CPU (median)", m)
	}
	note(t, "CPU in the profile less CPU used: %v (median), %v to %v in 9 of 10", quantile(s.errs, 0.5),
		quantile(s.errs, 0.05), quantile(s.errs, 0.95))
	if low, high := quantile(s.errs, 0.05), quantile(s.errs, 0.95); low < -30*time.Millisecond || high > 30*time.Millisecond {
		t.Errorf("CPU in the profiles is off by %v to %v", low, high)
	}
}
