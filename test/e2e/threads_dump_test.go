// SPDX-License-Identifier: Apache-2.0

// Promise: a dump shows every thread of the target and none of ours, each stack whole and named, however the program was
// compiled; a thousand threads take 50 ms; and nobody's sleep ends early, late or with EINTR for it.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// The state that a way of test/victims/sleepers.h is shown in.
var stateOf = map[string]string{
	"poll": "poll", "big": "poll", "nanosleep": "sleep", "clock": "sleep", "futex": "futex wait", "epoll": "epoll wait",
	"sem": "futex wait|semaphore wait", "cond": "futex wait|condition wait", "select": "select", "read": "IO wait",
	"sleep": "sleep", "park": "futex wait", "condvar": "futex wait", "channel": "futex wait", "lock": "futex wait",
	"join": "futex wait|thread join", "joined": "sleep",
}

// checkSleeper: the stack goes from the call through nap_ and stay_ to the thread's start.
func checkSleeper(t *testing.T, g *goroutine) bool {
	t.Helper()
	if g.name == "spinner" {
		// Who is not scheduled in time cannot be asked.
		return g.has("spin_about") || g.has("sleepers_spin") || g.frames[0] == "[running]"
	}
	state := regexp.MustCompile("^(" + stateOf[g.name] + ")( \\(|$)")
	if g.name == "joined" {
		return g.has("sleep") && roots(g.frames[len(g.frames)-1]) && state.MatchString(g.state)
	}
	return g.has("nap_"+g.name) && g.has("stay") && roots(g.frames[len(g.frames)-1]) && state.MatchString(g.state)
}

func TestDumpNamesEverySleeper(t *testing.T) {
	for _, v := range []string{"sleepers", "sleepers_fast", "sleepers_kept", "sleepers_rust"} {
		t.Run(v, func(t *testing.T) {
			if _, err := os.Stat(victim(v)); err != nil {
				t.Skip("not compiled here")
			}
			x := start(t, nil, victim(v), "still", "120", "2")
			x.awaitReady()
			all, note := x.dump()
			threads := tasks(x.pid())
			main, bad := false, 0
			for _, g := range all {
				if g.tid == x.pid() {
					main = true
				} else if name := threads[g.tid]; name != g.name {
					t.Errorf("thread %d %q is shown as %q", g.tid, name, g.name)
				} else if !checkSleeper(t, &g) {
					if bad++; bad < 4 {
						t.Errorf("not whole, or not named:\n%s", g.text)
					}
				}
				if g.creator == "" && g.tid != x.pid() {
					t.Errorf("nobody created thread %d", g.tid)
				}
			}
			if !main {
				t.Error("the main thread is missing")
			}
			// The thread that reads lines is born when the dump's first names are looked up, after it was counted.
			agents := 0
			for _, name := range threads {
				if strings.HasPrefix(name, "pprof-") {
					agents++
				}
			}
			if len(all) != len(threads)-agents || note.ours > agents || note.ours < agents-1 {
				t.Errorf("%d threads and %d of the agent's; the kernel knows %d, of them %d of the agent's", len(all), note.ours,
					len(threads), agents)
			}
			if bad > 0 || note.cut > 0 || note.unreadable > 0 {
				t.Errorf("%d bad ones, and the agent says %+v", bad, note)
			}
			checkGoroutineProfile(t, x, len(all))
		})
	}
}

// checkGoroutineProfile: the other forms tell of the same threads.
func checkGoroutineProfile(t *testing.T, x *target, n int) {
	t.Helper()
	p := x.named("goroutine")
	if len(p.SampleType) != 1 || p.SampleType[0].Type != "goroutine" || p.SampleType[0].Unit != "count" ||
		p.PeriodType.Type != "goroutine" || p.PeriodType.Unit != "count" || p.Period != 1 || p.DurationNanos != 0 {
		t.Errorf("types %v, period %v %d", p.SampleType, p.PeriodType, p.Period)
	}
	var sum int64
	seen := map[string]bool{}
	for _, s := range p.Sample {
		sum += s.Value[0]
		key := fmt.Sprint(s.Label)
		for _, l := range s.Location {
			key += fmt.Sprintf(" %x", l.Address)
		}
		if len(s.Label["thread"]) != 1 || seen[key] {
			t.Errorf("labels %v of %v, or twice the same", s.Label, stack(s))
		}
		seen[key] = true
	}
	if sum != int64(n) {
		t.Errorf("the profile has %d threads, the dump %d", sum, n)
	}
	text := string(x.get(root + "goroutine?debug=1").body)
	if !strings.HasPrefix(text, fmt.Sprintf("goroutine profile: total %d\n", n)) {
		t.Errorf("debug=1 begins %.60q, of %d threads", text, n)
	}
	index := string(x.get(root).body)
	if !strings.Contains(index, fmt.Sprintf("<tr><td>%d</td><td><a href='goroutine?debug=1'>", n)) {
		t.Errorf("the index does not count %d threads", n)
	}
	// May be negative, which the strict reader does not like.
	d, err := profile.ParseData(x.get(root + "goroutine?seconds=1").body)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range d.Sample {
		if names := stack(s); !strings.HasPrefix(names[0], "[") && !contains(s, named("spin_about", "sleepers_spin")) {
			t.Errorf("nothing changed, and the delta has %d of %v", s.Value[0], names)
		}
	}
}

// places tells where on the kernel's list each thread of a process is.
func places(t *testing.T, pid int) map[int]int {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(0)
	if err != nil {
		t.Fatal(err)
	}
	at := map[int]int{}
	for i, name := range names {
		tid, _ := strconv.Atoi(name)
		at[tid] = i
	}
	return at
}

