// SPDX-License-Identifier: Apache-2.0

// Promise: a wall profile charges to each thread the time that passed, where it was; and costs at most 2 % of a CPU.
package e2e

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

func checkWallTypes(t *testing.T, p *profile.Profile) {
	t.Helper()
	if len(p.SampleType) != 2 || p.SampleType[0].Type != "samples" || p.SampleType[0].Unit != "count" ||
		p.SampleType[1].Type != "wall" || p.SampleType[1].Unit != "nanoseconds" ||
		p.PeriodType.Type != "wall" || p.PeriodType.Unit != "nanoseconds" || p.DurationNanos <= 0 {
		t.Errorf("types %v, period %v, duration %d", p.SampleType, p.PeriodType, p.DurationNanos)
	}
	var count, ns int64
	for _, s := range p.Sample {
		count += s.Value[0]
		ns += s.Value[1]
	}
	if math.Abs(float64(count*p.Period-ns)) > float64(p.Period) {
		t.Errorf("%d samples of %d ns are not %d ns", count, p.Period, ns)
	}
}

func TestWallIsWhereTheTimeGoes(t *testing.T) {
	x := start(t, nil, victim("wallshare"))
	x.open()
	time.Sleep(100 * time.Millisecond)
	p := x.named("wall?seconds=5")
	x.finish()
	checkWallTypes(t, p)
	window := time.Duration(p.DurationNanos)
	by := map[string]time.Duration{}
	for _, s := range p.Sample {
		by[strings.Join(s.Label["thread"], ",")] += time.Duration(s.Value[1])
		for _, part := range []string{"part_nap", "part_burn", "part_sleep", "part_wait", "part_gate"} {
			if contains(s, named(part)) {
				by[part] += time.Duration(s.Value[1])
			}
		}
	}
	for _, thread := range []string{"mixed", "sleeper", "waiter", "wallshare"} {
		within(t, thread, by[thread], window, 0.01, 20*time.Millisecond)
	}
	// When its time is over a sleeper may wait for a CPU, which is no sleep.
	within(t, "part_sleep", by["part_sleep"], window, 0.1, 30*time.Millisecond)
	within(t, "part_wait", by["part_wait"], window, 0.01, 20*time.Millisecond)
	within(t, "part_gate", by["part_gate"], window, 0.01, 20*time.Millisecond)
	// What the thread measured in the whole of its life, as shares. Some 200 looks at least: a standard deviation of 3.5 %.
	truth := map[string]float64{}
	for _, m := range regexp.MustCompile(`mixed (part_\w+) (\d+)`).FindAllStringSubmatch(x.out.String(), -1) {
		truth[m[1]], _ = strconv.ParseFloat(m[2], 64)
	}
	want := truth["part_nap"] / (truth["part_nap"] + truth["part_burn"])
	got := float64(by["part_nap"]) / float64(by["part_nap"]+by["part_burn"])
	t.Logf("naps: %.3f of the time, profile %.3f\n%s", want, got, comments(p))
	if math.Abs(got-want) > 0.12 {
		t.Errorf("naps take %.3f of the time, the profile says %.3f", want, got)
	}
}

func TestWallIsServedAsFgprof(t *testing.T) {
	x := start(t, nil, victim("wallshare"))
	a := x.get("/debug/fgprof?seconds=1")
	if a.status != 200 || a.took < time.Second || a.took > 3*time.Second {
		t.Fatalf("%d after %v", a.status, a.took)
	}
	p, err := parseStrictly(a.body)
	if err != nil {
		t.Fatal(err)
	}
	checkWallTypes(t, p)
	isErr(t, x.get(root+"wall?hz=0"), 400, "invalid value for \"hz\" - must be an integer from 1 to 1000\n")
}

func TestWallOfAThousandThreadsCostsLittle(t *testing.T) {
	x := start(t, nil, victim("sleepers"), "still", "1000", "0")
	x.awaitReady()
	x.named("wall?seconds=1") // symbols are read
	before := cpuTime(x.pid())
	p := x.named("wall?seconds=5")
	cost := cpuTime(x.pid()) - before
	checkWallTypes(t, p)
	var sum, whole time.Duration
	for _, s := range p.Sample {
		sum += time.Duration(s.Value[1])
		if names := stack(s); roots(names[len(names)-1]) {
			whole += time.Duration(s.Value[1])
		}
	}
	t.Logf("%v of CPU in 5 s\n%s", cost, comments(p))
	within(t, "all threads", sum, 1001*time.Duration(p.DurationNanos), 0.01, 0)
	within(t, "in whole stacks", whole, sum, 0.001, 0)
	// Whoever sleeps on is walked once, and looks stop at 1 % of a CPU by the agent's own clock, however loaded the machine:
	// that holds but for the one round that was under way.
	var threads, looks, closer, ms float64
	for _, c := range p.Comments {
		fmt.Sscanf(c, "pprofagent: %g threads, %g looks, %g of them closer; %g", &threads, &looks, &closer, new(float64))
		if i := strings.Index(c, "the looks took "); i >= 0 {
			fmt.Sscanf(c[i:], "the looks took %g ms", &ms)
		}
	}
	if looks < 2*threads || closer > 1.1*threads || ms == 0 || ms > 20*time.Duration(p.DurationNanos).Seconds() {
		t.Errorf("%g looks at %g threads, %g of them closer, took %g ms", looks, threads, closer, ms)
	}
	// All the rest, names included. Measured: 70 to 150 ms; the bar is the benchmark's affair, this is for what has gone wrong.
	if cost > 400*time.Millisecond {
		t.Errorf("looking at 1,000 sleepers for 5 s took %v of CPU", cost)
	}
}

// cpuTime is what the process used, in the kernel's 10 ms.
func cpuTime(pid int) time.Duration {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 14 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}
