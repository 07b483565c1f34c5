// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// wakeUp: how long one took, in nanoseconds, as measured right around libc's functions (behind the agent, by
// victims/genuine.c), around the hooks (by the program itself), and in the trace.
type wakeUp struct{ within, around, shown int64 }

// halt, in nanoseconds, between the clocks around a function and those around its hook: somebody else ran there, for longer
// than most wake-ups take. Which of the times it falls into is chance, so such a one only has to lie between.
const halt = 20000

var wakeKinds = []string{"post", "signal", "unlock", "barrier", "futex"}

// wakeUpsOf reads what the victim measured, by kind.
func wakeUpsOf(out string, runnable map[int][]span) map[string][]wakeUp {
	all := map[string][]wakeUp{}
	for _, line := range strings.Split(out, "\n") {
		var kind string
		var tid int
		var at, end, genuineAt, genuineEnd int64
		if _, err := fmt.Sscanf(line, "wake %s %d %d %d %d %d", &kind, &tid, &at, &end, &genuineAt, &genuineEnd); err != nil {
			continue
		}
		w := wakeUp{within: genuineEnd - genuineAt, around: end - at}
		of := runnable[tid]
		for i := sort.Search(len(of), func(i int) bool { return of[i].begin >= at }); i < len(of) && of[i].begin < end; i++ {
			w.shown += of[i].end - of[i].begin
		}
		all[kind] = append(all[kind], w)
	}
	return all
}

// schedOf: what go tool trace -pprof=sched says, by function of the waker.
func schedOf(t *testing.T, file []byte) map[string]int64 {
	t.Helper()
	out, err := exec.Command("go", "version").Output()
	var minor int
	m := regexp.MustCompile(`go1\.(\d+)`).FindSubmatch(out)
	if err == nil && m != nil {
		fmt.Sscan(string(m[1]), &minor)
	}
	if minor < 26 {
		t.Logf("%s: older tools let a wake-up last to the next event with a stack; not compared", bytes.TrimSpace(out))
		return nil
	}
	name := filepath.Join(t.TempDir(), "trace")
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = exec.Command("go", "tool", "trace", "-pprof=sched", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.ParseData(out)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]int64{}
	for _, s := range p.Sample {
		for _, l := range s.Location {
			for _, f := range l.Line {
				if kind, ok := strings.CutPrefix(f.Function.Name, "wake_"); ok {
					sums[kind] += s.Value[1]
				}
			}
		}
	}
	return sums
}

// Promise: how long a thread was runnable before it ran (go tool trace: scheduler latency) is what was measured right
// around the functions that wake and that wait, to 5 %.
func TestTraceWakeUpsAreTrue(t *testing.T) {
	x := start(t, []string{"PPROF_TRACE_BUFFER=30s", "LD_PRELOAD=" + library + ":" + victim("genuine")}, victim("tracewakes"))
	awaitOutput(x, "ready")
	x.open()
	awaitOutput(x, "done")
	a := x.get("/debug/pprof/trace?last=25")
	events, _, err := readTrace(a.body)
	if a.status != 200 || err != nil {
		t.Fatal(a.status, err)
	}
	runnable := map[int][]span{} // of a thread, in the order of time
	for _, s := range spansOf(events) {
		if s.state == "runnable" {
			runnable[s.tid] = append(runnable[s.tid], s)
		}
	}
	all, sched := wakeUpsOf(x.out.String(), runnable), schedOf(t, a.body)
	for _, kind := range wakeKinds {
		var within, around, shown, total, outside, halted int64
		for _, w := range all[kind] {
			total += w.shown
			// The trace's clock is read between the other two; times that would be equal differ by 1 or 2 ns.
			if w.shown < w.within-2 || w.shown > w.around+2 {
				outside++
			}
			if w.around-w.within > halt {
				halted++
				continue
			}
			within, around, shown = within+w.within, around+w.around, shown+w.shown
		}
		n := int64(len(all[kind]))
		kept := n - halted
		t.Logf("%-8s %d wake-ups: mean %d ns, %d in the trace, %d around the hooks; %d outside, %d halted between two clocks", kind, n,
			within/max(kept, 1), shown/max(kept, 1), around/max(kept, 1), outside, halted)
		// A waiter that found the lock free, or a futex that was woken before it slept, was woken by nobody: none in a
		// program that sleeps before it wakes, but for moments in which the sleeper lost its CPU.
		if n < 100 || outside*20 > n || halted*10 > n {
			t.Errorf("%s: of %d wake-ups %d are outside of what was measured, %d halted", kind, n, outside, halted)
		}
		// Four looks at the clock lie between both, 300 ns where caches are cold. What else one of them may catch, a
		// thread that loses its CPU just there, is part of what was measured around the hooks.
		if off := shown - within; off < 0 || off > within/20+300*kept && off > (around-within)/2 {
			t.Errorf("%s: %d ns in the trace, %d measured", kind, shown, within)
		}
		if off := sched[kind] - total; sched != nil && (off < -total/100 || off > total/100) {
			t.Errorf("%s: %d ns in go tool trace -pprof=sched, %d in the trace", kind, sched[kind], total)
		}
	}
	checkBirths(t, x.out.String(), runnable)
	x.finish()
}

