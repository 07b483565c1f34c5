// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/exp/trace"
)

// traceWhile starts a trace, calls during once it runs, and gives what came.
func (x *target) traceWhile(query string, during func()) *answer {
	x.t.Helper()
	done := make(chan *answer, 1)
	failed := make(chan error, 1)
	go func() {
		a, err := ask(x.addr, "GET", "/debug/pprof/trace?"+query, "", nil)
		if err != nil {
			failed <- err
			return
		}
		done <- a
	}()
	waitFor(x.t, 20*time.Second, "timers of a trace", func() bool { return len(done) > 0 || hasTimers(x.pid()) },
		func() string { return x.err.String() })
	if during != nil {
		during()
	}
	select {
	case a := <-done:
		return a
	case err := <-failed:
		x.t.Fatal(err)
	}
	return nil
}

// goLife is what a trace shows of one thread.
type goLife struct {
	label              string
	root               string // outermost function of its first stack
	created, destroyed trace.Time
	creator            trace.GoID
	creation           []string
	lastTo             trace.GoState
	lastAt             trace.Time
	lastReason         string
	lastStack          []string
	samples            int
}

func rootOf(fs []string) string {
	if len(fs) == 0 {
		return ""
	}
	return fs[len(fs)-1]
}

func stackFunctions(s trace.Stack) (fs []string) {
	s.Frames(func(f trace.StackFrame) bool {
		fs = append(fs, f.Func)
		return true
	})
	return fs
}

func livesOf(events []trace.Event) map[trace.GoID]*goLife {
	lives := map[trace.GoID]*goLife{}
	of := func(id trace.GoID) *goLife {
		if lives[id] == nil {
			lives[id] = &goLife{}
		}
		return lives[id]
	}
	for _, e := range events {
		switch e.Kind() {
		case trace.EventStackSample:
			of(e.Goroutine()).samples++
		case trace.EventLabel:
			of(e.Label().Resource.Goroutine()).label = e.Label().Label
		case trace.EventStateTransition:
			st := e.StateTransition()
			if st.Resource.Kind != trace.ResourceGoroutine {
				continue
			}
			g := of(st.Resource.Goroutine())
			from, to := st.Goroutine()
			if from == trace.GoNotExist && to == trace.GoRunnable {
				g.created, g.creator, g.creation = e.Time(), e.Goroutine(), stackFunctions(e.Stack())
			}
			if to == trace.GoNotExist {
				g.destroyed = e.Time()
			}
			fs := stackFunctions(st.Stack)
			if g.root == "" {
				g.root = rootOf(fs)
			}
			g.lastTo, g.lastAt, g.lastReason, g.lastStack = to, e.Time(), st.Reason, fs
		}
	}
	return lives
}

// Promise: threads that wait all the time are shown so, with what they wait for and where; newborns with who created them;
// runners with their samples; who has left its start routine, as long as it is there; each once, under its name. The last
// event is at the window's end.
func TestTraceShowsLives(t *testing.T) {
	const children, seconds = 1000, 3
	x := start(t, nil, victim("tracelives"), strconv.Itoa(children))
	x.awaitAddr()
	waitFor(t, 20*time.Second, "the victim's threads", func() bool { return strings.Contains(x.out.String(), "ready") }, x.err.String)
	var begin, end trace.Time
	a := x.traceWhile(fmt.Sprintf("seconds=%d", seconds), func() {
		time.Sleep(200 * time.Millisecond) // timers run a moment before all else is recorded
		x.open()
		waitFor(t, 60*time.Second, "children", func() bool { return strings.Contains(x.out.String(), "done") }, x.err.String)
		out := x.out.String()
		fmt.Sscanf(out[strings.Index(out, "done"):], "done %d %d", &begin, &end)
	})
	if n, err := strconv.Atoi(a.header.Get("Content-Length")); a.status != 200 || err != nil || n != len(a.body) {
		t.Fatalf("status %d, Content-Length %q, %d bytes", a.status, a.header.Get("Content-Length"), len(a.body))
	}
	events, strict, err := readTrace(a.body)
	if err != nil {
		t.Fatal(err)
	}
	t0, t1 := events[0].Time(), events[len(events)-1].Time()
	if length := t1.Sub(t0); length < seconds*time.Second-time.Millisecond {
		t.Errorf("the window is %v long", length)
	}
	born := 0
	named := map[string]*goLife{}
	for id, g := range livesOf(events) {
		if id == trace.NoGoroutine {
			continue
		}
		if named[g.label] != nil && g.label != "child" {
			t.Errorf("%q twice: %+v, %+v", g.label, named[g.label], g)
		}
		named[g.label] = g
		if g.root == "" {
			t.Errorf("goroutine %d, %q, has no stack", id, g.label)
		}
		if g.root != "child_routine" {
			continue
		}
		born++
		if g.created == 0 || g.created >= g.destroyed || !slices.Contains(g.creation, "create_children") {
			t.Errorf("child %d: from %v to %v, created at %v", id, g.created, g.destroyed, g.creation)
		}
	}
	if begin < t0 || end > t1 {
		t.Logf("children were made from %d to %d, the window is %d to %d", begin, end, t0, t1)
	} else if born != children {
		t.Errorf("%d children", born)
	}
	// main, four threads, one child, one that is leaving; and ours.
	if strict.procs > 9 {
		t.Errorf("%d processors", strict.procs)
	}
	for name, want := range map[string]struct{ reason, at, root string }{
		"sleeper": {"sync (pthread_cond_wait)", "wait_for_ever", "sleeper"}, "reader": {"network", "read_pipe", "reader"}} {
		g := named[name]
		if g == nil {
			t.Errorf("no %s", name)
			continue
		}
		if g.lastTo != trace.GoWaiting || g.lastReason != want.reason || !slices.Contains(g.lastStack, want.at) ||
			g.root != want.root || g.lastAt.Sub(t0) > time.Millisecond {
			t.Errorf("%s: %v for %q at %v since %v", name, g.lastTo, g.lastReason, g.lastStack, g.lastAt.Sub(t0))
		}
	}
	if g := named["spinner"]; g == nil || g.root != "spinner" || g.samples < 5 || g.lastTo == trace.GoWaiting {
		t.Errorf("spinner: %+v", g)
	}
	if g := named["leaver"]; g == nil || g.root != "leaver" || g.destroyed != 0 || g.lastTo != trace.GoWaiting || g.lastReason != "network" ||
		!slices.Contains(g.lastStack, "hold_on") {
		t.Errorf("leaver: %+v", g)
	}
	checkMetrics(t, events, strict)
	x.finish()
}

