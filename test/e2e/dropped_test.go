// SPDX-License-Identifier: Apache-2.0

// Promise: of a process that gave up its privileges, of whose threads the kernel shows no system call to the process
// itself, dumps still tell who sleeps, where those stand that wait inside a hook of ours, and where runners are; and a trace
// shows no sleeper as running.
package e2e

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/exp/trace"
)

func startDropped(t *testing.T, args ...string) *target {
	if os.Getuid() != 0 && len(args) == 0 {
		t.Skip("only root has privileges to give up")
	}
	x := start(t, nil, append([]string{victim("dropped")}, args...)...)
	x.awaitAddr() // the file that tells it is written with privileges
	x.open()
	x.awaitOutput("\n")
	if strings.Contains(x.out.String(), "no privileges") {
		t.Skip("setuid is not permitted here")
	}
	return x
}

func TestDumpOfAProcessThatGaveUpItsPrivileges(t *testing.T) {
	x := startDropped(t)
	all, note := x.dump()
	want := map[string]struct{ state, frame string }{
		"waiter":  {"condition wait (", "wait_for_work"},
		"jumper":  {"waiting (", "no stack"}, // not where it once waited
		"napper":  {"waiting (", "no stack"},
		"dozer":   {"waiting (", "no stack"},
		"dropped": {"waiting (", "no stack"},
		"spinner": {"run", "spinner"},
	}
	for _, g := range all {
		w, ok := want[g.name]
		if !ok {
			t.Errorf("an unknown thread:\n%s", g.text)
			continue
		}
		delete(want, g.name)
		if !strings.HasPrefix(g.state, w.state) || !g.has(w.frame) {
			t.Errorf("want %q in %q:\n%s", w.frame, w.state, g.text)
		}
		if g.name == "waiter" && (g.frames[0] != "wait_for_work" || !g.has("clone")) {
			t.Errorf("not the whole stack:\n%s", g.text)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	if note.unreadable != 4 || note.unasked != 0 || note.cut != 0 {
		t.Errorf("%+v", note)
	}
	wall := x.named("wall?seconds=1")
	if d := cpuOf(wall, "wait_for_work"); d < 800*time.Millisecond || d > 1500*time.Millisecond {
		t.Errorf("%v of wall time in wait_for_work:%s", d, top(wall, 9, nil))
	}
	x.finish()
}

// ranIn is for how long a trace shows each thread as running, by name.
func ranIn(events []trace.Event) map[string]time.Duration {
	names, since := map[trace.GoID]string{}, map[trace.GoID]trace.Time{}
	ran := map[trace.GoID]time.Duration{}
	for _, e := range events {
		switch e.Kind() {
		case trace.EventLabel:
			names[e.Label().Resource.Goroutine()] = e.Label().Label
		case trace.EventStateTransition:
			st := e.StateTransition()
			if st.Resource.Kind != trace.ResourceGoroutine {
				continue
			}
			id := st.Resource.Goroutine()
			if begin, ok := since[id]; ok {
				ran[id] += e.Time().Sub(begin)
				delete(since, id)
			}
			if _, to := st.Goroutine(); to == trace.GoRunning {
				since[id] = e.Time()
			}
		}
	}
	by := map[string]time.Duration{}
	for id, name := range names {
		if begin, ok := since[id]; ok {
			ran[id] += events[len(events)-1].Time().Sub(begin)
		}
		by[name] = ran[id]
	}
	return by
}

// Nor of one that kept them: napper's wait of the window's beginning began before it, and its last one does not end in it.
func TestTraceShowsNoSleeperAsRunning(t *testing.T) {
	for name, args := range map[string][]string{"privileged": {"keep"}, "dropped": nil} {
		t.Run(name, func(t *testing.T) {
			x := startDropped(t, args...)
			time.Sleep(200 * time.Millisecond) // not in step with the naps
			events, _, err := readTrace(x.get("/debug/pprof/trace?seconds=2").body)
			if err != nil {
				t.Fatal(err)
			}
			ran := ranIn(events)
			for _, name := range []string{"waiter", "jumper", "napper", "dozer", "dropped"} {
				if d, ok := ran[name]; !ok || d > 100*time.Millisecond {
					t.Errorf("%s: shown as running for %v (shown at all: %v)", name, d, ok)
				}
			}
			if d := ran["spinner"]; d < time.Second {
				t.Errorf("spinner: shown as running for %v", d)
			}
			x.finish()
		})
	}
}
