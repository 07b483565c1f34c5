// SPDX-License-Identifier: Apache-2.0

// What the writers of execution traces make of invented input: whatever is lost, doubled or nonsense, a file that every
// reader takes.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/exp/trace"
)

func traceFile(t *testing.T, format string, seed, threads, records, lost, nonsense int) []byte {
	t.Helper()
	out := os.Getenv("OUT")
	if out == "" {
		out = filepath.Dir(library)
	}
	name := filepath.Join(t.TempDir(), "trace")
	args := []string{format}
	for _, n := range []int{seed, threads, records, lost, nonsense} {
		args = append(args, strconv.Itoa(n))
	}
	if output, err := exec.Command(filepath.Join(out, "torture", "tracefile"), append(args, name)...).CombinedOutput(); err != nil {
		t.Fatalf("tracefile %v: %v: %s", args, err, output)
	}
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func traceSeeds(otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv("TRACE_SEEDS")); err == nil {
		return n
	}
	return otherwise
}

// goMinor is the machine's Go release, as in 1.26.
func goMinor(t *testing.T) int {
	t.Helper()
	version, err := exec.Command("go", "env", "GOVERSION").Output()
	if err != nil {
		t.Fatal(err)
	}
	var minor int
	fmt.Sscanf(string(version), "go1.%d", &minor)
	return minor
}

// Promise: whatever subset of records is lost, and whatever nonsense is among them, both readers take the file.
func TestTraceFilesAreValidWhateverIsLost(t *testing.T) {
	for _, c := range []struct{ threads, records, lost, nonsense int }{
		{3, 20, 0, 0}, {30, 30, 0, 0}, {8, 60, 30, 0}, {8, 60, 10, 10}, {6, 20, 30, 60}, {1, 0, 0, 0}, {40, 4, 50, 0},
	} {
		for seed := 1; seed <= traceSeeds(30); seed++ {
			if _, _, err := readTrace(traceFile(t, "22", seed, c.threads, c.records, c.lost, c.nonsense)); err != nil {
				t.Errorf("tracefile 22 %d %d %d %d %d: %v", seed, c.threads, c.records, c.lost, c.nonsense, err)
			}
		}
	}
}

// Promise: what contradicts nothing is all in the file: no wait, sample or word of the program is dropped but by loss.
func TestTraceFilesAreComplete(t *testing.T) {
	events, strict, err := readTrace(traceFile(t, "22", 7, 10, 400, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	count := map[trace.EventKind]int{}
	wokenByOthers := 0
	for _, e := range events {
		count[e.Kind()]++
		if e.Kind() != trace.EventStateTransition || e.StateTransition().Resource.Kind != trace.ResourceGoroutine {
			continue
		}
		from, to := e.StateTransition().Goroutine()
		if from == trace.GoWaiting && to == trace.GoRunnable && e.Goroutine() != e.StateTransition().Resource.Goroutine() {
			wokenByOthers++
		}
	}
	if count[trace.EventStackSample] != strict.samples || strict.samples < 300 {
		t.Errorf("%d samples, %d in the file", count[trace.EventStackSample], strict.samples)
	}
	if wokenByOthers < 500 {
		t.Errorf("%d were woken by others", wokenByOthers)
	}
	for _, kind := range []trace.EventKind{trace.EventMetric, trace.EventLabel, trace.EventTaskBegin, trace.EventTaskEnd,
		trace.EventRegionBegin, trace.EventRegionEnd, trace.EventLog} {
		if count[kind] < 10 {
			t.Errorf("%d of %v", count[kind], kind)
		}
	}
}

// Promise: the tool that users have reads it, in each header that it knows.
func TestGoToolReadsTraceFiles(t *testing.T) {
	minor := goMinor(t)
	tools := [][]string{{"go", "tool", "trace"}}
	for _, tool := range filepath.SplitList(os.Getenv("TRACE_TOOLS")) {
		tools = append(tools, []string{tool})
	}
	for _, header := range []int{22, 23, 25, 26} {
		if header > minor {
			continue
		}
		for seed := 1; seed <= 2; seed++ {
			name := filepath.Join(t.TempDir(), "trace")
			if err := os.WriteFile(name, traceFile(t, strconv.Itoa(header), seed, 6, 60, 20, 5), 0o600); err != nil {
				t.Fatal(err)
			}
			for i, tool := range tools {
				if i > 0 && header > 22 {
					continue // who knows which they read
				}
				out, err := exec.Command(tool[0], append(tool[1:], "-d=parsed", name)...).CombinedOutput()
				if err != nil { // before Go 1.24
					out, err = exec.Command(tool[0], append(tool[1:], "-d=1", name)...).CombinedOutput()
				}
				if err != nil || !strings.Contains(string(out), "pprofagent") {
					t.Errorf("%s, header %d, seed %d: %v: %.300s", tool, header, seed, err, out)
				}
				if header > 22 || seed > 1 {
					continue
				}
				for _, kind := range []string{"net", "sync", "syscall", "sched"} {
					if out, err := exec.Command(tool[0], append(tool[1:], "-pprof="+kind, name)...).Output(); err != nil || len(out) < 20 {
						t.Errorf("%s -pprof=%s, header %d, seed %d: %v", tool, kind, header, seed, err)
					}
				}
			}
		}
	}
}

// Promise: a file that was cut anywhere is refused, or read as empty, and hangs nobody.
func TestCutTraceFilesAreRefused(t *testing.T) {
	file := traceFile(t, "22", 3, 4, 20, 0, 0)
	for cut := 0; cut < len(file); cut += 1 + len(file)/200 {
		if _, _, err := readTrace(file[:cut]); err == nil {
			t.Errorf("%d of %d bytes are read without an error", cut, len(file))
		}
	}
}