// Promise: a thread is shown as created when it was let go, not before its stack was made.
func checkBirths(t *testing.T, out string, runnable map[int][]span) {
	t.Helper()
	n, early, late := 0, 0, 0
	for _, line := range strings.Split(out, "\n") {
		var tid int
		var first, genuineEnd int64
		if _, err := fmt.Sscanf(line, "birth %d %d %d", &tid, &first, &genuineEnd); err != nil || len(runnable[tid]) == 0 {
			continue
		}
		s := runnable[tid][0]
		n++
		if s.begin < min(genuineEnd, s.end-8) {
			early++
		}
		if s.end > first {
			late++
		}
	}
	t.Logf("%d births: %d shown too early, %d ran before they were shown to", n, early, late)
	if n < 50 || early > 0 || late > 0 {
		t.Errorf("%d births: %d shown too early, %d ran before they were shown to", n, early, late)
	}
}

// Promise: threads that wait more often than there is memory for lose the beginning of the window, not its end; and the file
// begins where everything is there.
func TestTraceThatOverflowsKeepsTheNewest(t *testing.T) {
	for _, c := range []struct {
		buffer, query string
	}{{"0", "seconds=3"}, {"30s", "last=20"}} {
		x := start(t, []string{"PPROF_MAX_MEMORY=24", "PPROF_TRACE_BUFFER=" + c.buffer}, victim("tracewakes"), "storm")
		awaitOutput(x, "ready")
		x.open()
		awaitOutput(x, "storm")
		if strings.HasPrefix(c.query, "last") {
			time.Sleep(3 * time.Second)
		}
		a := x.get("/debug/pprof/trace?" + c.query)
		events, _, err := readTrace(a.body)
		if a.status != 200 || err != nil {
			t.Fatal(a.status, err)
		}
		first, last := int64(events[0].Time()), int64(events[len(events)-1].Time())
		// In each quarter of what is shown, threads wait (in each 50 ms some, then they are too many to be kept).
		var quarters [4]int
		all, lost := 0, bytes.Contains(a.body, []byte("records lost"))
		for _, s := range spansOf(events) {
			if strings.Contains(s.state, "sem_wait") {
				quarters[min((s.begin-first)*4/(last-first+1), 3)]++
				all++
			}
		}
		t.Logf("buffer %s, %s: %d ms shown, %d waits, by quarters %v; lost: %v", c.buffer, c.query, (last-first)/1000000, all, quarters, lost)
		// 24 MiB hold 700,000 signs of waking, a second or two of them, half of which is taken back at a time. A machine that is
		// slow enough may not fill them.
		if all < 2000 {
			t.Errorf("%d waits in %d ms", all, (last-first)/1000000)
		}
		for i, n := range quarters {
			if n < all/50 && last-first < 2500000000 {
				t.Errorf("%d of %d waits in quarter %d", n, all, i)
			}
		}
		x.finish()
	}
}
