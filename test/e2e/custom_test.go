// SPDX-License-Identifier: Apache-2.0

// Promise: a profile that the program makes is served as those that Go programs make with pprof.NewProfile are: its
// count in the index, stacks of those who added what is in it now, text, and a delta.
package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

func (x *target) awaitLine(line string) {
	x.t.Helper()
	waitFor(x.t, 20*time.Second, line, func() bool { return strings.Contains(x.out.String(), line) }, x.out.String)
}

// leaves sums the values by leaf function.
func leaves(p *profile.Profile) string {
	sums := map[string]int64{}
	for _, s := range p.Sample {
		sums[stack(s)[0]] += s.Value[0]
	}
	return fmt.Sprint(sums)
}

func TestProfilesOfTheProgramsOwn(t *testing.T) {
	x := start(t, nil, victim("pools"))
	x.awaitLine("ready")
	for _, name := range []string{"github.com/me/pool.Conn", "a/.b", "63 letters"} {
		want(t, "what the program was told", x.out.String(), "\n"+name+": new\n")
	}
	for _, name := range []string{"heap", "profile", "cmdline", "wall", "", "a b", "../x", "a//b", "/a", "a/", "a/..", "x%41", `"`, "<b>", "64 letters"} {
		want(t, "what the program was told", x.out.String(), "\n"+name+": refused\n")
	}
	if strings.Contains(x.out.String(), "db.connections: new") {
		t.Error("a name was given twice")
	}
	want(t, "what the program was told", x.out.String(), "\ntwice: 1, NULL: 1\n")

	p := x.named("db.connections")
	if got := leaves(p); got != "map[pools_borrow:1 pools_take:5]" {
		t.Errorf("holders %s", got)
	}
	if len(p.SampleType) != 1 || *p.SampleType[0] != (profile.ValueType{Type: "db.connections", Unit: "count"}) ||
		*p.PeriodType != *p.SampleType[0] || p.Period != 1 {
		t.Errorf("types %v, period %d %v", p.SampleType, p.Period, p.PeriodType)
	}
	a := x.get("/debug/pprof/db.connections")
	if d := a.header.Get("Content-Disposition"); d != `attachment; filename="db.connections"` {
		t.Errorf("Content-Disposition %s", d)
	}
	text := string(x.get("/debug/pprof/db.connections?debug=1").body)
	if !strings.HasPrefix(text, "db.connections profile: total 6\n5 @ 0x") {
		t.Errorf("debug=1: %.200s", text)
	}
	_, counts := indexed(x)
	if counts["db.connections"] != 6 || counts["empty"] != 0 {
		t.Errorf("the index counts %v", counts)
	}
	if n := len(x.named("empty").Sample); n != 0 {
		t.Errorf("an empty profile has %d samples", n)
	}
	x.named("github.com/me/pool.Conn")

	delta := make(chan *profile.Profile)
	go func() { delta <- x.named("db.connections?seconds=2") }()
	time.Sleep(500 * time.Millisecond)
	x.open()
	x.awaitLine("more")
	if got := leaves(<-delta); got != "map[pools_take:10]" && got != "map[]" {
		t.Errorf("delta %s", got)
	}
	if got := leaves(x.named("db.connections")); got != "map[pools_borrow:1 pools_take:15]" {
		t.Errorf("holders %s after more", got)
	}
	x.open()
	x.awaitLine("\nall:")
	if n := len(x.named("db.connections").Sample); n != 0 {
		t.Errorf("%d samples after all was given back", n)
	}
	// Names may run out, but not before there are 50 of them: those above are among the 64.
	var n int
	fmt.Sscanf(x.out.String()[strings.Index(x.out.String(), "\nall:")+1:], "all: %d", &n)
	if n < 50 || n > 64 {
		t.Errorf("%d more profiles could be made", n)
	}
	x.finish()
}

func TestGoToolReadsAProfileOfTheProgramsOwn(t *testing.T) {
	x := start(t, nil, victim("pools"))
	x.awaitLine("ready")
	want(t, "-top", mustPprof(t, "-top", "http://"+x.addr+"/debug/pprof/db.connections"), "Type: db.connections", "pools_take", "main")
	x.open()
	x.open()
	x.finish()
}
