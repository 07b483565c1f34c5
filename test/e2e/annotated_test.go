// SPDX-License-Identifier: Apache-2.0

// Promise: programs in C++, Rust and Python that annotate themselves do the same with and without the agent, and with it
// are seen: their labels in profiles, their own profile, and their tasks, regions and messages in the execution trace.
package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/exp/trace"
)

// annotated runs a test on each of the three programs.
func annotated(t *testing.T, test func(t *testing.T, command ...string)) {
	t.Run("C++", func(t *testing.T) { test(t, victim("annotated")) })
	t.Run("Rust", func(t *testing.T) {
		if _, err := os.Stat(victim("annotated_rust")); err != nil {
			t.Skip("no rustc of at least 1.66")
		}
		test(t, victim("annotated_rust"))
	})
	t.Run("Python", func(t *testing.T) { test(t, need(t, "/usr/bin/python3"), "../victims/annotated.py") })
}

func TestAnnotatedProgramsAreSeen(t *testing.T) {
	annotated(t, func(t *testing.T, command ...string) {
		bare := exec.Command(command[0], command[1:]...)
		bare.Stdin = strings.NewReader("go\ngo\n")
		if out, err := bare.CombinedOutput(); err != nil || string(out) != "served\n" {
			t.Fatalf("without the agent: %v, %q", err, out)
		}
		x := start(t, nil, command...)
		f := x.profileOn("seconds=2&hz=1000")
		x.open()
		x.awaitLine("served")
		byOp := map[string]int64{}
		p, whole := f.sawAll()
		for _, s := range p.Sample {
			byOp[label(s, "op")] += s.Value[1] / 1e6
		}
		// 140 ms of CPU, sampled once a millisecond.
		if whole && byOp["checkout"] < 70 {
			t.Errorf("milliseconds by label: %v", byOp)
		}
		threads := map[string]int64{}
		for _, s := range x.named("goroutine").Sample {
			threads[label(s, "op")] += s.Value[0]
		}
		if threads["wait"] != 1 || threads["checkout"] != 0 {
			t.Errorf("threads by label: %v", threads)
		}
		pool := x.named("db.connections")
		if len(pool.Sample) != 1 || pool.Sample[0].Value[0] != 1 {
			t.Errorf("db.connections: %v", pool.Sample)
		}
		x.finish()
		if x.out.String() != "served\n" {
			t.Errorf("output with the agent: %q", x.out)
		}
	})
}

// The flight recorder holds all that the program did since its gate opened, however slow the machine is.
func annotatedTrace(t *testing.T, command ...string) []byte {
	x := start(t, []string{"PPROF_TRACE_BUFFER=120s"}, command...)
	waitFor(t, time.Minute, "the flight recorder", func() bool { return x.get("/debug/pprof/trace?last=1").status == 200 }, nil)
	x.open()
	x.awaitLine("served")
	a := x.get("/debug/pprof/trace?last=120")
	if a.status != 200 {
		t.Fatalf("trace: %d %s", a.status, a.body)
	}
	x.finish()
	return a.body
}

func TestAnnotationsAreInTheTrace(t *testing.T) {
	annotated(t, func(t *testing.T, command ...string) {
		events, _, err := readTrace(annotatedTrace(t, command...))
		if err != nil {
			t.Fatal(err)
		}
		tasks := map[trace.TaskID]int{} // 1: begun, 2: ended, too
		regions, logs := map[string]int{}, map[string]int{}
		began := map[string]trace.Time{}
		for _, e := range events {
			switch e.Kind() {
			case trace.EventTaskBegin, trace.EventTaskEnd:
				if e.Kind() == trace.EventTaskBegin && e.Task().Type != "request" || e.Task().Parent != trace.NoTask {
					t.Errorf("task %v", e.Task())
				}
				tasks[e.Task().ID]++
			case trace.EventRegionBegin:
				if tasks[e.Region().Task] != 1 {
					t.Errorf("region %v is of no task", e.Region())
				}
				began[e.Region().Type] = e.Time()
			case trace.EventRegionEnd:
				regions[e.Region().Type]++
				least := map[string]time.Duration{"parse": 2 * time.Millisecond, "query": 5 * time.Millisecond}[e.Region().Type]
				if took := e.Time().Sub(began[e.Region().Type]); took < least || least == 0 {
					t.Errorf("region %v took %v, less than the CPU it used", e.Region(), took)
				}
			case trace.EventLog:
				l := e.Log()
				if l.Category == "db" && tasks[l.Task] != 1 {
					t.Errorf("message %v is of no task", l)
				}
				logs[l.Category+"="+l.Message]++
			}
		}
		for id, n := range tasks {
			if n != 2 {
				t.Errorf("task %d has %d ends and beginnings", id, n)
			}
		}
		if len(tasks) != 20 || regions["parse"] != 20 || regions["query"] != 20 || len(regions) != 2 {
			t.Errorf("%d tasks, regions %v", len(tasks), regions)
		}
		// Labels are messages, too: set, and put back to none.
		if got := fmt.Sprint(logs); got != `map[db=select "all":20 op=:20 op=checkout:20 op=wait:1]` {
			t.Errorf("messages %s", got)
		}
	})
}

// awaitURL: what go tool trace says it listens at; its output is read to the end.
func awaitURL(t *testing.T, output io.Reader) string {
	t.Helper()
	url := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if m := regexp.MustCompile(`http://[0-9.]+:[0-9]+`).FindString(lines.Text()); m != "" {
				select {
				case url <- m:
				default:
				}
			}
		}
	}()
	select {
	case u := <-url:
		return u
	case <-time.After(time.Minute):
		t.Fatal("go tool trace does not listen")
	}
	return ""
}

func TestGoToolTraceShowsAnnotations(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace")
	if err := os.WriteFile(file, annotatedTrace(t, victim("annotated")), 0o600); err != nil {
		t.Fatal(err)
	}
	tool := exec.Command("go", "tool", "trace", "-http=127.0.0.1:0", file)
	tool.Env = append(os.Environ(), "BROWSER=true", "DISPLAY=")
	tool.Stdout = nil
	output, err := tool.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tool.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		tool.Process.Kill()
		tool.Wait()
	}()
	url := awaitURL(t, output)
	for page, parts := range map[string][]string{
		"/usertasks":             {"request", ">20<"},
		"/usertask?type=request": {`log &#34;select \&#34;all\&#34;&#34;`, "parse", "query"},
		"/userregions":           {"parse", "query"},
		"/userregion?type=parse": {"parse"},
	} {
		resp, err := http.Get(url + page)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("%s: %d", page, resp.StatusCode)
		}
		want(t, fmt.Sprint("page ", page), string(body), parts...)
	}
}