func checkMetrics(t *testing.T, events []trace.Event, strict *strictTrace) {
	t.Helper()
	metrics := map[string][]uint64{}
	for _, e := range events {
		if e.Kind() == trace.EventMetric {
			metrics[e.Metric().Name] = append(metrics[e.Metric().Name], e.Metric().Value.Uint64())
		}
	}
	if p := metrics["/sched/gomaxprocs:threads"]; len(p) != 1 || p[0] != strict.procs {
		t.Errorf("gomaxprocs %v, there are %d", p, strict.procs)
	}
	if h := metrics["/memory/classes/heap/objects:bytes"]; len(h) < 2 || h[0] < 60<<20 || h[0] > 70<<20 {
		t.Errorf("heap %v", h)
	}
}

// Promise: every page of the tool that users have answers, and its profiles are made.
func TestGoToolServesTraces(t *testing.T) {
	x := start(t, nil, victim("tracelives"), "20")
	x.awaitAddr()
	name := filepath.Join(t.TempDir(), "trace")
	a := x.traceWhile("seconds=0.5", x.open)
	if err := os.WriteFile(name, a.body, 0o600); err != nil || a.status != 200 {
		t.Fatal(a.status, err)
	}
	x.finish()
	for _, kind := range []string{"net", "sync", "syscall", "sched"} {
		if out, err := exec.Command("go", "tool", "trace", "-pprof="+kind, name).Output(); err != nil || len(out) < 20 {
			t.Errorf("-pprof=%s: %v, %d bytes", kind, err, len(out))
		}
	}
	addr := freePort(t)
	tool := exec.Command("go", "tool", "trace", "-http="+addr, name)
	tool.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said buffer
	tool.Stderr = &said
	if err := tool.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		syscall.Kill(-tool.Process.Pid, syscall.SIGKILL)
		tool.Wait()
	}()
	fetch := func(page string) (int, string) {
		resp, err := http.Get("http://" + addr + page)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	waitFor(t, 60*time.Second, "go tool trace", func() bool { status, _ := fetch("/"); return status == 200 }, said.String)
	for page, want := range map[string]string{"/jsontrace?view=proc": "spinner", "/jsontrace?view=thread": "tid",
		"/goroutines": "wait_for_ever|sleeper", "/goroutine?name=reader": "network", "/mmu": "", "/usertasks": "", "/userregions": "",
		"/block?raw=1": "", "/io?raw=1": "", "/syscall?raw=1": "", "/sched?raw=1": ""} {
		status, body := fetch(page)
		if status != 200 || !regexp.MustCompile(want).MatchString(body) {
			t.Errorf("%s: %d, %.200s", page, status, body)
		}
		if strings.Contains(body, "no stack trace sampled") {
			t.Errorf("%s: a goroutine without a name", page)
		}
	}
}

// Promise: as Go says: one trace at a time; seconds is a float, what is none means 1; and a perfetto file is served.
func TestTraceContract(t *testing.T) {
	x := start(t, nil, victim("tracelives"), "1")
	x.awaitAddr()
	x.traceWhile("seconds=2", func() {
		a := x.get("/debug/pprof/trace?seconds=0.1")
		if hasTimers(x.pid()) && (a.status != 500 || !strings.HasPrefix(string(a.body), "Could not enable tracing: ")) {
			t.Errorf("a second trace: %d %.100s", a.status, a.body)
		}
	})
	for _, c := range []struct {
		query string
		least time.Duration
	}{{"seconds=0.05", 50 * time.Millisecond}, {"seconds=junk", time.Second}, {"", time.Second}} {
		a := x.get("/debug/pprof/trace?" + c.query)
		if a.status != 200 || a.took < c.least || a.header.Get("Content-Type") != "application/octet-stream" ||
			a.header.Get("Content-Disposition") != `attachment; filename="trace"` {
			t.Errorf("%s: %d after %v, %v", c.query, a.status, a.took, a.header)
		}
		events, _, err := readTrace(a.body)
		if err != nil {
			t.Errorf("%s: %v", c.query, err)
		} else if length := events[len(events)-1].Time().Sub(events[0].Time()); length < c.least-time.Millisecond {
			t.Errorf("%s: a window of %v", c.query, length)
		}
	}
	x.open()
	x.finish()
}
