// SPDX-License-Identifier: Apache-2.0

// Promise: threadcreate counts every thread at the stack that created it, ended ones included and failed attempts not;
// threads that nobody was seen creating stand under a name of their own, never without a stack.
package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// creations sums the counts by the first function whose name begins with spawn_, or is a marker.
func creations(t *testing.T, p *profile.Profile) map[string]int64 {
	t.Helper()
	if len(p.SampleType) != 1 || p.SampleType[0].Type != "threadcreate" || p.SampleType[0].Unit != "count" ||
		p.PeriodType.Type != "threadcreate" || p.PeriodType.Unit != "count" || p.Period != 1 {
		t.Errorf("types %v, period %v %d", p.SampleType, p.PeriodType, p.Period)
	}
	by := map[string]int64{}
	for _, s := range p.Sample {
		names := stack(s)
		if len(names) == 0 {
			t.Error("a record without a stack")
			continue
		}
		for _, name := range names {
			if strings.HasPrefix(name, "spawn_") || strings.HasPrefix(name, "[") {
				by[name] += s.Value[0]
				break
			}
		}
		if !strings.HasPrefix(names[0], "[") && ((names[0] != "spawn" && names[0] != "spawn_c11") || !roots(names[len(names)-1])) {
			t.Errorf("not the creator's whole stack: %v", names)
		}
	}
	return by
}

func TestThreadcreateCountsEveryThread(t *testing.T) {
	x := start(t, nil, victim("creators"))
	x.awaitReady()
	want := map[string]int64{
		"spawn_quick": 200, "spawn_pool": 16, "spawn_parents": 8, "spawn_children": 24, "spawn_c11": 4,
		"[program start]": 1, "[unknown creator]": 1,
	}
	same := func(when string, got map[string]int64) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, expected %v", when, got, want)
		}
	}
	same("at first", creations(t, x.named("threadcreate")))
	same("again", creations(t, x.named("threadcreate")))
	done := make(chan *profile.Profile)
	go func() { done <- x.named("threadcreate?seconds=2") }()
	time.Sleep(500 * time.Millisecond) // the delta has begun
	x.open()
	waitFor(t, 10*time.Second, "later", func() bool { return strings.Contains(x.out.String(), "later") }, nil)
	if got := creations(t, <-done); len(got) != 1 || got["spawn_later"] != 30 {
		t.Errorf("the delta has %v", got)
	}
	want["spawn_later"] = 30
	p := x.named("threadcreate")
	same("later", creations(t, p))

	text := string(x.get(root + "threadcreate?debug=1").body)
	if !strings.HasPrefix(text, "threadcreate profile: total 284\n200 @ 0x") || strings.Contains(text, "@\n") {
		t.Errorf("debug=1 begins %.200q", text)
	}
	if q, err := profile.ParseData([]byte(text)); err != nil {
		t.Errorf("pprof cannot read debug=1: %v", err)
	} else if len(q.Sample) != len(p.Sample) {
		t.Errorf("pprof reads %d records from debug=1, %d from the profile", len(q.Sample), len(p.Sample))
	}
	if index := string(x.get(root).body); !strings.Contains(index, "<tr><td>284</td><td><a href='threadcreate?debug=1'>") {
		t.Error("the index does not count 284 threads")
	}
	byCreator := map[string]int{}
	all, _ := x.dump()
	for _, g := range all {
		byCreator[g.creator]++
		if g.creator != "" && g.creatorTid == 0 {
			t.Errorf("created by %s, in which thread?", g.creator)
		}
	}
	if byCreator["spawn"] != 16+8+24 || byCreator["spawn_c11"] != 4 || byCreator[""] != 2 {
		t.Errorf("live threads by creator: %v", byCreator)
	}
	x.finish()
}
