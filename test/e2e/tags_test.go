// SPDX-License-Identifier: Apache-2.0

// Promise: labels that the program sets reach its CPU, wall, heap and thread profiles as pprof's labels do in Go, are
// inherited by the threads it creates, and are what go tool pprof calls tags.
package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// The victim's truth: CPU time and MiB that its threads keep, by their labels.
var tagged = []struct {
	op, tenant string
	cpu        time.Duration
	mib        int64
	threads    int64
}{
	{"get", `"a" b`, 600 * time.Millisecond, 15, 2},
	{"put", "", 600 * time.Millisecond, 30, 1},
	{"", "", 300 * time.Millisecond, 20, 1},
}

func label(s *profile.Sample, key string) string { return strings.Join(s.Label[key], ",") }

// byTags adds up value i of the samples through a function.
func byTags(p *profile.Profile, i int, function string) map[[2]string]int64 {
	sums := map[[2]string]int64{}
	for _, s := range p.Sample {
		if contains(s, named(function)) {
			sums[[2]string{label(s, "op"), label(s, "tenant")}] += s.Value[i]
		}
	}
	return sums
}

func TestLabelsOfTheProgramReachItsProfiles(t *testing.T) {
	x := start(t, []string{"PPROF_HEAP_RATE=1"}, victim("tagged"))
	f := x.profileOn("seconds=4&hz=250")
	x.open()
	waitFor(t, time.Minute, "the end of burning", func() bool { return strings.Contains(x.out.String(), "tagged") }, nil)
	cpu, whole := f.sawAll()
	heap := x.heap("heap")
	threads := x.named("goroutine")
	wall := x.named("wall?seconds=1")
	text := string(x.get("/debug/pprof/goroutine?debug=1").body)
	dump := string(x.get("/debug/pprof/goroutine?debug=2").body)

	heapSums, threadSums := byTags(heap, inuseSpace, "tagged_keep"), byTags(threads, 0, "tagged_start")
	cpuSums, wallSums := byTags(cpu, 1, "tagged_work"), byTags(wall, 1, "tagged_start")
	for _, want := range tagged {
		key := [2]string{want.op, want.tenant}
		if got := heapSums[key]; got != want.mib<<20 {
			t.Errorf("heap %q: %d bytes, kept %d MiB", key, got, want.mib)
		}
		if got := threadSums[key]; got != want.threads {
			t.Errorf("goroutine %q: %d threads of %d", key, got, want.threads)
		}
		if whole {
			within(t, "cpu "+strings.Join(key[:], " "), time.Duration(cpuSums[key]), want.cpu, 0.1, 50*time.Millisecond)
		}
		if wallSums[key] == 0 {
			t.Errorf("wall %q: nothing", key)
		}
	}
	if len(heapSums) != len(tagged) || len(threadSums) != len(tagged) {
		t.Errorf("heap %v, threads %v", heapSums, threadSums)
	}
	for _, want := range []string{`# labels: {"op":"get", "tenant":"\"a\" b", "thread":"tagged"}`, `# labels: {"op":"put", "thread":"tagged"}`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("debug=1 has no line %s:\n%s", want, text)
		}
	}
	if !strings.Contains(dump, `"tagged"] {"op": "get", "tenant": "\x22a\x22 b"}:`+"\n") {
		t.Errorf("debug=2 does not show labels:\n%s", dump)
	}
	x.finish()
}

func TestGoToolShowsTheProgramsLabels(t *testing.T) {
	x := start(t, []string{"PPROF_HEAP_RATE=1"}, victim("tagged"))
	x.open()
	waitFor(t, time.Minute, "the end of burning", func() bool { return strings.Contains(x.out.String(), "tagged") }, nil)
	file := filepath.Join(t.TempDir(), "heap")
	mustPprof(t, "-proto", "-output="+file, "http://"+x.addr+"/debug/pprof/heap")
	want(t, "-tags", mustPprof(t, "-tags", file), "op: Total", "put", "get", "tenant: Total")
	want(t, "-tagfocus", mustPprof(t, "-top", "-tagfocus=op=put", file), "30MB", "tagged_keep")
	want(t, "-tagignore", mustPprof(t, "-top", "-tagignore=op=put", "-focus=tagged_keep", file), "35MB")
	x.finish()
}
