// SPDX-License-Identifier: Apache-2.0

// Promise: samples carry the thread's name with digits collapsed, at most 32 values of it; tid only when asked; and
// the profile says in its comments what was lost and what the agent cost, or that there was nothing to see.
package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

func profileNamed(t *testing.T, query string, args ...string) (*profile.Profile, map[string]time.Duration, []string) {
	t.Helper()
	x := start(t, nil, append([]string{victim("named")}, args...)...)
	f := x.profileOn(query)
	x.open()
	waitFor(t, time.Minute, "the end of burning", func() bool { return strings.Contains(x.out.String(), "named") }, nil)
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", x.pid()))
	var tids []string
	for _, e := range entries {
		tids = append(tids, e.Name())
	}
	p, whole := f.sawAll()
	x.finish()
	if !whole {
		t.Skip("the machine is too busy: the threads burnt longer than the profile")
	}
	byName := map[string]time.Duration{}
	for _, s := range p.Sample {
		byName[strings.Join(s.Label["thread"], ",")] += time.Duration(s.Value[1])
	}
	return p, byName, tids
}

func TestThreadNamesWithDigitsAreOneLabel(t *testing.T) {
	p, byName, _ := profileNamed(t, "seconds=2&hz=250", "12", "numbered")
	var workers []string
	for name := range byName {
		if strings.HasPrefix(name, "worker") {
			workers = append(workers, name)
		}
	}
	if len(workers) != 1 || strings.ContainsAny(workers[0], "0123456789") {
		t.Errorf("twelve numbered workers are %q", workers)
	} else {
		within(t, workers[0], byName[workers[0]], 12*30*time.Millisecond, 0.3, 50*time.Millisecond)
	}
	for _, s := range p.Sample {
		if s.NumLabel["tid"] != nil || s.Label["tid"] != nil {
			t.Fatal("a tid though none was asked for")
		}
	}
}

func TestAtMost32ThreadNames(t *testing.T) {
	_, byName, _ := profileNamed(t, "seconds=4&hz=250", "60", "lettered")
	if len(byName) > 32 || len(byName) < 20 {
		t.Errorf("60 names became %d labels", len(byName))
	}
	var total time.Duration
	for _, d := range byName {
		total += d
	}
	within(t, "all of them", total, 60*30*time.Millisecond, 0.1, 100*time.Millisecond)
}

func TestTidOnlyWhenAsked(t *testing.T) {
	p, _, tids := profileNamed(t, "seconds=1&hz=250&labels=tid", "4", "numbered")
	known := map[string]bool{}
	for _, tid := range tids {
		known[tid] = true
	}
	seen := map[int64]bool{}
	for _, s := range p.Sample {
		if contains(s, named(notCovered, threadExit)) {
			continue // accounts of several threads
		}
		tid := s.NumLabel["tid"]
		if len(tid) != 1 {
			t.Fatalf("a sample with tids %v:%s", tid, top(p, 3, nil))
		}
		seen[tid[0]] = true
		if contains(s, named("named_work")) && !known[strconv.FormatInt(tid[0], 10)] {
			t.Errorf("tid %d is no thread of the target", tid[0])
		}
	}
	if len(seen) < 4 {
		t.Errorf("four threads burnt, %d tids were seen", len(seen))
	}
}

func TestIdleTargetSaysSo(t *testing.T) {
	x := start(t, nil, victim("idle"))
	p := x.profile("seconds=1")
	if len(p.Sample) != 0 {
		t.Errorf("an idle target has samples:%s", top(p, 5, nil))
	}
	if !strings.Contains(comments(p), "no CPU was used; try goroutine or wall") {
		t.Errorf("comments: %s", comments(p))
	}
	if len(p.SampleType) != 2 || len(p.Mapping) == 0 || p.Mapping[0].File != victim("idle") {
		t.Errorf("an empty profile must still say whose it is: %v", p.Mapping)
	}
}

func TestCommentsTellLossAndCost(t *testing.T) {
	x := start(t, nil, victim("spin"), "2", "0")
	c := comments(x.profile("seconds=1"))
	for _, word := range []string{"lost", "truncated", "agent"} {
		if !strings.Contains(strings.ToLower(c), word) {
			t.Errorf("comments do not mention %q:\n%s", word, c)
		}
	}
	t.Log(c)
}
