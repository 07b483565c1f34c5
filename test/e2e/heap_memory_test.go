// SPDX-License-Identifier: Apache-2.0

// Promise: at its memory limit the heap profiler loses resolution and not truth: stacks it knows go on counting, new ones
// are charged to [other stacks], the live heap is sampled more thinly, and totals stay what they are.
package e2e

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

const otherStacks = "[other stacks]"

var keptForProfiles = regexp.MustCompile(`(\d+) KiB of at most (\d+) KiB for profiles`)

func withinItsMemory(t *testing.T, when string, p *profile.Profile) {
	t.Helper()
	m := keptForProfiles.FindStringSubmatch(comments(p))
	if m == nil {
		t.Fatalf("%s: no account of memory in %s", when, comments(p))
	}
	used, _ := strconv.Atoi(m[1])
	limit, _ := strconv.Atoi(m[2])
	t.Logf("%s: %s; %d records", when, m[0], len(p.Sample))
	if used > limit || limit != 1024 {
		t.Errorf("%s: %d KiB used of %d", when, used, limit)
	}
}

func TestHeapAtItsMemoryLimit(t *testing.T) {
	const known, fresh, live = 500, 60000, 600000
	x := start(t, []string{"PPROF_HEAP_RATE=1", "PPROF_MAX_MEMORY=1"}, victim("allocfull"))
	phase := func(n int) *profile.Profile {
		t.Helper()
		x.open()
		waitFor(t, time.Minute, "phase", func() bool { return strings.Count(x.out.String(), "done") >= n },
			func() string { return x.out.String() + x.err.String() })
		p := x.heap("heap")
		withinItsMemory(t, "phase "+strconv.Itoa(n), p)
		return p
	}
	// The known blocks are fewer than half the table's 3,200 places: until the third phase nothing is sampled more thinly.
	is := func(what string, got heapValues, want ...int64) {
		t.Helper()
		if !slices.Equal(got[:], want) {
			t.Errorf("%s: %v in the profile, %v in truth (%v)", what, got, want, heapNames)
		}
	}
	p := phase(1)
	is("full_known", heapOf(p, "full_known"), known, known*100, known, known*100)
	p = phase(2)
	is("full_known", heapOf(p, "full_known"), 2*known, 2*known*100, 2*known, 2*known*100)
	v := heapOf(p, "full_fresh")
	other := heapOf(p, otherStacks)
	v.add(other[:])
	if other[allocObjects] == 0 {
		t.Errorf("nothing in %s", otherStacks)
	}
	t.Logf("%s: %v", otherStacks, other)
	// What libc allocated itself may have gone there as well.
	if v[allocObjects] < fresh || v[allocObjects] > fresh+20 || v[inuseObjects] > 20 {
		t.Errorf("fresh stacks and %s: %v in the profile, %d objects of 60 bytes in truth, none live", otherStacks, v, fresh)
	}
	p = phase(3)
	is("full_known", heapOf(p, "full_known"), 2*known, 2*known*100, 2*known, 2*known*100)
	v = heapOf(p, "full_live")
	all := heapOf(p, otherStacks)
	for i := range v {
		v[i] += all[i] - other[i]
	}
	t.Logf("full_live and what is new in %s: %v\n%s", otherStacks, v, comments(p))
	// The rate doubles with every hundred samples, a 32nd of the room. The last doubling, to R, has half of all bytes B, so
	// B is about 200 R, and the variance 100 R^2 (1 + 1/4 + ...) is that of 5.8 %; where groups of places fill up early there
	// are as few as 30: 11 %. Four sigma.
	for i, want := range []float64{live, live * 100, live, live * 100} {
		if off := float64(v[i])/want - 1; math.Abs(off) > 0.45 {
			t.Errorf("full_live: %s is off by %+.1f %%", heapNames[i], 100*off)
		}
	}
	if m := regexp.MustCompile(`(\d+) lost`).FindStringSubmatch(comments(p)); m == nil || len(m[1]) > 2 {
		t.Errorf("blocks are lost rather than sampled more thinly: %s", comments(p))
	}
	x.finish()
}