// descents counts how often the next thread is one that the kernel lists before.
func descents(all []goroutine, place map[int]int) (n int) {
	for k := 1; k < len(all); k++ {
		if place[all[k].tid] < place[all[k-1].tid] {
			n++
		}
	}
	return n
}

// The processor's time is judged, as the clock's depends on who else wants to run: here nine threads of the target.
func TestDumpOfAThousandThreads(t *testing.T) {
	x := start(t, nil, victim("sleepers"), "still", "990", "9")
	x.awaitReady()
	took, cpu := time.Hour, time.Hour
	threads := tasks(x.pid())
	place := places(t, x.pid())
	for i := 0; i < 6; i++ {
		all, note := x.dump()
		// Several of the agent's threads share the work: each thread once, in the kernel's order, but those behind the
		// others that had to be waited for.
		once, awaited := map[int]bool{}, 0
		for k, g := range all {
			if once[g.tid] {
				t.Errorf("dump %d: thread %d is there twice", i, g.tid)
			}
			once[g.tid] = true
			if threads[g.tid] != g.name && g.tid != x.pid() {
				t.Errorf("dump %d: thread %d %q is shown as %q", i, g.tid, threads[g.tid], g.name)
			}
			if k > 0 && place[g.tid] < place[all[k-1].tid] {
				awaited = len(all) - k
			}
		}
		if turns := descents(all, place); turns > 1 || awaited > 10 {
			t.Errorf("dump %d: order changes %d times, %d threads stand behind the others", i, turns, awaited)
		}
		if len(all) != 1000 || note.cut != 0 {
			t.Fatalf("%d threads: %+v", len(all), note)
		}
		for _, g := range all {
			if g.tid != x.pid() && !checkSleeper(t, &g) {
				t.Fatalf("dump %d: not whole, or not named:\n%s", i, g.text)
			}
		}
		took, cpu = min(took, note.took), min(cpu, note.cpu)
	}
	t.Logf("the quickest of 6 dumps took %v, %v of CPU", took, cpu)
	if cpu > 40*time.Millisecond {
		t.Errorf("a dump costs %v of CPU", cpu)
	}
}

// Who has not run since the last dump is not read again. Who has, is: from one sleep to another, and under a new name.
func TestDumpSeesWhoMoved(t *testing.T) {
	x := start(t, nil, need(t, "/usr/bin/python3"), "-c", `
import sys, time
print("ready", flush=True)
sys.stdin.readline()
open("/proc/thread-self/comm", "w").write("renamed")
time.sleep(1000)`)
	x.awaitReady()
	main := func() goroutine {
		all, _ := x.dump()
		for _, g := range all {
			if g.tid == x.pid() {
				return g
			}
		}
		t.Fatal("the main thread is missing")
		return goroutine{}
	}
	before := main()
	if again := main(); again.state != before.state || strings.Join(again.frames, " ") != strings.Join(before.frames, " ") {
		t.Errorf("nothing moved, and\n%s\nbecame\n%s", before.text, again.text)
	}
	if !strings.HasPrefix(before.state, "IO wait (read)") {
		t.Fatalf("it is to read a line:\n%s", before.text)
	}
	x.open()
	var now goroutine
	waitFor(t, 30*time.Second, "sleep", func() bool { now = main(); return strings.HasPrefix(now.state, "sleep") },
		func() string { return now.text })
	if now.name != "renamed" || strings.Join(now.frames, " ") == strings.Join(before.frames, " ") {
		t.Errorf("after it moved on:\n%s", now.text)
	}
}

var sleepersLine = regexp.MustCompile(`interrupted (\d+), early (\d+), late (\d+), broken (\d+); by own signals (-?\d+) too few`)

// The victim counts every sleep that did not end as it should, while it is dumped and looked at all the time. Beside it
// runs the same program without the agent: what is late there as well is the machine's fault.
func TestDumpsEndNoSleep(t *testing.T) {
	dumps, seconds := longer("DUMPS", 60), longer("WALL_SECONDS", 5)
	x := start(t, nil, victim("sleepers"), "count", "990", "2")
	x.awaitReady()
	control := exec.Command(victim("sleepers"), "count", "100", "0")
	in, _ := control.StdinPipe()
	out := &buffer{}
	control.Stdout = out
	if err := control.Start(); err != nil {
		t.Fatal(err)
	}
	defer control.Process.Kill()
	var took []float64
	for i := 0; i < dumps; i++ {
		_, note := x.dump()
		took = append(took, note.took.Seconds()*1000)
		if note.unreadable != 0 {
			t.Errorf("%+v", note)
		}
	}
	sort.Float64s(took)
	x.named(fmt.Sprintf("wall?seconds=%d", seconds))
	in.Write([]byte("\n"))
	in.Close()
	x.finish()
	control.Wait()
	t.Logf("dumps took %.1f ms (median), at most %.1f\nwith the agent: %s%swithout: %s", took[len(took)/2], took[len(took)-1], x.out, x.err, out)
	with, without := sleepersLine.FindStringSubmatch(x.out.String()), sleepersLine.FindStringSubmatch(out.String())
	if with == nil || without == nil {
		t.Fatal("no counts")
	}
	for i, what := range []string{"interrupted", "early", "late", "broken", "not ended by its own signal"} {
		n, _ := strconv.Atoi(with[i+1])
		machine, _ := strconv.Atoi(without[i+1])
		if n != 0 && what == "late" && machine != 0 {
			t.Logf("%d late, but %d without the agent as well", n, machine)
		} else if n != 0 {
			t.Errorf("%d sleeps were %s", n, what)
		}
	}
}
